"""fairseq's binarised corpora and dictionaries."""

import shutil
import struct

import numpy as np
import pytest

from support.configurations import configure
from support.paths import ROOT
from xnmt_bench.corpora.formats.fairseq import TYPES, FairseqBinCorpus, join, read_dictionary
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.errors import DataError
from xnmt_bench.pipeline.job import Job

FIXTURES = ROOT / "tests" / "fixtures" / "fairseq"
TEST = {"train": "test", "valid": "test", "test": "test"}  # the one that is kept


def corpus(root, **options):
    return FairseqBinCorpus(root, TEST, "en", "de", **options)


@pytest.fixture
def copy(tmp_path):
    return shutil.copytree(FIXTURES / "transformer", tmp_path / "data-bin")


@pytest.mark.parametrize("name", ["transformer", "transformer_pre_norm"])
def test_the_sentences_are_those_that_were_binarised(name):
    """Both kinds of subwords, against the text that fairseq-preprocess was given."""
    sentences = list(corpus(FIXTURES / name).sentences("test"))
    expected = list(ToyCorpus(train=3000, valid=60, test=60).sentences("test"))
    assert len(sentences) == len(expected) == 60
    for sentence, other in zip(sentences, expected, strict=True):
        assert (sentence.document, sentence.position) == ("test", sentences.index(sentence))
        for side in ("source", "target"):
            text = getattr(sentence, side)
            if "<unk>" not in text:
                assert corpus(FIXTURES / name).raw(text, "en") == getattr(other, side)
    assert any("@@" in s.source or "▁" in s.source for s in sentences)


def test_the_older_format_says_the_same(copy):
    """`--dataset-impl cached`, as fairseq wrote it for years: 32 bits, and ids from 1."""
    expected = list(corpus(copy).sentences("test"))
    for language in ("en", "de"):
        index, data = (copy / f"test.en-de.{language}.{ending}" for ending in ("idx", "bin"))
        code, count = struct.unpack_from("<BQ", index.read_bytes(), 17)
        sizes = np.frombuffer(index.read_bytes(), "<i4", count, 26).astype("<i8")
        ids = np.fromfile(data, TYPES[code]).astype("<i4")
        (ids + 1).tofile(data)
        ends = np.concatenate([[0], sizes.cumsum()]).astype("<i8")
        head = b"TNTIDX\0\0" + struct.pack("<5Q", 1, 4, 4, count, count)
        dimensions = np.arange(count + 1, dtype="<i8")
        index.write_bytes(head + dimensions.tobytes() + ends.tobytes() + sizes.tobytes())
    assert list(corpus(copy).sentences("test")) == expected


def test_a_system_reads_its_own_data_as_it_lies(tmp_path):
    """Without any codes: the ids are those that were binarised."""
    folder = FIXTURES / "transformer"
    job = Job(configure(
        "corpus=fairseq_bin", f"corpus.root={folder}", "corpus.source_language=en",
        "corpus.target_language=de", "corpus.splits={train: test, valid: test, test: test}",
        "nmt=fairseq", f"nmt.path={folder}/checkpoint_best.pt", f"store={tmp_path}",
    ))  # fmt: skip
    split, (source, _) = job.texts.split("test"), job.system.subwords
    raw = np.fromfile(folder / "test.en-de.en.bin", dtype="<u2")
    fairseq_ids = [
        i for n in range(len(split)) for i in source.ids.theirs(split.source[n].tolist())
    ]
    assert fairseq_ids == raw.tolist()


@pytest.mark.parametrize(
    ("name", "keep", "problem"),
    [
        ("test.en-de.de.bin", 100, "truncated"),
        ("test.en-de.en.idx", 100, "truncated or damaged"),
        ("test.en-de.en.idx", 4, "not an index"),
    ],
)
def test_damaged_files_are_named(copy, name, keep, problem):
    path = copy / name
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=rf"{name}: .*{problem}|{name}: {problem}"):
        list(corpus(copy).sentences("test"))


def test_an_index_of_more_sentences_than_a_file_can_hold_is_damaged(copy):
    path = copy / "test.en-de.en.idx"
    data = bytearray(path.read_bytes())
    data[18:26] = b"\xff" * 8  # the number of sentences, behind magic, version and type
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"test.en-de.en.idx: truncated or damaged"):
        list(corpus(copy).sentences("test"))


def test_missing_files_are_named(copy):
    (copy / "test.en-de.de.bin").unlink()
    with pytest.raises(DataError, match=r"test.en-de.de.bin: no such file"):
        list(corpus(copy).sentences("test"))
    with pytest.raises(DataError, match=r"test.en-de.de.bin: no such file"):
        corpus(copy).recipe()


def test_a_dictionary_of_another_corpus_is_noticed(copy):
    dictionary = copy / "dict.en.txt"
    dictionary.write_text("\n".join(dictionary.read_text().split("\n")[:20]) + "\n")
    with pytest.raises(DataError, match="ids that the dictionary lacks"):
        list(corpus(copy).sentences("test"))


def test_dictionaries(tmp_path):
    path = tmp_path / "dict.en.txt"
    path.write_text("a 3\nb 1\na 2 #fairseq:overwrite\n")
    assert read_dictionary(path)[4:] == ["a", "b", "a"]
    path.write_text("the 3\n\ufeffthe 1\n")
    assert read_dictionary(path)[4:] == ["the", "\ufeffthe"]
    path.write_text("a 3\na 1\n")
    with pytest.raises(DataError, match=r"dict.en.txt:2: 'a' is listed twice"):
        read_dictionary(path)
    path.write_bytes(b"a 3\n\xff 1\n")
    with pytest.raises(DataError, match=r"dict.en.txt:2: not UTF-8"):
        read_dictionary(path)


def test_joining():
    assert join(["to@@", "day", "is", "fine@@"]) == "today is fine"
    assert join(["▁to", "day", "▁is"]) == "today is"
    assert join(["plain", "words"]) == "plain words"
