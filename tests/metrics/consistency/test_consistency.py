"""Coreference consistency: what is judged of a translation, the published rules, bad input."""

import csv
from pathlib import Path

import numpy as np
import pytest

from support.attention_dumps import read_published
from support.debug_page_reader import read_listings
from support.forked_commands import command, must_run
from support.paths import DATA
from xnmt_bench.corpora.suites.consistency.outputs import translations
from xnmt_bench.corpora.suites.consistency.reading import read_suite
from xnmt_bench.corpora.suites.consistency.suite import Entity, Item, Suite
from xnmt_bench.corpora.text import text_lines
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.metrics.consistency import Consistency
from xnmt_bench.metrics.consistency.judge import (
    JudgedPronoun,
    TranslatedMention,
    Translation,
    judge,
)
from xnmt_bench.metrics.consistency.mention_links import by_eflomal, of_file
from xnmt_bench.metrics.consistency.statistics import statistics
from xnmt_bench.morphology import GenderEvidence, Morphology
from xnmt_bench.registry import create
from xnmt_bench.store import Store

SUITES = DATA / "consistency"
WINOMT = "\n".join((
    "male\t1\tThe farmer called the baker because he was late.\tfarmer",
    "female\t4\tThe farmer called the baker because she was late.\tbaker",
    "neutral\t1\tThe farmer said that they were late.\tfarmer",
))  # fmt: skip
SOURCES = [line.split("\t")[2] for line in WINOMT.splitlines()]


class Marked(Morphology):
    """Words end in their gender."""

    language = "xx"
    version = "1"

    def gender(self, words, chosen):
        genders = [words[n][-1] for n in chosen if words[n][-1] in "mfn"]
        return GenderEvidence(genders[0], "") if genders else None


SOURCE = "the farmer called the baker because he was late ."


def item(number=0, **fields):
    defaults = {"entity": Entity((1,)), "pronoun": 6, "other": Entity((4,)), "gender": "m"}
    return Item(number, **defaults | fields)


def judged_alone(alone, words, pairs, morphology):
    """A suite of one item."""
    return judge(
        Suite.of("made", [SOURCE], [alone]), alone, {0: Translation(words, pairs)}, morphology
    )


def scored(suite, texts):
    """The results of translations that are linked word by word."""
    translations = {n: Translation(words, STRAIGHT) for n, words in enumerate(texts)}
    columns = statistics(
        suite.items,
        [judge(suite, suite_item, translations, Marked()) for suite_item in suite.items],
    )
    return Consistency().of_sums({name: c.sum(keepdims=True) for name, c in columns.items()})


STRAIGHT = frozenset((n, n) for n in range(10))


@pytest.mark.parametrize(
    ("entity", "other", "pronoun", "cluster"),
    [("m", "f", "m", "right"), ("m", "f", "f", "wrong"), ("m", "m", "m", "both"),
     ("m", "f", "n", "none"), ("m", "m", "f", "none"), ("-", "f", "m", "unknown"),
     ("m", "-", "m", "unknown"), ("m", "f", "-", "unknown")],
)  # fmt: skip
def test_the_pronoun_goes_with_the_entity_of_its_gender(entity, other, pronoun, cluster):
    words = f"_ F{entity} _ _ B{other} _ P{pronoun} _ _ _".split()
    judged = judged_alone(item(), words, STRAIGHT, Marked())
    assert judged.cluster == cluster
    assert judged.consistent == (entity == pronoun != "-")
    alone = judged_alone(item(other=None), words, STRAIGHT, Marked())
    assert alone.cluster == ""


@pytest.mark.parametrize(
    ("words", "unlinked", "cause"),
    [("_ Fm _ _ Bf _ Pm", (), ""), ("_ Fm _ _ Bf _ Pm", (0, 1), "entity_unlinked"),
     ("_ Fm _ _ Bf _ Pm", (6,), "pronoun_unlinked"),
     ("_ F- _ _ Bf _ Pm", (), "entity_undetermined"),
     ("_ Fm _ _ Bf _ P-", (), "pronoun_undetermined")],
)  # fmt: skip
def test_what_is_undetermined_is_left_out_by_its_cause(words, unlinked, cause):
    pairs = frozenset((s, t) for s, t in STRAIGHT if s not in unlinked and t < 7)
    judged = judged_alone(item(), words.split(), pairs, Marked())
    assert judged.cause == cause
    assert judged.consistent == (not cause)


def test_exchanged_pronouns_are_what_is_missed():
    """Of 40 consistent translations k get the other pronoun."""
    genders = ["m", "f"] * 20
    suite = Suite.of("made", [SOURCE] * 40, [item(n, gender=g) for n, g in enumerate(genders)])
    for k in (0, 7, 40):
        texts = []
        for n, g in enumerate(genders):
            gender = g if n >= k else "mf"[g == "m"]
            texts.append(f"_ F{g} _ _ B{'mf'[g == 'm']} _ P{gender} _ _ _".split())
        scores = scored(suite, texts)
        assert scores["consistency"] == pytest.approx(1 - k / 40)
        assert scores["link_accuracy"] == pytest.approx(1 - k / 40)
        assert scores["gender_accuracy"] == 1.0
        assert (scores["f1_male"], scores["delta_g"]) == (100.0, 0.0)


def test_who_makes_everybody_a_man_is_consistent_and_links_nothing():
    items = [item(n, gender=g) for n, g in enumerate("mf" * 20)]
    suite = Suite.of("made", [SOURCE] * 40, items)
    scores = scored(suite, [["_", "Fm", "_", "_", "Bm", "_", "Pm", "_", "_", "_"]] * 40)
    assert (scores["consistency"], scores["cluster_both"]) == (1.0, 1.0)
    assert (scores["gender_accuracy"], scores["f1_female"]) == (0.5, 0.0)
    assert np.isnan(scores["link_accuracy"])
    assert scores["link_n"] == 0


def judged_all(suite, path, how, morphology, folder):
    """Every item of a suite in the translations of a file."""
    texts = translations(path, [text for _, text in text_lines(path)], suite)
    pairs_of = {
        n: (s.source, t) for n, (s, t) in enumerate(zip(suite.sentences, texts, strict=True))
    }
    _, pairs = (
        by_eflomal(Store(folder), pairs_of)
        if how == "eflomal"
        else of_file(Store(folder), Path(how), pairs_of, len(suite.sentences))
    )
    spoken = {n: Translation(text.split(), pairs[n]) for n, (_, text) in pairs_of.items()}
    genders = create("morphologies", morphology)
    return [judge(suite, suite_item, spoken, genders) for suite_item in suite.items]


def equals_published(row, items, judged):
    """Stanovsky et al. (2019); their figures are made of figures that were rounded already."""
    columns = {name: float(c.sum()) for name, c in statistics(items, judged).items()}
    f1 = {}
    for g in "mf":  # as the released script rounds, one figure after the other
        precision, recall = (
            round(100 * columns[f"hit_{g}"] / columns[f"{of}_{g}"], 1) for of in ("said", "gold")
        )
        f1[g] = round(2 * precision * recall / (precision + recall), 1)
    accuracy = {
        name: round(100 * columns[f"{name}_right"] / columns[name], 1) for name in ("pro", "anti")
    }
    score_of = {
        "accuracy": round(100 * columns["accurate"] / columns["items"], 1),
        "f1_male": f1["m"],
        "f1_female": f1["f"],
        "delta_g": round(f1["m"] - f1["f"], 1),
        "delta_s": accuracy["pro"] - accuracy["anti"],
    }
    for name, value in score_of.items():
        # Two sentences are in one subset more than once, so delta S has a last digit of its own.
        within = 0.101 if name == "delta_s" else 0.001
        assert value == pytest.approx(float(row[name]), abs=within), name


@pytest.mark.shared("consistency")
@pytest.mark.parametrize("language", ["de", pytest.param("ru", marks=pytest.mark.long)])
@pytest.mark.parametrize("system", ["google", "bing"])
def test_the_released_rules_give_the_released_figures(language, system, tmp_path):
    suite = read_suite("winomt", SUITES, language)
    path = SUITES / "outputs" / f"{system}.en-{language}.txt"
    links_file = str(SUITES / "alignments" / f"{system}.en-{language}.fast_align")
    judged = judged_all(suite, path, links_file, f"mt_gender_{language}", tmp_path)
    with (SUITES / "stanovsky2019.tsv").open() as file:
        [row] = [
            r
            for r in csv.DictReader(file, delimiter="\t")
            if (r["system"], r["language"]) == (system, language)
        ]
    equals_published(row, suite.items, judged)


@pytest.mark.parametrize(
    "row", read_published("winomt")["published"], ids=lambda r: r["system"] + r["language"]
)
def test_the_released_figures_of_the_genders_that_were_found(row):
    """The excerpt has the genders of 3,888 sentences, gold and found, and no sentence."""
    excerpt = read_published("winomt")
    letters = excerpt["found"][f"{row['system']} {row['language']}"]
    items, judged = [], []
    for number, (gold, letter) in enumerate(zip(excerpt["gold"], letters, strict=True)):
        sets = tuple(name for name in ("pro", "anti") if excerpt[name][number] == "1")
        items.append(item(number, gender=gold, sets=sets))
        evidence = None if letter == "-" else GenderEvidence(letter, "")
        entity = TranslatedMention(0, [1], [1], evidence)
        unlinked = TranslatedMention(0, [6], [], None)
        judged.append(
            JudgedPronoun(entity, unlinked, None, letter == gold, None, "pronoun_unlinked")
        )
    assert len(items) == 3888
    equals_published(row, items, judged)


@pytest.mark.shared("consistency")
def test_suites_are_read_as_they_are_published():
    items = read_suite("winomt", SUITES, "de").items
    assert len(items) == 3888
    assert [sum(i.gender == g for i in items) for g in "mfn"] == [1826, 1822, 240]
    assert [sum(name in i.sets for i in items) for name in ("pro", "anti")] == [1586, 1586]
    assert all(i.other for i in items)
    assert len(read_suite("handcrafted", SUITES, "es").items) == 388


def winomt(folder, text=WINOMT):
    (folder / "winomt").mkdir()
    (folder / "winomt" / "en.txt").write_text(text + "\n")
    return folder


def test_a_suite_without_annotations(tmp_path):
    first, two, three = read_suite("winomt", winomt(tmp_path), "de").items
    assert (first.entity, first.pronoun, first.gender, first.other) == (Entity((1,)), 6, "m", None)
    assert (two.entity, two.pronoun, two.gender) == (Entity((4,)), 6, "f")
    assert (three.gender, three.pronoun, three.sets) == ("n", 4, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [("male\t1\tHe came.", "en.txt:1: 3 fields"),
     ("man\t1\tA he came.\tx", "en.txt:1: gender 'man'"),
     ("male\t9\tA he came.\tx", "en.txt:1: no word '9': the sentence has 3 words"),
     (f"{WINOMT}\nmale\t1\tThe farmer came.\tfarmer", ":4: the sentence has no male pronoun")],
)  # fmt: skip
def test_a_line_that_is_none_of_the_suites_is_named(text, message, tmp_path):
    with pytest.raises(DataError, match=message):
        read_suite("winomt", winomt(tmp_path, text), "de")


HEADER = "line gender set entity_first entity_last other_first other_last pronoun"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            ["0 male pr0 1 1 4 4 6"],
            "tsv:2: not readable: set 'pr0' is not one of pro, anti, both, -",
        ),
        (["0 male - 1 10000000000 4 4 6"], "tsv:2: .*words 1 to 10000000000 are too many"),
        (
            ["0 male - 1 1 4 4 6", "1 male - 1 1 4 4 6"],
            "tsv:3: no sentence 1: the suite has 1, counted",
        ),
    ],
)
def test_annotations_that_do_not_fit_are_named(rows, message, tmp_path):
    folder = winomt(tmp_path, WINOMT.split("\n")[0])
    lines = "\n".join([HEADER, *rows]).replace(" ", "\t")
    (folder / "winomt" / "annotations.tsv").write_text(lines + "\n")
    with pytest.raises(DataError, match=message):
        read_suite("winomt", folder, "de")


def test_a_bar_may_be_a_translations_own(tmp_path):
    suite = read_suite("winomt", winomt(tmp_path), "de")
    plain = ["A | B", "C", "D"]
    assert translations(tmp_path / "out", plain, suite) == plain
    assert translations(tmp_path / "out", ["A", " ", "C"], suite) == ["A", "", "C"]
    written = [f"{source}|E | {n}" for n, source in enumerate(SOURCES)]
    assert translations(tmp_path / "out", written, suite) == ["E | 0", "E | 1", "E | 2"]


@pytest.mark.parametrize(
    ("change", "message"),
    [(lambda t: t[:2], "out: 2 lines, but the suite has 3"),
     (lambda t: [t[0], SOURCES[1], t[2]], r"out:2: no '\|\|\|'"),
     (lambda t: [t[1], t[0], t[2]], "out:1: the source is 'The farmer called the baker"),
     (lambda t: [t[0], f"{SOURCES[1]} ||| ", t[2]], "out:2: no translation"),
     (lambda t: ["Der Bauer .", *t[1:]], r"out:1: no '\|\|\|'")],
)  # fmt: skip
def test_translations_of_other_sentences_are_refused(change, message, tmp_path):
    suite = read_suite("winomt", winomt(tmp_path), "de")
    texts = [f"{source} ||| a {n}" for n, source in enumerate(SOURCES)]
    assert translations(tmp_path / "out", texts, suite) == ["a 0", "a 1", "a 2"]
    with pytest.raises(DataError, match=message):
        translations(tmp_path / "out", change(texts), suite)


def test_from_the_command_line(tmp_path):
    """A file of translations, a file of links, no model."""
    german = ["Der Bauer rief den Bäcker , weil er spät war .",
              "Der Bauer rief die Bäckerin , weil er spät war .",
              "Der Bauer sagte , dass sie spät waren ."]  # fmt: skip
    (tmp_path / "out").write_text(
        "".join(f"{s} ||| {t}\n" for s, t in zip(SOURCES, german, strict=True))
    )
    (tmp_path / "links").write_text("0-0 1-1 3-3 4-4 6-7\n0-0 1-1 3-3 4-4 6-7\n0-0 1-1 4-5\n")
    options = ["metric=[consistency]", f"metric.consistency.data={winomt(tmp_path)}",
            f"outputs.path={tmp_path}/out", "outputs.name=theirs", f"store={tmp_path}/store",
            f"results={tmp_path}/results", f"hydra.run.dir={tmp_path}/run"]  # fmt: skip
    german_links = ["metric.consistency.language=de", f"metric.consistency.links={tmp_path}/links"]
    must_run("evaluate.py", *options, *german_links)
    with (tmp_path / "results" / "consistency.csv").open() as file:
        [row] = csv.DictReader(file)
    assert (row["nmt"], row["lang_pair"], row["morphology"]) == ("theirs", "en-de", "german_nouns")
    # Farmer and he; the baker is a woman and "he"; "they" shows no gender.
    assert float(row["consistency"]) == 0.5
    assert float(row["determined"]) == pytest.approx(2 / 3)
    assert float(row["plural_pronoun"]) == pytest.approx(1 / 3)
    assert float(row["gender_accuracy"]) == pytest.approx(2 / 3)
    [listing] = read_listings(tmp_path / "results" / "debug.html")
    assert listing["texts"]["genders"][1] == "baker f (gold f), she m"
    assert listing["texts"]["why"][1] == "baker: die Bäckerin, f by die Bäckerin; she: er, m by er"
    assert {entry["name"]: entry["places"] for entry in listing["lists"]}["inconsistent"] == [1]
    assert (listing["shown"][1]["levels"] > 0).sum() == 5
    # The baker, her article and the pronoun, by row and column.
    assert listing["shown"][1]["framed"] == [[3, 3], [4, 4], [7, 6]]
    (tmp_path / "links").write_text("0-0 1-99\n\n\n")
    for changes, message in (
        (german_links, "links:1: "),
        ([*german_links[:1], "metric.consistency.links=eflomla"], "eflomla: no such file"),
        (["metric.consistency.data=null", *german_links], "consistency.data: has no value yet"),
        (["metric.consistency.language=xx"], "no morphology of 'xx'; installed are fr (french)"),
        (["metric.consistency.language=ru", "metric.consistency.morphology=german_nouns"],
         "german_nouns is for de, but the translations are ru"),
        (["metric.consistency.language=de", "metric.consistency.suite=wino"], "winomt"),
    ):  # fmt: skip
        done = command("evaluate.py", *options, *changes)
        assert done.returncode in (1, 2)  # 2: the configuration is at fault
        assert message in " ".join(done.stderr.split())


@pytest.mark.long
@pytest.mark.shared("consistency")
@pytest.mark.parametrize(
    ("outputs", "shift", "doubt"),
    [
        ("google.en-de", 0, None),
        ("google.en-es", 0, "the genders of pronoun and entity show in 0.0 % of the pronouns"),
        ("google.en-de", 1, "no link of links has word 0"),
    ],
)
def test_translations_or_links_of_another_kind_are_doubted(tmp_path, outputs, shift, doubt):
    """Spanish where German was asked for; links that count from 1, which reach no last word."""
    lines = (SUITES / "alignments" / f"{outputs}.fast_align").read_text().splitlines()
    texts = (SUITES / "outputs" / f"{outputs}.txt").read_text().splitlines()
    if shift:
        ends = [[len(side.split()) - 1 for side in text.split(" ||| ")] for text in texts]
        links = [[tuple(map(int, link.split("-"))) for link in line.split()] for line in lines]
        lines = [
            " ".join(f"{i + 1}-{j + 1}" for i, j in pair if i < end[0] and j < end[1])
            for pair, end in zip(links, ends, strict=True)
        ]
    (tmp_path / "links").write_text("".join(f"{line}\n" for line in lines))
    done = must_run(
        "evaluate.py", "metric=[consistency]", f"metric.consistency.data={SUITES}",
        f"outputs.path={SUITES}/outputs/{outputs}.txt", "metric.consistency.language=de",
        f"metric.consistency.links={tmp_path}/links", "bootstrap.samples=5", cwd=tmp_path,
    )  # fmt: skip
    printed = " ".join(done.stdout.split())
    assert printed.count("Caution") == (doubt is not None)
    assert doubt is None or doubt in printed


def test_there_is_no_such_suite(tmp_path):
    with pytest.raises(XnmtError, match=r"metric.consistency.suite: no suite 'wino'"):
        read_suite("wino", tmp_path, "de")


def test_a_file_of_links_is_read_by_the_suites_sentences(tmp_path, caplog):
    """Of a system that left one out; a tab counts as a blank, with a warning."""
    (tmp_path / "links").write_text("0-0\n1-1\n0-1\n")
    texts = {0: ("A b", "C d"), 2: ("E f", "G\th")}
    _, links_of = of_file(Store(tmp_path / "store"), tmp_path / "links", texts, 3)
    assert links_of == {0: frozenset({(0, 0)}), 2: frozenset({(0, 1)})}
    assert "links:3: words are separated by other blanks" in caplog.text
    (tmp_path / "links").write_text("0-0\n1-1\n0-2\n")
    with pytest.raises(DataError, match="links:3: "):
        of_file(Store(tmp_path / "store"), tmp_path / "links", texts, 3)


@pytest.mark.slow
@pytest.mark.shared("consistency")
@pytest.mark.parametrize(
    ("language", "name", "least"), [("es", "spanish", 0.92), ("ru", "pymorphy", 0.95)]
)
def test_people_see_the_same_genders(language, name, least, tmp_path):
    """Native speakers' labels of google's translations, where they found the entity."""
    pytest.importorskip("eflomal")
    suite = read_suite("winomt", SUITES, language)
    path = SUITES / "outputs" / f"google.en-{language}.txt"
    judged = judged_all(suite, path, "eflomal", name, tmp_path)
    with (SUITES / "human" / f"google.en-{language}.csv").open(encoding="utf-8") as file:
        rows = [list(row) for row in csv.reader(file)][1:]
    labelled = [
        r for r in rows if r[3].strip().upper() == "Y" and r[4].strip().upper() in ("M", "F")
    ]
    assert len(labelled) > 80
    agreed, inconsistent = 0, []
    for row in labelled:
        pronoun = judged[int(row[0])]
        agreed += pronoun.entity.gender == row[4].strip().lower()
        if "nconsistent" in row[5]:
            inconsistent.append(pronoun)
    assert agreed / len(labelled) >= least
    if language == "ru":
        assert len(inconsistent) == 37
        assert not any(pronoun.consistent for pronoun in inconsistent)
        assert sum(not pronoun.cause for pronoun in inconsistent) >= 35
