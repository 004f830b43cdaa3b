"""Sheets: what is drawn, what is hidden, and a page that a browser fills as a spreadsheet does."""

import csv
import json
import re
import time
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pytest

from support.example_rows import FIDELITY, measured
from support.forked_commands import command, must_run
from xnmt_bench.errors import DataError
from xnmt_bench.measuring.measurement import read
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.consistency import Consistency
from xnmt_bench.metrics.coref_attention import CorefAttention
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.parquet import write_table
from xnmt_bench.parsing import parse_number
from xnmt_bench.sheets.consistency import ConsistencySheet
from xnmt_bench.sheets.files import Sheet, read_filled, read_key, to_csv, write_sheet
from xnmt_bench.sheets.make import sheet_page
from xnmt_bench.sheets.sheet import Item, Question, ShownText, share_equally
from xnmt_bench.sheets.triggers import TriggersSheet

UNITS = Units("made", np.arange(2), {"log_likelihood": np.zeros(2), "rows": np.ones(2)})
PRONOUNS = {
    "corpus": "winomt", "lang_pair": "en-de", "nmt": "transformer", "links": "eflomal",
    "morphology": "german_nouns", "learn_from": "", "resolver": "",
}  # fmt: skip
HOSTILE = ["</script>", 'say "a, b"', "<!--", "שלום", "e\u0301"]


def read_csv(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def make_results(folder):
    """Results of two explainers' decisions and of heatmaps, as the metrics store them."""
    results = folder / "results"
    pieces = ["▁the", "▁ca", "t", "▁s", "at", "</s>"]
    sample = [
        {"number": n, "source": pieces, "target": ["▁die", "▁Kat", f"ze{n}", "</s>"],
         # The last word of sentence 1 is not the one that the system would write.
         "steps": [0, 1, 2, 3], "labels": ["▁die", "▁Kat", f"ze{n}" if n != 1 else "er", "</s>"],
         "probabilities": [0.5] * 4}
        for n in range(4)
    ]  # fmt: skip
    (folder / "sample.json").write_text(json.dumps(sample), encoding="utf-8")
    for name, blind in (("attention", False), ("random", True)):
        sentences = [n for n in range(4) for _ in range(4)]
        weights = [[0.1, 0.4, 0.2, 0.0, 0.1, 0.2] for _ in sentences]
        write_table(
            pa.table({"sentence": sentences, "step": [0, 1, 2, 3] * 4, "source_relevance": weights,
                      "prefix_relevance": [[0.0] * 4 for _ in sentences]}),
            folder / f"{name}.parquet",
        )  # fmt: skip
        files = {"browsed_relevance": folder / f"{name}.parquet"}
        row = FIDELITY | {"explainer": name}
        measured(
            Fidelity, results, row, UNITS, files=files, made_by={"judged": name}, **{"blind": blind}
        )
    row = FIDELITY | {"explainer": "", "instantiation": "nmt"}
    measured(Fidelity, results, row, UNITS, files={"sample": folder / "sample.json"})
    heatmap = {
        "title": "attention, source side, sentence 1, 1 back", "current": ["it", "sat"],
        "context": ["the", "cat", "slept"], "weights": [[0.5, 1.0, 0.0], [0.0, 0.0, 1.0]],
        "links": [[[0], [0, 1]], [[1], [1]]],
    }  # fmt: skip
    (folder / "examples.json").write_text(json.dumps({"source": [heatmap]}), encoding="utf-8")
    identity = {"corpus": "toy", "lang_pair": "en-de", "nmt": "concat", "explainer": "attention",
                "side": "source", "links_of": "all", "seed": ""}  # fmt: skip
    measured(CorefAttention, results, identity, UNITS, files={"examples": folder / "examples.json"})
    return results


def make_pronouns(folder):
    """The same, with judged translations and the relevance of two explainers at their entities."""
    results = make_results(folder)
    judged = [
        {"number": n, "source": "the doctor paid because she left", "left_out": left_out,
         "translation": f"{article} zahlte{n} , weil sie ging", "consistent": consistent,
         "entity_source": [0, 1], "entity_target": [0, 1], "entity_gender": gender,
         "entity_back": back, "pronoun_source": [4], "pronoun_target": [5],
         "pronoun_gender": "f", "pronoun_back": 0}
        for n, article, gender, consistent, left_out, back in [
            (0, "die Ärztin", "f", 1.0, "", 0), (1, "der Arzt", "m", 0.0, "", 0),
            (2, "die Ärztin", "f", np.nan, "pronoun_undetermined", 0),
            # Without a gender, and in an earlier sentence.
            (3, "die Ärzte", "", np.nan, "entity_undetermined", 0),
            (4, "die Ärztin", "f", 1.0, "", 1),
            # The entity of sentence 0 again, for another of its pronouns.
            (0, "die Ärztin", "f", 0.0, "", 0),
        ]
    ]  # fmt: skip
    write_table(pa.Table.from_pylist(judged), folder / "judged.parquet")
    for name, blind in (("attention", False), ("random", True)):
        # Only attention weighs `she` most; the explainers left sentence 2 out.
        weights = [0.1, 0.3, 0, 0, 0.5 * (not blind), 0.1]
        rows = pa.table({"relevance": [[] if n == 2 else weights for n in range(len(judged))]})
        write_table(rows, folder / f"entity_{name}.parquet")
        files = {"judged": folder / "judged.parquet",
                 "entity_relevance": folder / f"entity_{name}.parquet"}  # fmt: skip
        for seed in ("1", "2"):
            measured(Consistency, results, PRONOUNS | {"explainer": name, "seed": seed}, UNITS,
                     files=files, **{"blind_explainer": blind})  # fmt: skip
    return results


def make(folder, kind, *options):
    return command(
        "evaluate.py", f"sheet={kind}", f"results={folder}/results", *options, cwd=folder
    )


def test_words_of_decisions(tmp_path):
    """Of four sentences of two words, one word is not the system's own."""
    results = make_results(tmp_path)
    done = make(tmp_path, "words", "sheet.items=null")
    assert done.returncode == 0, done.stderr
    rows, key = (read_csv(results / "sheets" / f"words{end}") for end in (".csv", ".key.csv"))
    assert len(rows) == 7
    assert rows[0]["source"] == "1:the 2:cat 3:sat"
    assert {row["target"] for row in rows} >= {"[die] Katze0", "die [Katze0]"}
    assert ("1", "2") not in {(row["number"], row["word"]) for row in key}
    # Sums over a source word's pieces, means over a target word's; of blind rows the first piece's.
    assert {row["relevance:attention"] for row in key} == {"0.1 0.6 0.1"}
    assert {row["blind:random"] for row in key} == {"0.1 0.4 0"}
    for row in rows:
        row["deciding"] = "2"
    answers = tmp_path / "answers.csv"
    with answers.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=";")  # as some spreadsheets write
        writer.writeheader()
        writer.writerows(rows)
    done = must_run(
        "evaluate.py", "metric=[annotation]", f"sheet.path=[{answers}]", f"results={results}",
        f"sheet.key={results}/sheets/words.key.csv", "bootstrap.samples=5", cwd=tmp_path,
    )  # fmt: skip
    row_of = {row["explainer"]: row for row in read_csv(results / "annotation.csv")}
    assert row_of.keys() == {"attention", "random"}
    assert {float(row_of["attention"][c]) for c in ("agreement", "average_precision", "hit_1")} == {
        1
    }
    assert "random (blind)" in " ".join(done.stdout.split())


def test_links_of_heatmaps(tmp_path):
    results = make_results(tmp_path)
    done = make(tmp_path, "links", "sheet.items=null")
    assert done.returncode == 0, done.stderr
    rows, key = (read_csv(results / "sheets" / f"links{end}") for end in (".csv", ".key.csv"))
    row_and_key = {row["current"]: (row["weights"], k) for row, k in zip(rows, key, strict=True)}
    shown, hidden = row_and_key["[it] sat"]
    assert shown == "it: cat 1.00, the 0.50"
    assert (hidden["automatic:found"], hidden["automatic:naive"]) == ("max", "no")
    assert (hidden["weight"], hidden["attended"], hidden["hard"]) == ("1", "1", "no")
    assert row_and_key["it [sat]"][1]["automatic:found"] == "none"
    for row, answers in zip(rows, ({"found": "max"}, {"found": "none"}), strict=True):
        row |= {
            "needed": "yes",
            "naive": "no" * (answers["found"] == "max"),
            "dispersed": "no",
        } | answers
    (tmp_path / "answers.csv").write_text(to_text(rows), encoding="utf-8")
    must_run(
        "evaluate.py", "metric=[annotation]", f"sheet.path=[{tmp_path}/answers.csv]",
        f"sheet.key={results}/sheets/links.key.csv", f"results={results}", "bootstrap.samples=5",
        cwd=tmp_path,
    )  # fmt: skip
    table = {(r["question"], r["explainer"]): r for r in read_csv(results / "annotation.csv")}
    every = table["all cases", "attention"]
    values = [float(every[c]) for c in ("naive", "max_weight", "nonzero", "weight", "attended")]
    assert values == [0, 0.5, 0.5, 0.5, 1]
    assert float(every["annotations"]) == 2
    # "sat" has a content word that its antecedent lacks.
    assert float(table["context needed, hard", "attention"]["annotations"]) == 1


def test_triggers_of_entities(tmp_path):
    """Each entity with a gender once, under all explainers and seeds."""
    results = make_pronouns(tmp_path)
    done = make(tmp_path, "triggers", "sheet.items=null")
    assert done.returncode == 0, done.stderr
    rows, key = (read_csv(results / "sheets" / f"triggers{end}") for end in (".csv", ".key.csv"))
    by_number = {k["number"]: (row, k) for row, k in zip(rows, key, strict=True)}
    assert by_number.keys() == {"0", "1", "2"} and len(rows) == 3
    shown, hidden = by_number["1"]
    assert shown["source"] == "1:[the] 2:[doctor] 3:paid 4:because 5:she 6:left"
    assert shown["target"] == "[der] [Arzt] zahlte1 , weil sie ging"
    assert (shown["gender"], hidden["gender"]) == ("masculine", "m")
    assert [by_number[n][1]["agrees"] for n in "012"] == ["yes", "no", "?"]
    assert hidden["relevance:attention"] == "0.1 0.3 0 0 0.5 0.1"
    assert hidden["blind:random"] == "0.1 0.3 0 0 0 0.1"
    assert by_number["2"][1]["relevance:attention"] == ""
    items = TriggersSheet().items(read("consistency", results, []))
    assert [item.cause for item in items] == ["f yes", "m no", "f ?"]
    # A pronoun's sheet has each pronoun once, too, and not once for each explainer.
    assert make(tmp_path, "consistency", "sheet.items=null").returncode == 0
    assert len(read_csv(results / "sheets" / "consistency.csv")) == 6


def test_people_of_known_accuracy_beside_relevance(tmp_path):
    """Two people: the pronoun, and the pronoun with its entity or no word at all."""
    results = make_pronouns(tmp_path)
    assert make(tmp_path, "triggers", "sheet.items=null").returncode == 0
    rows, key = (read_csv(results / "sheets" / f"triggers{end}") for end in (".csv", ".key.csv"))
    answers = {"0": ("5", "5"), "1": ("5", "5, 2"), "2": ("-", "-")}
    paths = []
    for person in range(2):
        for row, hidden in zip(rows, key, strict=True):
            row["triggers"] = answers[hidden["number"]][person]
        paths.append(tmp_path / f"{person}.csv")
        paths[-1].write_text(to_text(rows), encoding="utf-8")

    def annotation(*files):
        return command(
            "evaluate.py", "metric=[annotation]", f"sheet.path=[{','.join(map(str, files))}]",
            f"sheet.key={results}/sheets/triggers.key.csv", f"results={results}",
            "bootstrap.samples=5", cwd=tmp_path,
        )  # fmt: skip

    done = annotation(*paths)
    assert done.returncode == 0, done.stderr
    table = {(r["between"], r["explainer"]): r for r in read_csv(results / "annotation.csv")}
    people = table["people", ""]
    assert float(people["exact"]) == pytest.approx(2 / 3)
    masi = 1 - 2 / 3 * 1 / 2
    assert float(people["agreement"]) == pytest.approx((1 + 1 - masi + 1) / 3)
    if find_spec("krippendorff"):
        # Of the ordered pairs of 5, 5, 5, 2 5, -, - 16 are of disjoint sets, 6 of near ones.
        assert float(people["alpha"]) == pytest.approx(
            1 - (2 * masi / 6) / ((6 * masi + 16) / (6 * 5))
        )
    # `she` is attention's first word and the last of the tied ones of random, `doctor` its first.
    attention, random = table["relevance", "attention"], table["relevance", "random"]
    assert [float(attention[c]) for c in ("average_precision", "hit_1", "hit_3")] == [1, 1, 1]
    assert float(attention["annotations"]) == 4  # an answer without words cannot be ranked against
    she = 1 / 6
    random_precision = (3 * she + (1 + 2 / 6) / 2) / 4
    assert [float(random[c]) for c in ("average_precision", "hit_1")] == [
        pytest.approx(random_precision), 0.25,
    ]  # fmt: skip
    assert "random (blind)" in " ".join(done.stdout.split())
    paths[1].write_text(paths[1].read_text().replace("5, 2", "5, 7"))
    done = annotation(*paths)
    assert done.returncode == 1
    assert re.search(r"1.csv:\d: triggers='5 7': no word 7: the sentence has 6 words", done.stderr)
    assert len(done.stderr.strip().splitlines()) == 1


def to_text(rows):
    quoted = [[f'"{cell}"' for cell in row.values()] for row in rows]
    return "\n".join(",".join(line) for line in [list(rows[0]), *quoted]) + "\n"


@pytest.mark.parametrize("kind", ["words", "links", "triggers"])
def test_nothing_that_people_get_tells_where_items_are_from(kind, tmp_path):
    results = make_pronouns(tmp_path)
    assert make(tmp_path, kind).returncode == 0
    for ending in ("html", "csv"):
        text = (results / "sheets" / f"{kind}.{ending}").read_text(encoding="utf-8")
        for secret in (
            *("attention", "random", "concat", "transformer", "toy", "automatic", "relevance"),
            *("winomt", "eflomal", "german_nouns", "agrees"),
        ):
            assert secret not in text, (ending, secret)
    page = (results / "sheets" / f"{kind}.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|src=", page)


def test_the_same_seed_draws_the_same_sheet(tmp_path):
    results = make_results(tmp_path)
    drawn = []
    for seed in (0, 0, 1):
        done = make(tmp_path, "words", "sheet.items=4", f"sheet.seed={seed}", f"sheet.name=s{seed}")
        assert done.returncode == 0, done.stderr
        files = [results / "sheets" / f"s{seed}.{end}" for end in ("html", "csv", "key.csv")]
        drawn.append([file.read_bytes() for file in files])
    assert drawn[0] == drawn[1] != drawn[2]
    # Answers to the first could not be read any more without its key.
    done = make(tmp_path, "words", "sheet.items=4", "sheet.seed=1", "sheet.name=s0")
    assert done.returncode == 1
    assert "s0.key.csv: is the key of another sheet, words-4-" in done.stderr
    assert [file.read_bytes() for file in [results / "sheets" / "s0.csv"]] == [drawn[0][1]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            ["sheet=consistency"],
            "sheet=consistency needs results of consistency, and none are here ",
        ),
        (["sheet=words", "sheet.nmt=other"], "sheet.nmt=other: choose one of transformer"),
        (["sheet=words", "sheet.items=0"], "sheet.items=0: should be greater than or equal to 1"),
        (
            ["sheet=words", "sheet.name=a/b"],
            "sheet.name='a/b': should be letters, digits, _ and - only",
        ),
        (["sheet=word"], "no sheet 'word'; did you mean words?"),
    ],
)
def test_what_cannot_be_made_is_said_in_one_line(changes, message, tmp_path):
    make_results(tmp_path)
    done = command("evaluate.py", f"results={tmp_path}/results", *changes, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_groups_give_the_same_number_as_far_as_they_have_it():
    assert share_equally([100, 100, 100], 50) == [17, 17, 16]
    assert share_equally([5, 100], 50) == [5, 45]
    assert share_equally([3, 2], 50) == [3, 2]


class Fixed(ConsistencySheet):
    """Items that are given."""

    def __init__(self, items):
        super().__init__()
        self._items = items

    def measurements(self, results):
        return []

    def items(self, measurements):
        return iter(self._items)


def items_of(count, cause, **key):
    item_key = {"corpus": "c", "lang_pair": "en-de", "nmt": "n"} | key
    return [
        Item(
            [ShownText("source", [f"{cause}{n}"]), ShownText("target", HOSTILE, [1])],
            item_key,
            cause,
        )
        for n in range(count)
    ]


def test_causes_have_their_share_within_each_language(tmp_path):
    items = [
        *items_of(80, "", lang_pair="en-de"), *items_of(20, "unlinked", lang_pair="en-de"),
        *items_of(30, "", lang_pair="en-ru"),
    ]  # fmt: skip
    drawn = Fixed(items).draw(tmp_path, 40, 0)
    order = [(item.key["lang_pair"], item.cause) for item in drawn]
    assert {pair: order.count(pair) for pair in set(order)} == {
        ("en-de", ""): 16, ("en-de", "unlinked"): 4, ("en-ru", ""): 20,
    }  # fmt: skip
    assert order != sorted(order)


@pytest.fixture
def sheet(tmp_path):
    new_sheet = Sheet(Fixed([]), items_of(4, "a"))
    paths = write_sheet(new_sheet, sheet_page(new_sheet, "consistency"), tmp_path, "consistency")
    return new_sheet, paths


def test_a_sheet_without_answers_is_read(sheet, tmp_path):
    new_sheet, (_, path, key) = sheet
    filled = read_filled(path)
    assert filled.sheet == new_sheet.identifier == read_key(key, []).sheet
    assert filled.missing() == 4  # the second question comes after the first
    assert {answer for answers in filled.answers.values() for answer in answers.values()} == {""}
    cut = tmp_path / "cut.csv"
    cut.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match=r"cut.csv:5: \d fields, but the header has 7|cut.csv:\d"):
        read_filled(cut)


def test_answers_are_never_overwritten_by_an_empty_sheet(sheet, tmp_path):
    new_sheet, (_, path, key) = sheet
    again = write_sheet(new_sheet, "page", tmp_path, "consistency")
    assert again[0].read_text() == "page"
    filled = path.read_text(encoding="utf-8").replace(",,,", ",yes,m,")
    path.write_text(filled, encoding="utf-8")
    with pytest.raises(DataError, match=r"consistency.csv: was changed and may hold answers"):
        write_sheet(new_sheet, "another page", tmp_path, "consistency")
    assert path.read_text(encoding="utf-8") == filled
    assert again[0].read_text() == "page"
    # The key is read as spreadsheets write it, too.
    key.write_text(key.read_text(encoding="utf-8").replace(",", ";"), encoding="utf-8")
    path.unlink()
    write_sheet(new_sheet, "page", tmp_path, "consistency")


def fill(path, *answers):
    """Write the answers to the first items of a sheet: (is_translation, gender)."""
    rows = read_csv(path)
    for row, (is_translation, gender) in zip(rows, answers, strict=False):
        row |= {"is_translation": is_translation, "gender": gender}
    path.write_text(to_csv(list(rows[0]), rows), encoding="utf-8")


def test_an_answer_to_a_question_that_is_not_asked_counts_nowhere(sheet, caplog):
    """As on the page, which removes it."""
    _, (_, path, _) = sheet
    fill(path, ("no", "m"), ("", "f"), ("yes", "f"))
    filled = read_filled(path)
    assert [filled.answers[item]["gender"] for item in (1, 2, 3)] == ["", "", "f"]
    assert "2 answers to questions that were not asked are left out" in caplog.text


@pytest.mark.parametrize("delimiter", [";", "\t", ","])
def test_a_file_with_every_cell_in_quotes_is_read(delimiter, sheet):
    _, (_, path, _) = sheet
    fill(path, ("yes", "m"))
    rows = read_csv(path)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter, quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    assert read_filled(path).answers[1] == {"is_translation": "yes", "gender": "m"}


def test_a_kind_may_have_a_hyphen_and_capitals(monkeypatch, tmp_path):
    class Other(Fixed):
        name = "my-kind-2"
        questions = (Question("sure", "Sure?", {"Yes": "sure", "NO": "not", "yES": "?"}, "yn?"),)

    monkeypatch.setattr("xnmt_bench.sheets.files.entries", lambda kind: {Other.name: None})
    monkeypatch.setattr("xnmt_bench.sheets.files.load", lambda kind, name: Other)
    new_sheet = Sheet(Other([]), items_of(2, "a"))
    _, path, key = write_sheet(new_sheet, "page", tmp_path, "other")
    rows = read_csv(path)
    for row, answer in zip(rows, ("yES", "No"), strict=True):
        row["sure"] = answer
    path.write_text(to_csv(list(rows[0]), rows), encoding="utf-8")
    filled = read_filled(path)
    assert filled.kind == "my-kind-2"
    assert [answers["sure"] for answers in filled.answers.values()] == ["yES", "NO"]
    assert len(read_key(key, []).rows) == 2


def test_a_number_of_a_key_that_is_none_is_named(sheet):
    *_, key = sheet[1]
    key.write_text(to_csv(["sheet", "item", "weight"], [
        {"sheet": sheet[0].identifier, "item": str(n), "weight": "0,5" if n == 3 else "0.5"}
        for n in range(1, 5)
    ]), encoding="utf-8")  # fmt: skip
    rows = read_key(key, [])
    assert rows.parse(1, "weight", parse_number) == 0.5
    with pytest.raises(DataError, match=r"key.csv:4: weight: '0,5' is not a number"):
        rows.parse(3, "weight", parse_number)
    with pytest.raises(DataError, match=r"key.csv:1: no column 'number'"):
        rows.parse(1, "number", parse_number)


def accept_downloads(browser, folder):
    downloads = folder / "downloads"
    downloads.mkdir()
    browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)}
    )
    return downloads


def wait_for(path):
    for _ in range(50):
        if path.exists():
            break
        time.sleep(0.1)
    return path


def assert_saved(saved, rows, folder):
    """What the browser saved is what a spreadsheet writes, and its answers are read."""
    other = folder / "spreadsheet.csv"
    with other.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    assert saved.read_bytes() == other.read_bytes()
    filled = read_filled(saved)
    read = [{q.name: row[q.name] for q in filled.questions} for row in rows]
    assert [filled.answers[n] for n in range(1, len(rows) + 1)] == read


def test_a_browser_fills_the_page_as_a_spreadsheet_does(sheet, browser, tmp_path):
    """By keys alone; the page is left in the middle and taken up again."""
    from selenium.webdriver.common.keys import Keys

    _, (page, path, _) = sheet
    downloads = accept_downloads(browser, tmp_path)
    browser.get(page.as_uri())

    def press(keys):
        for key in keys:
            browser.switch_to.active_element.send_keys(key)

    assert browser.execute_script("return document.querySelector('mark').textContent") == HOSTILE[1]
    press(["y", "m", Keys.ENTER, "n"])
    press(["c"])
    press(['said "no", twice', Keys.ENTER])
    assert "item 2 of 4, 2 answered" in browser.find_element("id", "progress").text
    browser.get("about:blank")
    browser.get(page.as_uri())
    assert "item 2 of 4, 2 answered" in browser.find_element("id", "progress").text
    # A yes that becomes a no has no gender any more.
    press(["j", "y", "f", "j", "y", "u", "k"])
    browser.find_element("css selector", "[data-question=is_translation][data-answer=no]").click()
    press(["s"])
    saved = wait_for(downloads / "consistency.csv")
    rows = read_csv(path)
    answers = (("yes", "m", ""), ("no", "", 'said "no", twice'), ("no", "", ""), ("yes", "?", ""))
    for row, answer in zip(rows, answers, strict=True):
        row.update(zip(("is_translation", "gender", "comment"), answer, strict=True))
    assert_saved(saved, rows, tmp_path)
    assert not [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]


@pytest.mark.parametrize(("kind", "question"), [("words", "deciding"), ("triggers", "triggers")])
def test_words_are_chosen_by_keys(kind, question, browser, tmp_path):
    from selenium.webdriver.common.keys import Keys

    results = make_pronouns(tmp_path)
    assert make(tmp_path, kind).returncode == 0
    downloads = accept_downloads(browser, tmp_path)
    browser.get((results / "sheets" / f"{kind}.html").as_uri())
    for key in (
        Keys.ARROW_RIGHT,
        Keys.ARROW_RIGHT,
        Keys.SPACE,
        Keys.ARROW_LEFT,
        Keys.SPACE,
        Keys.ENTER,
        *("0", "s"),
    ):
        browser.switch_to.active_element.send_keys(key)
    answers = browser.execute_script("return answers")
    assert [answer.get(question) for answer in answers[:3]] == ["1 2", "-", None]
    rows = read_csv(results / "sheets" / f"{kind}.csv")
    for row, answer in zip(rows, ("1 2", "-"), strict=False):
        row[question] = answer
    assert_saved(wait_for(downloads / f"{kind}.csv"), rows, tmp_path)


def test_a_kind_of_a_package_is_a_choice(tmp_path):
    """Its options are read off its signature; nothing here names it."""
    make_results(tmp_path)
    (tmp_path / "long_words.py").write_text(
        "from xnmt_bench.sheets.words import WordsSheet\n\n\n"
        "class LongWords(WordsSheet):\n"
        "    name = 'long_words'\n\n"
        "    def __init__(self, letters: int = 5) -> None:\n"
        "        super().__init__()\n"
        "        self.letters = letters\n\n"
        "    def items(self, measurements):\n"
        "        for item in super().items(measurements):\n"
        "            target = item.texts[1]\n"
        "            if len(target.words[target.marked[0]]) >= self.letters:\n"
        "                yield item\n"
    )
    package = tmp_path / "long_words-0.1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: long_words\nVersion: 0.1\n")
    (package / "entry_points.txt").write_text(
        "[xnmt_bench.sheets]\nlong_words = long_words:LongWords\n"
    )
    path = {"PYTHONPATH": str(tmp_path)}
    must_run(
        "evaluate.py", "sheet=long_words", "sheet.letters=4", f"results={tmp_path}/results",
        env=path, cwd=tmp_path,
    )  # fmt: skip
    rows = read_csv(tmp_path / "results" / "sheets" / "long_words.csv")
    assert sorted(row["target"] for row in rows) == [f"die [Katze{n}]" for n in (0, 2, 3)]
    assert rows[0]["sheet"].startswith("long_words-3-")


def test_train_makes_no_sheet(tmp_path):
    done = command("train.py", "sheet=words", f"results={tmp_path}/results", cwd=tmp_path)
    assert done.returncode == 2
    assert "error: sheet= works with evaluate.py only" in done.stderr
    done = command("train.py", "metric=[annotation]", f"results={tmp_path}/results", cwd=tmp_path)
    assert done.returncode == 2
    assert "metric=[annotation] needs sheet.path=[first.csv,second.csv]" in done.stderr
