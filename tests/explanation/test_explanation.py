"""One explained sentence as text, picture, table and file, and in words and spans of its tokens."""

import csv
import math
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import xnmt_bench
from support.paths import ROOT
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.explanation import Explanation, Explanations, load_explanations

NAN = math.nan
INSEQ = ROOT / "tests" / "fixtures" / "inseq"
# inseq may stand in an environment of its own, whose Python INSEQ_PYTHON names.
READ = """
import sys, inseq
out = inseq.FeatureAttributionOutput.load(sys.argv[1])
[one] = out.sequence_attributions
print(list(one.source_attributions.shape), list(one.target_attributions.shape))
print(float(one.source_attributions[0, 1]), len(out.show(display=False, return_html=True)) > 1000)
"""


def made(prefix=True, **changes):
    """Two words of three source pieces, and two target words of three pieces."""
    explanation = Explanation(
        ["▁do", "or", "▁big", "</s>"],
        ["▁Tür", "▁gr", "oß", "</s>"],
        ["▁Tor", "▁gr", "oß", "</s>"],
        torch.tensor([0.5, 0.25, 0.5, 1.0]),
        torch.arange(16).reshape(4, 4) / 10.0,
        torch.tensor([[NAN] * 4, [0.1, NAN, NAN, NAN], [0.2, 0.3, NAN, NAN], [-0.4, 0.5, 0.6, NAN]])
        if prefix
        else None,
        "prediction_difference",
    )
    return replace(explanation, **changes)


def same(actual, other):
    """Whether two explanations hold the same, NaN where the other has it."""
    for name in ("probabilities", "source_TS", "prefix_TT"):
        a, b = getattr(actual, name), getattr(other, name)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    texts = ("source_tokens", "target_tokens", "labels", "explainer")
    return all(getattr(actual, name) == getattr(other, name) for name in texts)


def test_words():
    words = made().in_words()
    assert words.source_tokens == ["▁door", "▁big", "</s>"]
    assert words.target_tokens == ["▁Tür", "▁groß", "</s>"]
    assert words.labels == ["▁Tor", "▁groß", "</s>"]
    assert words.probabilities.tolist() == [0.5, 0.125, 1.0]
    # 0.4 + 0.5 and 0.8 + 0.9, and their mean.
    assert words.source_TS[1].tolist() == pytest.approx([1.3, 0.8, 0.9])
    expected = [[NAN, NAN, NAN], [0.15, NAN, NAN], [-0.4, 1.1, NAN]]
    np.testing.assert_allclose(words.prefix_TT.numpy(), expected, rtol=1e-6)
    assert made(prefix=False).in_words().prefix_TT is None


def test_a_word_is_explained_by_those_of_its_steps_that_are():
    partly = made().source_TS.clone()
    partly[1] = NAN  # as with `foil=gold`, where this piece is the target's own
    words = made(source_TS=partly).in_words()
    # Of the step that is left: 0.8 + 0.9, and the others.
    assert words.source_TS[1].tolist() == pytest.approx([1.7, 1.0, 1.1])


def test_pieces_of_subword_nmt_are_shown_without_their_marks():
    tokens = {"source_tokens": ["Hun@@", "d", "bellt", "</s>"], "target_tokens": ["do@@", "g"]}
    labels = {"labels": ["do@@", "g"], "probabilities": torch.ones(2)}
    marked = made(prefix=False, **tokens, **labels, source_TS=torch.ones(2, 4))
    assert marked.panel("").columns == ["Hun", "·d", "bellt", "</s>"]
    words = marked.in_words()
    assert words.source_tokens == ["Hund", "bellt", "</s>"] and words.labels == ["dog"]


@pytest.mark.parametrize(("by", "expected"), [("sum", 0.3), ("mean", 0.1), ("max", 0.2)])
def test_spans(by, expected):
    spanned = made().over(source=[(0, 3)], by=by)
    assert spanned.source_tokens == ["▁door▁big", "</s>"]
    assert spanned.source_TS[0].tolist() == pytest.approx([expected, 0.3])
    assert spanned.labels == made().labels
    np.testing.assert_array_equal(spanned.prefix_TT.numpy(), made().prefix_TT.numpy())


def test_some_of_several_are_shown_and_saved_as_all_are(tmp_path):
    several = Explanations([made(), made(), made(explainer="attention")])
    assert several[2].explainer == "attention"
    several[:2].save(tmp_path / "two.json")
    assert len(load_explanations(tmp_path / "two.json")) == 2


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture_without_an_explained_step_shows_the_words(tmp_path, suffix):
    nothing = made(source_TS=torch.full((4, 4), NAN), prefix_TT=torch.full((4, 4), NAN))
    nothing.save(tmp_path / f"nothing.{suffix}")
    assert (tmp_path / f"nothing.{suffix}").stat().st_size


def test_spans_of_a_sentence_in_context():
    """Its context's tokens have no steps, and stand before all of its own."""
    later = made(
        labels=["oß", "</s>"],
        probabilities=torch.tensor([0.5, 1.0]),
        source_TS=made().source_TS[2:],
        prefix_TT=made().prefix_TT[2:],
    )
    joined = later.over(target=[(0, 2)])
    assert joined.labels == ["oß", "</s>"]
    expected = [[0.5, NAN, NAN], [0.1, 0.6, NAN]]
    np.testing.assert_allclose(joined.prefix_TT.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("spans", "problem"),
    [
        ({"source": [(0, 5)]}, r"source span \(0, 5\): there are tokens 0 to 4"),
        ({"source": [(2, 2)]}, "there are tokens"),
        ({"target": [(0, 2), (1, 3)]}, r"target span \(1, 3\): overlaps the one before it"),
        ({"by": "median"}, "way to join relevance 'median'"),
    ],
)
def test_bad_spans(spans, problem):
    with pytest.raises(XnmtError, match=problem):
        made().over(**spans)


def test_frame():
    pytest.importorskip("pandas")
    frame = made().to_frame()
    assert list(frame.columns) == [
        "step", "label", "probability", "side", "position", "token", "relevance",
    ]  # fmt: skip
    assert len(frame) == 4 * 4 + (0 + 1 + 2 + 3)  # what a step cannot see has no row
    row = frame[(frame.step == 3) & (frame.side == "prefix") & (frame.position == 0)].iloc[0]
    assert (row.label, row.token, row.probability) == ("</s>", "▁Tür", 1.0)
    assert row.relevance == pytest.approx(-0.4)
    assert set(made(prefix=False).to_frame().side) == {"source"}


def test_frame_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(XnmtError, match=r"pandas is not installed: pip install 'xnmt_bench\[fr"):
        made().to_frame()


# The picture


def svg(html):
    """The figures of a picture, parsed."""
    start, stop = html.index("<svg"), html.rindex("</svg>") + 6
    return ElementTree.fromstring(f"<root>{html[start:stop]}</root>")


def test_picture():
    html = made()._repr_html_()
    [figure] = svg(html)
    named = [title.text for title in figure.iter() if title.tag.endswith("title")]
    assert "groß" not in html and "Tor ← door" not in html  # in pieces
    assert "</s> ← Tür: -0.4" in named and "Tor ← do: 0" not in named
    # Fourteen cells of the source's sixteen and all six of the prefix: one 0, one below a shade.
    assert len(named) == 15 + 6
    assert "prediction difference" in html and "hurts, with a dash" in html
    # A dark page has other colours, so the legend shows them and names none.
    assert not re.search(r"\b(blue|vermilion|orange|gr[ea]y|white)\b", html)
    assert html.count('<i style="background:') == 3
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")
    assert "<script" not in html


def test_text_cannot_leave_the_picture():
    bad = made(source_tokens=["▁<script>", "&", "▁\x00\ud800", "</s>"], explainer="<b>")
    html = bad._repr_html_()
    assert "<script" not in html and "<b>" not in html
    svg(html)
    html.encode()


def test_side_by_side():
    several = xnmt_bench.compare([made(), made(prefix=False), made(explainer="")])
    assert list(several.explanations) == [
        "prediction difference", "prediction difference (2)", "relevance",
    ]  # fmt: skip
    assert len(svg(several._repr_html_())) == 3
    assert str(several).count("Tor") == 3
    assert list(xnmt_bench.compare({"mine": made()}).explanations) == ["mine"]
    with pytest.raises(XnmtError, match="there is no explanation"):
        xnmt_bench.compare([])


def test_show_prints_outside_of_a_notebook(capsys):
    made().show()
    assert capsys.readouterr().out == f"{made()}\n"


def test_picture_of_a_dark_page(browser):
    """No label is lost: its colour is not that of the page."""
    html = made()._repr_html_()
    for scheme in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        browser.get("data:text/html;charset=utf-8," + html.replace("#", "%23"))
        ink, page = browser.execute_script(
            "const [text] = [...document.querySelectorAll('text')].slice(-1);"
            "return [getComputedStyle(text).fill,"
            "getComputedStyle(document.querySelector('.xnmt')).backgroundColor]"
        )
        brightness = [sum(map(int, colour[4:-1].split(", "))) for colour in (ink, page)]
        assert abs(brightness[0] - brightness[1]) > 400
        assert (brightness[1] < 200) == (scheme == "dark")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


# Files


@pytest.mark.parametrize("prefix", [True, False])
def test_round_trip(tmp_path, prefix):
    generator = torch.Generator().manual_seed(0)
    explanation = made(prefix, source_TS=torch.randn(4, 4, generator=generator))
    if prefix:
        # A step that the explainer left out.
        explanation.source_TS[1], explanation.prefix_TT[1] = NAN, NAN
    explanation.save(tmp_path / "x.json")
    [read] = xnmt_bench.load_explanations(tmp_path / "x.json")
    assert same(read, explanation)


def test_words_of_pieces_come_back(tmp_path):
    made(source_words=[0, 0, 1, -1]).save(tmp_path / "x.json")
    [read] = xnmt_bench.load_explanations(tmp_path / "x.json")
    assert read.source_words == [0, 0, 1, -1] and read.target_words is None


def test_round_trip_in_context(tmp_path):
    later = made(
        labels=["oß", "</s>"],
        probabilities=torch.tensor([0.5, 1.0]),
        source_TS=made().source_TS[2:],
        prefix_TT=made().prefix_TT[2:],
    )
    later.save(tmp_path / "x.json")
    [read] = xnmt_bench.load_explanations(tmp_path / "x.json")
    assert same(read, later)


def test_saved_relevance_comes_in_by_the_door(tmp_path):
    from xnmt_bench.dumps.inseq import Inseq

    made(source_TS=made().source_TS + 1).save(tmp_path / "x.json")
    [sentence] = Inseq(tmp_path / "x.json")
    np.testing.assert_allclose(sentence.weights_TS, made().source_TS.numpy() + 1, rtol=1e-6)
    assert sentence.prefix_TT[3].tolist() == pytest.approx([-0.4, 0.5, 0.6, 0])
    assert Inseq(tmp_path / "x.json").method == "prediction_difference"


def test_of_inseq():
    first, *other_explanations = xnmt_bench.load_explanations(
        INSEQ / "0.7-saliency_aggregated.json.gz"
    )
    assert len(other_explanations) == 3 and first.explainer == "saliency"
    assert first.labels == first.target_tokens
    assert np.isnan(first.prefix_TT.numpy()).sum() == 12 * 13 / 2
    assert "door" in str(first.in_words())


def test_several_sentences_are_read_back_as_they_were(tmp_path):
    several = Explanations([made(), made(prefix=False, explainer="attention")])
    several.save(tmp_path / "x.json")
    read = xnmt_bench.load_explanations(tmp_path / "x.json")
    assert len(read) == 2 and all(map(same, read, several))


def test_tables_hold_the_rows_of_the_frame(tmp_path):
    several = Explanations([made(), made(prefix=False)])
    several.save(tmp_path / "x.csv")
    several.save(tmp_path / "x.parquet")
    with (tmp_path / "x.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    rows = pq.read_table(tmp_path / "x.parquet").to_pylist()
    # What a step cannot see has no row.
    assert len(lines) == len(rows) == 2 * 16 + (0 + 1 + 2 + 3)
    for line, row in zip(lines, rows, strict=True):
        assert line.keys() == row.keys()
        assert line["token"] == row["token"]
        assert float(line["relevance"]) == row["relevance"]
    assert [row["sentence"] for row in rows].count(1) == 16
    frame = pytest.importorskip("pandas").read_parquet(tmp_path / "x.parquet")
    assert frame.equals(several.to_frame())


def test_pictures_and_pages_by_suffix(tmp_path):
    made().save(tmp_path / "x.svg")
    root = ElementTree.parse(tmp_path / "x.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    both = Explanations([made(), made()])
    both.save(tmp_path / "folder" / "x.HTML")
    page = (tmp_path / "folder" / "x.HTML").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and page.count("<svg") == 2
    for suffix, beginning in ((".png", b"\x89PNG"), (".pdf", b"%PDF")):
        made().save(tmp_path / f"x{suffix}")
        assert (tmp_path / f"x{suffix}").read_bytes().startswith(beginning)
    with pytest.raises(XnmtError, match="a picture holds one sentence, and there are 2"):
        both.save(tmp_path / "x.svg")


def test_several_print_each_under_its_source():
    text = str(Explanations([made(), made()]))
    assert text.count("door big\n") == 2
    assert repr(made()) == "<prediction difference of 'door big': 4 steps>"


def test_other_formats_and_bad_files(tmp_path):
    with pytest.raises(XnmtError, match=r"x\.docx: the suffix says the format; known are .json"):
        made().save(tmp_path / "x.docx")
    made().save(tmp_path / "x.json")
    text = (tmp_path / "x.json").read_text()
    (tmp_path / "x.json").write_text(text.replace('"labels": [', '"label": ['))
    with pytest.raises(DataError, match="not as save"):
        xnmt_bench.load_explanations(tmp_path / "x.json")
    (tmp_path / "x.json").write_text(text.replace('"labels": [', '"labels": ["more", '))
    with pytest.raises(DataError, match="not as save"):
        xnmt_bench.load_explanations(tmp_path / "x.json")


def test_inseq_reads_and_shows_it(tmp_path):
    program = os.environ.get("INSEQ_PYTHON")
    if program is None:
        pytest.importorskip("inseq", reason="no inseq here, nor INSEQ_PYTHON, a Python that has it")
        program = sys.executable
    made().save(tmp_path / "x.json")
    command = [program, "-c", READ, str(tmp_path / "x.json")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    sizes, shown = done.stdout.splitlines()[-2:]
    assert sizes == "[4, 4] [5, 4]"
    score, long = shown.split()
    assert float(score) == pytest.approx(0.4) and long == "True"
