"""docs/guide/files.md: the reader of each example reads it, and refuses what the page says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.paths import ROOT
from xnmt_bench.corpora.formats.alignment import AlignmentFile
from xnmt_bench.corpora.formats.annotated import read_annotated
from xnmt_bench.corpora.formats.clusters import read_clusters
from xnmt_bench.corpora.formats.fairseq import read_dictionary
from xnmt_bench.corpora.formats.hf_dataset import HFDataset
from xnmt_bench.corpora.formats.mmax import read_document
from xnmt_bench.corpora.formats.tsv import TsvCorpus
from xnmt_bench.corpora.gold import read_pairs
from xnmt_bench.corpora.planted.natural import NaturalTwins
from xnmt_bench.corpora.suites.consistency.outputs import pairs, translations
from xnmt_bench.corpora.suites.consistency.reading import read_suite
from xnmt_bench.corpora.suites.context.disc_eval_mt import read_disc_eval_mt
from xnmt_bench.corpora.suites.context.example import ExampleSet
from xnmt_bench.corpora.suites.context.scat import read_scat
from xnmt_bench.corpora.suites.contrastive.build import exchanges
from xnmt_bench.corpora.suites.contrastive.published import read_groups
from xnmt_bench.corpora.suites.contrastive.reading import read_sets
from xnmt_bench.corpora.text import TextCorpus
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.dumps import Dump
from xnmt_bench.errors import DataError
from xnmt_bench.nmt.fairseq.subwords import open_codes, read_vocabulary
from xnmt_bench.pipeline.inputs import READERS as INPUT_READERS
from xnmt_bench.registry import entries, load
from xnmt_bench.sheets.files import read_filled, read_key
from xnmt_bench.sheets.mt_gender import KEY_COLUMNS, read_mt_gender
from xnmt_bench.words import Weighed

PAGE = ROOT / "docs" / "guide" / "files.md"
EXAMPLE = re.compile(r"^`([^`\n]+)`[^\n]*:\n\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TAB = "→"  # as the page writes one, since a site makes blanks of tabs
ARRAY = "neural_monkey.npy"  # its example is the Python that writes it
SPLITS = {"train": "train", "valid": "valid", "test": "test"}


def read_examples() -> dict[str, str]:
    """The examples of the page, by the names of their files."""
    matches = EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))
    return {name: text.replace(TAB, "\t") for name, text in matches}


def dump(format_name: str) -> Callable[[Path], list[Any]]:
    """What reads a dump of a format, with the files of tokens that it needs."""

    def read(path: Path) -> list[Any]:
        dump_class: type[Dump[Any]] = load("dumps", format_name)
        tokens = {side: path.with_name(f"{side}.txt") for side in dump_class.texts}
        return list(dump_class(path, **tokens))

    return read


def text_corpus(path: Path) -> list[Any]:
    return list(TextCorpus(path.parent, SPLITS, "de", "en").sentences("test"))


def tsv_corpus(path: Path) -> list[Any]:
    corpus = TsvCorpus(path, ["de", "en"], "de", "en", valid="dev", test="test")
    return [sentence for split in SPLITS for sentence in corpus.sentences(split)]


def hf_dataset(path: Path) -> list[Any]:
    pytest.importorskip("datasets", reason="the extra `datasets` is not installed")
    folder = path.parent / "hub"
    folder.mkdir()
    path.rename(folder / path.name)
    columns = ["translation.de", "translation.en"]
    return list(HFDataset(folder, columns, SPLITS).sentences("train"))


def pharaoh(path: Path) -> list[Any]:
    return AlignmentFile(path, base=1).read(WORDS_OF_PAIRS)


def naacl(path: Path) -> list[Any]:
    return [*AlignmentFile(path, base=1, form="naacl").read(pairs=2)]


def mmax(path: Path) -> list[Any]:
    document = read_document(path.parents[1], "talk")
    assert document.problem is None
    return [mention for of_sentence in document.mentions for mention in of_sentence]


def suite(name: str) -> Callable[[Path], list[Any]]:
    return lambda path: list(read_suite(name, path.parents[1], "de").items)


def suite_outputs(path: Path) -> list[Any]:
    lines = path.read_text(encoding="utf-8").splitlines()
    handcrafted = read_suite("handcrafted", path.parent, "de")
    assert pairs(path)  # as `metric.consistency.learn_from` reads it
    return translations(path, lines, handcrafted)


def groups_of_sets(path: Path) -> list[Any]:
    pair = "en-ru:" if path.name == "voita.json" else ""
    return [group for one_set in read_sets(f"{pair}{path}") for group in one_set.groups]


def contrapro_records(path: Path) -> list[Any]:
    # In a folder of its own: text files near it would be read as its contexts.
    (path.parent / "records").mkdir()
    return groups_of_sets(path.rename(path.parent / "records" / path.name))


def groups_of_folder(path: Path) -> list[Any]:
    return [group for one_set in read_sets(str(path.parent)) for group in one_set.groups]


def cued(read: Callable[..., list[ExampleSet]], above: int) -> Callable[[Path], list[Any]]:
    """What reads a suite with cues, from a folder above a file of it."""
    return lambda path: [e for s in read(path.parents[above], str, str) for e in s.examples]


def disc_eval_mt(path: Path) -> list[Any]:
    part = ["anaphora", "lexical-choice"].index(path.stem)
    return list(read_sets("disc_eval_mt", str(path.parents[1]))[part].groups)


def mt_gender(path: Path) -> list[Any]:
    key = read_key(path.with_name("answers.key.csv"), KEY_COLUMNS)
    return list(read_mt_gender(path, key).answers.items())


def natural_twins(path: Path) -> list[Any]:
    return list(NaturalTwins(ToyCorpus(0, 1, 1, 1), str(path)).sentences("test"))


# Words of source and target of each pair of `pairs.txt`.
WORDS_OF_PAIRS = [(4, 5), (4, 4), (5, 5), (5, 6), (4, 4)]
# By the name of an example: what reads it, and how many things it holds.
READERS: dict[str, tuple[Callable[[Path], Any], int]] = {
    "test.de": (text_corpus, 5),
    "test.en": (text_corpus, 5),
    "documents.tsv": (tsv_corpus, 5),
    "train.jsonl": (hf_dataset, 5),
    "twins.csv": (natural_twins, 4),
    "dict.de.txt": (lambda path: read_dictionary(path)[4:], 5),
    "codes": (lambda path: open_codes(str(path))("der die da"), 4),
    "alignment.talp": (pharaoh, 5),
    "alignment.naacl": (naacl, 2),
    "pairs.txt": (lambda path: read_pairs([path]), 5),
    "Basedata/talk_words.xml": (mmax, 2),
    "Markables/talk_sentence_level.xml": (mmax, 2),
    "Markables/talk_coref_level.xml": (mmax, 2),
    "outputs.txt": (INPUT_READERS["outputs"]["text"], 5),
    "annotated.csv": (read_annotated, 4),
    "suite_outputs.txt": (suite_outputs, 5),
    "scores.txt": (INPUT_READERS["scores"]["text"], 5),
    "cti.tsv": (lambda path: INPUT_READERS["scores"]["pecore"](path).marked_N, 3),
    "cci.tsv": (lambda path: INPUT_READERS["relevance"]["pecore"](path).marked_N, 4),
    "source.txt": (INPUT_READERS["outputs"]["text"], 1),
    "target.txt": (INPUT_READERS["outputs"]["text"], 1),
    "nematus.txt": (dump("nematus"), 1),
    "opennmt_lua.txt": (dump("opennmt_lua"), 1),
    "sockeye.txt": (dump("sockeye"), 1),
    "marian.txt": (dump("marian"), 1),
    "opennmt_py.log": (dump("opennmt_py"), 1),
    "fairseq.txt": (dump("fairseq"), 1),
    ARRAY: (dump("neural_monkey"), 1),
    "weights.jsonl": (dump("json_lines"), 4),
    "attributions.json": (dump("inseq"), 1),
    "plain.jsonl": (groups_of_sets, 4),
    "voita.json": (groups_of_sets, 1),
    "contrapro.json": (contrapro_records, 1),
    "contrapro/groups.tsv": (groups_of_folder, 2),
    "contrapro/contrapro.text.en": (groups_of_folder, 2),
    "contrapro/contrapro.text.de": (groups_of_folder, 2),
    "contrapro/contrapro.context.en": (groups_of_folder, 2),
    "disc_eval_mt/anaphora.json": (disc_eval_mt, 2),
    "disc_eval_mt/lexical-choice.json": (disc_eval_mt, 1),
    "scat/highlighted.test.en": (cued(read_scat, 0), 2),
    "scat/highlighted.test.fr": (cued(read_scat, 0), 2),
    "scat/highlighted.test.context.en": (cued(read_scat, 0), 2),
    "scat/highlighted.test.context.fr": (cued(read_scat, 0), 2),
    "pecore/processed_examples/disc_eval_mt-anaphora-made.tsv": (cued(read_disc_eval_mt, 2), 2),
    "groups.txt": (read_groups, 1),
    "exchanged.tsv": (exchanges, 2),
    "winomt/en.txt": (suite("winomt"), 4),
    "winomt/annotations.tsv": (suite("winomt"), 4),
    "handcrafted/handcrafted.en-de.txt": (suite("handcrafted"), 5),
    "bug/gold_BUG.csv": (suite("bug"), 4),
    "wino_x/mt_en_de.jsonl": (suite("wino_x"), 1),
    "clusters.jsonl": (lambda path: list(read_clusters(path)), 3),
    "answers.csv": (lambda path: read_filled(path).answers, 4),
    "answers.key.csv": (lambda path: read_key(path, KEY_COLUMNS).rows, 4),
    "mt_gender.csv": (mt_gender, 4),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with every example as a file."""
    for name, text in read_examples().items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(read_examples()[ARRAY], {})
    return tmp_path


def test_every_example_has_its_reader():
    names = [name for name, _ in EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))]
    assert sorted(names) == sorted(READERS)


def test_every_block_of_the_page_is_an_example_or_a_command():
    fences = PAGE.read_text(encoding="utf-8").count("\n```\n") // 2
    assert fences == len(READERS)


def test_every_format_of_relevance_is_on_the_page():
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in [*entries("dumps"), "rules"] if f"`{name}`" not in page] == []


@pytest.mark.parametrize("name", READERS)
def test_an_example_is_read(name, folder):
    read, expected_count = READERS[name]
    things = read(folder / name)
    assert [thing for thing in things if isinstance(thing, DataError)] == []
    assert len(things) == expected_count


def test_examples_of_one_sentence_say_the_same(folder):
    """Dumps show one sentence under two matrices, one with EOS and one without."""
    sentences: dict[str, Weighed] = {
        name: READERS[name][0](folder / name)[0]
        for name in ("nematus.txt", "marian.txt", "fairseq.txt", "opennmt_lua.txt", ARRAY)
    }
    assert {sentence.target.text for sentence in sentences.values()} == {"the dog"}
    matrices = {
        (2, 2): [[0.9, 0.1], [0.2, 0.8]],
        (3, 3): [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.0, 0.1, 0.9]],
    }
    for name, sentence in sentences.items():
        assert sentence.weights_TS.tolist() == matrices[sentence.weights_TS.shape], name


def test_a_vocabulary_has_the_form_of_a_dictionary(folder):
    assert len(read_vocabulary(str(folder / "dict.de.txt"), 208)) == 5


def test_empty_lines_fill_a_context(folder):
    first, second = groups_of_folder(folder / "contrapro/groups.tsv")
    assert (first.source_context, second.source_context) == (("Here is a door .",), ())
    assert (first.distance, second.distance) == (1, None)


def test_a_possible_link_is_not_sure(folder):
    first = pharaoh(folder / "alignment.talp")[0]
    assert first.possible - first.sure == {(2, 2)}


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("test.en", "Where is he ?\n", "\n", "test.en:2: an empty line"),
        ("test.de", "Ich kenne den Mann nicht .\n", "", "test.de:5: the file ends here"),
        ("documents.tsv", "a\t1\t", "a\t-1\t", "documents.tsv:2: segment '-1' is not a number"),
        ("documents.tsv", "test\t", "tset\t", "has no portion 'test'"),
        ("train.jsonl", '"Wo ist er ?"', "7", "no text in column 'translation.de'"),
        ("dict.de.txt", "d 208", "der 208", "'der' is listed twice"),
        ("alignment.talp", "3-4 4-5\n1", "3-4 4-6\n1", "'4-6' is outside the sentence pair"),
        ("alignment.naacl", "2 2 2 S", "3 2 2 S", "no sentence pair 3; the corpus has 2"),
        ("pairs.txt", "Wo ist er ? |||", "Wo ist er ?", "pairs.txt:2: expected `source words"),
        ("Markables/talk_sentence_level.xml", "word_7", "word_8", "the document has no words"),
        ("annotated.csv", "old .,1,0", "old .,2,0", "repetitions: '2' is neither 0 nor 1"),
        ("suite_outputs.txt", "the cook", "the chef", "suite_outputs.txt:3: the source is"),
        ("scores.txt", "-0.5", "inf", "scores.txt:5: inf is not a finite number"),
        ("cti.tsv", "1\t0\t", "1\t1\t", "cti.tsv:4: rows are out of step"),
        ("scat/highlighted.test.fr", "Tu <p>le</p> vois ?\n", "", "fr:1: rows are out of step"),
        (
            "pecore/processed_examples/disc_eval_mt-anaphora-made.tsv",
            "<p>Ils</p>",
            "Ils",
            "made.tsv:2: a text without a <p> tag",
        ),
        ("plain.jsonl", '"true": 1', '"true": 2', "plain.jsonl:2: the true variant is number 2"),
        ("plain.jsonl", '"unit"', '"units"', "plain.jsonl:5: units"),
        ("voita.json", "_eos Können", "Können", "variant 1 has 1 sentences, the source 2"),
        (
            "contrapro/groups.tsv",
            "1\t3\t2",
            "1\t4\t1",
            "group 1 begins at line 4; expected line 3",
        ),
        ("codes", "di e</w>", "die", "not BPE codes of subword-nmt"),
        ("contrapro.json", "made-ende", "made", "does not name its languages"),
        ("winomt/annotations.tsv", "1\t6\n3", "1\t60\n3", "outside the 10 words"),
        ("bug/gold_BUG.csv", "stereotype", "type", "no column 'stereotype'"),
        ("clusters.jsonl", "[6, 6]]]}\n", "[6, 60]]]}\n", "is not a range of tokens"),
        ("answers.csv", ",yes,f,", ",yes,w,", "answers.csv:3: gender='w': should be one of"),
        ("twins.csv", "target,1,first", "target,3,first", "twins.csv:4: b is '3', but the target"),
        ("twins.csv", "b_side", "side", "no column 'b_side'"),
        ("answers.csv", "ab,4,", "ab,1,", "answers.csv:5: item 1 is listed twice"),
    ],
)
def test_what_the_page_says_is_refused(name, old, new, problem, folder):
    path = folder / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DataError, match=problem):
        READERS[name][0](path)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("0.1 0.8 0.1", "0.1 0.8", "2 weights, but the rows above have 3"),
        ("0.1 0.8 0.1", "0.1 nan 0.1", "a weight is nan"),
        ("0.1 0.8 0.1", "-0.1 0.8 0.1", "a weight is negative"),
        ("0.1 0.8 0.1", "0,1 0,8 0,1", "write a decimal point instead of the comma"),
        ("0.1 0.8 0.1", "0.9 0.8 0.9", "more than 1"),
        ("0.1 0.8 0.1", "0-0 1-1 2-2", "but a link between words"),
        ("der Hund", "Hundehaus", "detokenised"),
    ],
)
def test_why_a_sentence_of_a_dump_is_left_out(old, new, problem, folder):
    path = folder / "nematus.txt"
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    [error] = dump("nematus")(path)
    assert isinstance(error, DataError)
    assert problem in str(error)
