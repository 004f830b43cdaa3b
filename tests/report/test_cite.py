"""What a report has to cite."""

import re

import pytest

from support.example_rows import FIDELITY, decisions, measured
from support.forked_commands import command
from xnmt_bench.errors import ConfigError, MissingError, XnmtError
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.quality import Quality
from xnmt_bench.registry import OURS, entries, load
from xnmt_bench.report.cite import REFERENCES, cite, references
from xnmt_bench.report.selection import Selection

# Of this project: points of reference, tools to try metrics and judges with, own designs.
WITHOUT = {
    "explainers": {
        "code", "diluted", "exchanged", "gold_alignment", "names_both", "names_cue", "names_link",
        "nearest", "noisy", "random", "rarest", "uniform",
    },
    "judges": {"base_swapped", "base_tuned"},
    "metrics": {"annotation", "causes", "natural_twins", "student"},
}  # fmt: skip
FIELDS = {
    "article": {"author", "title", "journal", "year"},
    "inproceedings": {"author", "title", "booktitle", "year"},
    "misc": {"author", "title", "howpublished", "year"},
}
PLUGIN_ENTRY = "@misc{plugin2026,\n  title = {A Plug-in},\n}"


def ours(kind):
    return [name for name, point in entries(kind).items() if point.value.startswith(OURS)]


@pytest.mark.parametrize("kind", WITHOUT)
def test_what_was_published_names_its_papers(kind):
    papers = {name: load(kind, name).papers for name in ours(kind)}
    assert {name for name, keys in papers.items() if not keys} == WITHOUT[kind]
    assert {key for keys in papers.values() for key in keys} <= references().keys()


def test_every_entry_is_named_and_whole():
    named = {k for kind in WITHOUT for name in ours(kind) for k in load(kind, name).papers}
    assert named == references().keys()
    # None is lost between two that the pattern finds.
    assert REFERENCES.read_text(encoding="utf-8").count("@") == len(named)
    for key, text in references().items():
        kind = re.match(r"@(\w+)", text)[1]
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", text, re.MULTILINE))
        assert FIELDS[kind] <= fields.keys(), key
        assert len(fields) == text.count("\n") - 1, key
        assert text.isascii() and text.count("{") == text.count("}"), key
        assert fields["year"] in key, key


@pytest.fixture
def results(tmp_path):
    for explainer, judge in (("attention", "base"), ("lime[samples=10]", "evalx_sa"),
                             ("random", "fn"), ("my_dump", "base")):  # fmt: skip
        identity = FIDELITY | {"explainer": explainer, "instantiation": judge}
        versions = {"torch": ["2.9"]} if judge == "base" else {"torch": ["2.8"], "captum": ["0.9"]}
        units = decisions(range(3), [-1.0] * 3)
        measured(Fidelity(), tmp_path, identity, units, versions=versions)
    return tmp_path


def cited(results, rows=""):
    text = cite([Fidelity(), Quality()], results, Selection.parse(rows))
    return text, re.findall(r"^@\w+\{(\w+),", text, re.MULTILINE)


def test_papers_of_the_rows_that_are_shown(results):
    text, keys = cited(results)
    assert keys == ["bahdanau2015", "jethani2021", "li2020", "ribeiro2016", "xnmt_bench"]
    assert text.startswith("% xnmt_bench ") and "captum 0.9, torch 2.8 and 2.9." in text
    assert "% metric fidelity, judge base, judge own\n@inproceedings{li2020," in text
    assert "% explainer lime\n@inproceedings{ribeiro2016," in text
    assert "% Without a paper: explainer random." in text
    text, keys = cited(results, "explainer=attention")
    assert keys == ["bahdanau2015", "li2020", "xnmt_bench"]
    assert "made with torch 2.9." in text
    with pytest.raises(ConfigError, match="there are attention"):
        cited(results, "explainer=atention")


def test_rows_that_follow_from_others_can_be_named(results):
    for proxy in ("fn", "rn", "sa"):
        identity = FIDELITY | {"explainer": "random", "instantiation": proxy}
        measured(Fidelity(), results, identity, decisions(range(3), [-1.0] * 3), valid_loss=1.0)
    _, keys = cited(results, "instantiation=comb")
    assert "li2020" in keys


def test_without_a_row_nothing_is_cited(tmp_path):
    with pytest.raises(MissingError, match="no fidelity results are here yet"):
        cited(tmp_path)


def test_a_plugin_brings_its_own_entry(results, monkeypatch):
    monkeypatch.setattr(Fidelity, "papers", (PLUGIN_ENTRY, "li2020"))
    text, keys = cited(results)
    assert {"plugin2026", "li2020"} < {*keys} and PLUGIN_ENTRY in text


@pytest.mark.parametrize(
    ("paper", "problem"),
    [
        ("li2021", "metric fidelity: papers: 'li2021' is no key of references.bib and no BibTeX"),
        ("@misc{li2020,\n  title = {Another},\n}", "papers: another entry has the key 'li2020'"),
    ],
)
def test_a_paper_that_is_not_known_is_refused(results, monkeypatch, paper, problem):
    monkeypatch.setattr(Fidelity, "papers", (paper,))
    with pytest.raises(XnmtError, match=problem):
        cited(results)


def test_the_commands_output_is_a_bib_file(results, tmp_path):
    """All but entries stands behind `%`; a message of a log would stand there too."""
    done = command("evaluate.py", "cite", f"results={results}", "rows=judge=base", cwd=tmp_path)
    assert done.returncode == 0 and not done.stderr
    outside = re.sub(r"^@\w+\{.*?^\}$", "", done.stdout, flags=re.MULTILINE | re.DOTALL)
    assert all(line.startswith("%") for line in outside.splitlines() if line)
    assert "@inproceedings{bahdanau2015," in done.stdout
    assert not (results / "fidelity.md").exists()
