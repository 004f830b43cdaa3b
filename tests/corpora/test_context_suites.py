"""Suites of context reliance: tags, rows that fit together, and published counts."""

import gzip
import json

import pytest

from support.listed_pairs import ListedPairs
from support.paths import DATA
from xnmt_bench.corpora.suites.context.disc_eval_mt import COLUMNS, read_disc_eval_mt
from xnmt_bench.corpora.suites.context.example import SENSITIVE
from xnmt_bench.corpora.suites.context.reading import find_examples
from xnmt_bench.corpora.suites.context.scat import read_scat
from xnmt_bench.corpora.suites.context.tags import CUE, PRONOUN, parse_tags
from xnmt_bench.corpora.suites.contrastive.reading import read_sets
from xnmt_bench.corpora.tokens import tokenizer
from xnmt_bench.errors import DataError, XnmtError


def same(text):
    return text


ROWS = {
    "en": ["Are <p>they</p> here?", "<p>It</p> is w<p>it</p>h me."],
    "fr": ["Est-ce qu'<p>elles</p> sont là ?", "<p>Il</p> est là."],
    "context.en": ["Where are the plates?", "A cup."],
    "context.fr": ["Où sont les  <hon>assiettes<hoff> , les b <hon>on<hoff> nes ?", "Un bol."],
}


def write_scat(folder, rows=ROWS):
    for name, lines in rows.items():
        (folder / f"highlighted.test.{name}").write_text("".join(f"{text}\n" for text in lines))
    return folder


def words_of(text, places):
    return [text.split()[word] for word in sorted(places)]


def test_tags_are_taken_out_and_touch_whole_words():
    tagged = parse_tags(ROWS["context.fr"][0], padded=True)
    assert tagged.text == "Où sont les assiettes, les bonnes ?"
    assert words_of(*tagged.words(CUE, same)) == ["assiettes,", "bonnes"]
    written, places = tagged.words(CUE, tokenizer("moses", "fr"))
    assert words_of(written, places) == ["assiettes", "bonnes"]
    assert tagged.words(PRONOUN, same)[1] == frozenset()
    natural = parse_tags("The <hon>cup<hoff> is <hon>so <p>it</p><hoff>.", padded=False)
    assert natural.text == "The cup is so it."
    assert words_of(*natural.words(CUE, same)) == ["cup", "so", "it."]


def test_a_pronoun_inside_a_word_is_none():
    tagged = parse_tags(ROWS["en"][1], padded=True)
    assert tagged.text == "It is with me."
    assert words_of(*tagged.words(PRONOUN, same)) == ["It"]


def test_a_no_break_space_is_no_letter():
    tagged = parse_tags("arrive\u202f? La <hon>Main<hoff> tendue", padded=False)
    assert tagged.words(CUE, same)[1] == {2}


def test_a_text_that_is_written_with_other_letters_is_refused():
    with pytest.raises(ValueError, match="other letters"):
        parse_tags("a <p>b</p>", padded=False).words(PRONOUN, lambda text: text + "!")


@pytest.mark.parametrize(
    "line",
    ["<hon>a", "a<hoff>", "<hon>a <hon>b<hoff>", "<p>a<hoff>", "<p>a <hon>b</p><hoff>",
     "<hon>a<hoff> <ho", "b <hof<hoff>", "a</hon>"],
)  # fmt: skip
def test_unbalanced_tags_are_refused(line):
    with pytest.raises(ValueError, match=r"unbalanced tags|a broken tag"):
        parse_tags(line, padded=True)


def test_scat_is_read_line_by_line(tmp_path):
    [examples] = read_scat(write_scat(tmp_path), same, tokenizer("moses", "fr"))
    first, second = examples.examples
    assert words_of(first.passage.target, first.tags[SENSITIVE]) == ["elles"]
    [context] = first.passage.target_context
    assert words_of(context, {word for _, word in first.cues["target"]}) == ["assiettes", "bonnes"]
    assert first.cues["source"] == second.cues["target"] == frozenset()
    assert first.unit != second.unit and examples.remarks == []


def test_rows_that_cannot_be_used_are_left_out_and_counted(tmp_path):
    further = {"en": "<p>It</p>.", "fr": "<hon>Il", "context.en": "a", "context.fr": "b"}
    silent = {"en": "<p>It</p>.", "fr": "Oui.", "context.en": "a", "context.fr": "b"}
    rows = {name: [*lines, further[name], silent[name]] for name, lines in ROWS.items()}
    [examples] = read_scat(write_scat(tmp_path, rows), same, same)
    assert len(examples.examples) == 2
    assert examples.remarks == [
        "scat: 1 rows have broken tags (highlighted.test.fr:3: unbalanced tags: <hon> is never "
        "closed), and are left out.",
        "scat: 1 rows have no pronoun in the translation, or no context (line 4), and are left "
        "out.",
    ]


@pytest.mark.parametrize(
    ("name", "lines", "problem"),
    [
        ("fr", ROWS["fr"][:1], r"highlighted.test.fr:1: rows are out of step: the file ends here"),
        ("fr", ["Est-ce", "Il"], r"no row can be used: they have no pronoun"),
        (
            "fr",
            ["<p>a", "b</p>"],
            r"no row can be used: they have broken tags \(highlighted.test.fr:1: unbal",
        ),
        (
            "context.fr",
            ["<hon>Où", "Un<hoff>"],
            r"they have broken tags \(highlighted.test.context.fr:1: unbalanced",
        ),
        ("context.en", [], r"highlighted.test.context.en: rows are out of step: the file ends"),
        ("context.fr", ["Où", "Un"], r"highlighted.test.context.fr: no <hon>..<hoff> tag in any"),
    ],
)
def test_bad_files_are_one_line(name, lines, problem, tmp_path):
    with pytest.raises(DataError, match=problem) as error:
        read_scat(write_scat(tmp_path, ROWS | {name: lines}), same, same)
    assert "\n" not in str(error.value)


def test_empty_files_are_one_line(tmp_path):
    with pytest.raises(DataError, match=r"the files have no row"):
        read_scat(write_scat(tmp_path, dict.fromkeys(ROWS, ())), same, same)
    with pytest.raises(DataError, match=r"made\.tsv: the file has no row"):
        read_disc_eval_mt(write_examples(tmp_path, []), same, same)


def test_a_missing_file_is_named(tmp_path):
    write_scat(tmp_path)
    (tmp_path / "highlighted.test.context.fr").unlink()
    with pytest.raises(DataError, match=r"context\.fr: no such file"):
        read_scat(tmp_path, same, same)


def test_errors_name_the_option():
    corpus = ListedPairs()
    corpus.target_language = "fr"
    with pytest.raises(XnmtError, match=r"^metric.cues.suite=scat: .*\(metric.cues.data=DIR\)"):
        find_examples("scat", corpus, None, "metric.cues")
    with pytest.raises(XnmtError, match=r"^metric.cues.suite: no suite 'scatt'; did you mean scat"):
        find_examples("scatt", corpus, None, "metric.cues")


TAGGED = [
    "<p>They</p> sleep.",
    "<p>Ils</p> dorment.",
    "The <hon>cats<hoff>.",
    "Les <hon>chats<hoff>.",
]


def write_examples(data, rows):
    folder = data / "pecore/processed_examples"
    folder.mkdir(parents=True)
    lines = ["\t".join(COLUMNS), *("\t".join(row) for row in rows)]
    (folder / "disc_eval_mt-anaphora-made.tsv").write_text("\n".join(lines) + "\n")
    return data


def test_disc_eval_mt_has_cues_on_both_sides(tmp_path):
    other = [*TAGGED[:3], "Les <hon>chattes<hoff>."]
    [examples] = read_disc_eval_mt(write_examples(tmp_path, [TAGGED, other]), same, same)
    first, second = examples.examples
    assert first.unit == second.unit
    assert first.cues == {"source": {(0, 1)}, "target": {(0, 1)}}
    assert words_of(first.passage.target, first.tags[SENSITIVE]) == ["Ils"]


@pytest.mark.parametrize(
    ("place", "text", "problem"),
    [
        (1, "Ils dorment.", "made.tsv:2: a text without a <p> tag"),
        (3, "Les chats.", "made.tsv:2: a text without a <hon> tag"),
        (2, "The <hon>cats", "made.tsv:2: unbalanced tags: <hon> is never closed"),
    ],
)
def test_a_row_without_its_tags_is_refused(place, text, problem, tmp_path):
    row = [text if n == place else other for n, other in enumerate(TAGGED)]
    with pytest.raises(DataError, match=problem):
        read_disc_eval_mt(write_examples(tmp_path, [row]), same, same)


def test_no_file_of_examples_is_said(tmp_path):
    with pytest.raises(DataError, match="no file disc_eval_mt-anaphora"):
        read_disc_eval_mt(tmp_path, same, same)


RECORD = {"src": ["Here.", "It sleeps."], "trg": [
    {"correct": ["Un chat.", "Il dort."], "incorrect": ["Un chat.", "Elle dort."]},
    {"semi-correct": ["Une chatte.", "Elle dort."], "incorrect": ["Une chatte.", "Il dort."]},
]}  # fmt: skip
CHOICE = {
    "examples": [{"src": ["A.", "B."], "trg": {"correct": ["c", "d"], "incorrect": ["c", "e"]}}]
}


def write_disc_eval_mt(data, record):
    (data / "disc_eval_mt").mkdir()
    for name, records in (("anaphora", {"1": record}), ("lexical-choice", {"1": CHOICE})):
        with gzip.open(data / f"disc_eval_mt/{name}.json.gz", "wt") as file:
            json.dump(records, file)
    return str(data)


def test_contrastive_sets_of_disc_eval_mt(tmp_path):
    anaphora, choice = read_sets("disc_eval_mt", write_disc_eval_mt(tmp_path, RECORD))
    assert [g.variants[g.true].text for g in anaphora.groups] == ["Il dort.", "Elle dort."]
    assert {g.unit for g in anaphora.groups} == {"anaphora 1"}
    assert anaphora.groups[0].source_context == ("Here.",)
    assert choice.groups[0].variants[1].context == ("c",)
    assert (anaphora.lang_pair, anaphora.name) == ("en-fr", "disc_eval_mt anaphora")
    with pytest.raises(XnmtError, match="disc_eval_mt has no validation set"):
        read_sets("disc_eval_mt", str(tmp_path), "valid")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"trg": [{"correct": ["a", "b"]}]}, "example 1: the field 'incorrect' is missing"),
        ({"trg": [{"incorrect": ["a", "b"]}]}, "expected one of correct and semi-correct"),
        ({"src": ["a"]}, "expected a sentence of context and the current one"),
    ],
)
def test_a_bad_record_of_disc_eval_mt_is_named(change, problem, tmp_path):
    with pytest.raises(DataError, match=problem):
        read_sets("disc_eval_mt", write_disc_eval_mt(tmp_path, RECORD | change))


@pytest.mark.shared("context")
def test_published_counts():
    data, french = DATA / "context", tokenizer("moses", "fr")
    [scat] = read_scat(data / "scat", same, french)
    # Of 1,000 rows 18 have broken tags, 43 no context or no pronoun; 422 have cues in the French.
    assert len(scat.examples) == 939
    cues = {side: sum(bool(e.cues[side]) for e in scat.examples) for side in ("source", "target")}
    assert cues == {"source": 2, "target": 422}
    [anaphora] = read_disc_eval_mt(data, same, french)
    assert len(anaphora.examples) == 200
    assert len({example.unit for example in anaphora.examples}) == 50
    sizes = [(len(s.groups), len({g.unit for g in s.groups}))
             for s in read_sets("disc_eval_mt", str(data))]  # fmt: skip
    assert sizes == [(200, 50), (200, 100)]
