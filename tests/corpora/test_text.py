"""Corpora in plain files: what they read, and their errors for a file that is wrong."""

import gzip
import inspect
import zlib
from types import SimpleNamespace

import pytest

from support.paths import DATA
from xnmt_bench.corpora.exchange.swapped import SwappedCorpus
from xnmt_bench.corpora.formats.tsv import TsvCorpus
from xnmt_bench.corpora.planted.natural import NaturalTwins
from xnmt_bench.corpora.sentence import SPLITS, Sentence, lang_pair
from xnmt_bench.corpora.text import TextCorpus
from xnmt_bench.corpora.view import ReversedCorpus
from xnmt_bench.errors import DataError, XnmtError

STEMS = {"train": "train", "valid": "val", "test": "test"}


def text_corpus(root, source=b"eins\nzwei\n", target=b"one\ntwo\n"):
    """A corpus whose training files hold these bytes."""
    for stem in STEMS.values():
        (root / f"{stem}.de").write_bytes(source if stem == "train" else b"vier\n")
        (root / f"{stem}.en").write_bytes(target if stem == "train" else b"four\n")
    return TextCorpus(root, STEMS, "de", "en")


def tsv_corpus(path, content, **options):
    """A corpus of this content, gzipped where the path ends in .gz."""
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return TsvCorpus(
        path, ["de", "en"], "de", "en", valid=["dev"], test=["exam", "quiz"], **options
    )


def rows(*portions):
    """A good line for each portion."""
    return b"".join(f"{p}\tdoc{n}\t{n}\tx{n}\ty{n}\n".encode() for n, p in enumerate(portions))


def read(corpus, split="train"):
    return list(corpus.sentences(split))


def test_a_portion_that_is_in_no_file_is_named(tmp_path):
    """It would be trained on, if its name were misspelt."""
    corpus = tsv_corpus(tmp_path / "x.tsv", rows("train", "dev", "exam", "Quiz"))
    for split in ("train", "test"):
        with pytest.raises(
            DataError, match=r"x\.tsv: the file has no portion 'quiz', which corpus.test names"
        ):
            read(corpus, split)


def test_a_split_without_a_name_is_one_line(tmp_path):
    corpus = TextCorpus(tmp_path, {"test": "test"}, "de", "en")
    with pytest.raises(XnmtError, match=r"corpus\.splits: no name is given for valid"):
        read(corpus, "valid")


def test_text_is_read_in_order(tmp_path):
    corpus = text_corpus(tmp_path, "größer \r\nzwei\n".encode(), b"greater\ntwo")
    assert read(corpus) == [
        Sentence("größer", "greater", "train", 0),
        Sentence("zwei", "two", "train", 1),
    ]
    assert read(corpus, "valid") == [Sentence("vier", "four", "val", 0)]
    assert lang_pair(corpus) == "de-en"


@pytest.mark.parametrize(
    ("source", "target", "place", "problem"),
    [
        (b"eins\nzwei\n", b"one\n", "train.en:2", "ends here"),
        (b"eins\n", b"one\ntwo\n", "train.de:2", "ends here"),
        (b"eins\nzw\xffei\n", b"one\ntwo\n", "train.de:2", "not UTF-8"),
        (b"eins\nzwei\n", b"\xc3\ntwo\n", "train.en:1", "not UTF-8"),
        (b"eins\n \t\n", b"one\ntwo\n", "train.de:2", "empty"),
        (b"eins\nzwei\n", b"\ntwo\n", "train.en:1", "empty"),
    ],
)
def test_bad_text_is_named_by_file_and_line(tmp_path, source, target, place, problem):
    with pytest.raises(DataError, match=problem) as error:
        read(text_corpus(tmp_path, source, target))
    assert str(error.value).startswith(f"{tmp_path / place}: ")


@pytest.mark.parametrize("use", [read, TextCorpus.recipe])
def test_a_missing_text_file_is_named(tmp_path, use):
    corpus = text_corpus(tmp_path)
    (tmp_path / "train.en").unlink()
    with pytest.raises(DataError, match="no such file") as error:
        use(corpus)
    assert str(tmp_path / "train.en") in str(error.value)


@pytest.mark.parametrize("name", ["docs.tsv", "docs.tsv.gz"])
def test_portions_become_splits(tmp_path, name):
    corpus = tsv_corpus(tmp_path / name, rows("a", "dev", "exam", "b", "quiz"))
    assert [s.document for s in read(corpus)] == ["a/doc0", "b/doc3"]
    assert read(corpus, "valid") == [Sentence("x1", "y1", "dev/doc1", 1)]
    assert [s.source for s in read(corpus, "test")] == ["x2", "x4"]


def test_a_document_that_begins_again_in_a_further_file_is_refused(tmp_path):
    paths = [tmp_path / "first.tsv", tmp_path / "second.tsv"]
    paths[0].write_bytes(b"a\td\t4\tx\ty\n")
    paths[1].write_bytes(b"a\td\t0\tx\ty\n")  # another document of the same name
    corpus = TsvCorpus([str(p) for p in paths], ["de", "en"], "de", "en", valid=[], test=[])
    with pytest.raises(
        DataError, match=r"second.tsv:1: document d is out of order: segment 0 comes after 4"
    ):
        read(corpus)


def test_either_column_can_be_the_source(tmp_path):
    path = tmp_path / "docs.tsv"
    path.write_bytes(rows("a"))
    assert read(TsvCorpus(path, ["de", "en"], "en", "de", [], [])) == [
        Sentence("y0", "x0", "a/doc0", 0)
    ]


@pytest.mark.parametrize("name", ["docs.tsv", "docs.tsv.gz"])
@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"a\td\t1\tx\n", "4 fields; expected 5"),
        (b"a\td\t1\tx\ty\tz\n", "6 fields; expected 5"),
        (b"a\td\tone\tx\ty\n", "'one' is not a number"),
        (b"a\td\t1\t \ty\n", "empty"),
        (b"a\td\t1\tx\t\n", "empty"),
        (b"a\td\t1\tx\t\xe4\n", "not UTF-8"),
        (b"a\tdoc1\t0\tx\ty\n", "document doc1 is out of order: segment 0 comes after 1"),
        # Also in a portion of another split: a file is read as a whole.
        (b"dev\td\t1\tx\n", "4 fields; expected 5"),
    ],
)
def test_bad_tsv_is_named_by_file_and_line(tmp_path, name, line, problem):
    corpus = tsv_corpus(tmp_path / name, rows("a", "a") + line + rows("a"))
    with pytest.raises(DataError, match=problem) as error:
        read(corpus)
    assert str(error.value).startswith(f"{tmp_path / name}:3: ")


@pytest.mark.parametrize("use", [read, TsvCorpus.recipe])
def test_a_missing_tsv_is_named(tmp_path, use):
    corpus = TsvCorpus(tmp_path / "gone.tsv", ["de", "en"], "de", "en", [], [])
    with pytest.raises(DataError, match=r"gone\.tsv: no such file"):
        use(corpus)


@pytest.mark.parametrize("damage", ["no gzip", "truncated", "altered"])
def test_a_damaged_gzip_is_named(tmp_path, damage):
    path, compressed = tmp_path / "docs.tsv.gz", gzip.compress(rows(*"a" * 500))
    corpus = tsv_corpus(path, b"")
    path.write_bytes(
        {
            "no gzip": rows("a"),
            "truncated": compressed[: len(compressed) // 2],
            "altered": compressed[:-8] + bytes(4) + compressed[-4:],  # another checksum
        }[damage]
    )
    with pytest.raises((OSError, EOFError, zlib.error)):
        gzip.decompress(path.read_bytes())
    with pytest.raises(DataError, match=r"docs\.tsv\.gz"):
        read(corpus)


@pytest.mark.parametrize("file", ["train.de", "train.en", "val.de", "test.en"])
def test_a_byte_changes_the_recipe_of_text(tmp_path, file):
    corpus = text_corpus(tmp_path)
    before = corpus.recipe()
    assert before == text_corpus(tmp_path).recipe()
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(b"E" + content[1:])
    assert corpus.recipe() != before


UNCHANGED = SimpleNamespace(fingerprint="of a grammar")
VIEWS = {
    "itself": lambda corpus: corpus,
    "reversed": ReversedCorpus,
    "swapped": lambda corpus: SwappedCorpus(corpus, UNCHANGED, 1.0, 0),
    "natural twins": NaturalTwins,
}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("view", VIEWS)
def test_the_recipe_of_a_split_is_of_its_files_alone(tmp_path, split, view):
    corpus = VIEWS[view](text_corpus(tmp_path))
    before = {name: corpus.recipe(name) for name in SPLITS}
    (tmp_path / f"{STEMS[split]}.en").write_bytes(b"five\nsix\n"[: 10 if split == "train" else 5])
    changed = [name for name in SPLITS if corpus.recipe(name) != before[name]]
    assert changed == [split]


def test_a_byte_and_the_portions_change_the_recipe_of_tsv(tmp_path):
    path = tmp_path / "docs.tsv"
    before = tsv_corpus(path, rows("a", "dev")).recipe()
    assert tsv_corpus(path, rows("a", "dev")).recipe() == before
    assert TsvCorpus(path, ["de", "en"], "de", "en", ["dev"], []).recipe() != before
    assert TsvCorpus(path, ["en", "de"], "de", "en", ["dev"], ["exam"]).recipe() != before
    assert tsv_corpus(path, rows("a", "dew")).recipe() != before


def test_the_direction_changes_the_recipe(tmp_path):
    there = text_corpus(tmp_path)
    assert TextCorpus(tmp_path, STEMS, "en", "de").recipe() != there.recipe()


def both_kinds(folder):
    """Corpora of 100 good training lines but for line 50."""
    source, lines = [b"x\n"] * 100, [b"a\td\t%d\tx\ty\n" % n for n in range(100)]
    source[49], lines[49] = b"\xff\n", b"\xff\n"
    yield text_corpus(folder, b"".join(source), b"y\n" * 100)
    yield tsv_corpus(folder / "docs.tsv", b"".join(lines))
    yield tsv_corpus(folder / "docs.tsv.gz", b"".join(lines))


def test_sentences_stream(tmp_path):
    for corpus in both_kinds(tmp_path):
        stream = corpus.sentences("train")
        assert inspect.isgenerator(stream)
        assert len([next(stream) for _ in range(49)]) == 49
        with pytest.raises(DataError, match=":50: "):
            next(stream)


@pytest.mark.shared("multi30k")
def test_multi30k():
    stems = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
    corpus = TextCorpus(DATA / "multi30k", stems, "de", "en")
    assert [len(read(corpus, split)) for split in SPLITS] == [29000, 1014, 1000]


@pytest.mark.shared("deen/docs.tsv")
def test_deen_documents():
    corpus = TsvCorpus(
        DATA / "deen" / "docs.tsv", ["de", "en"], "de", "en", ["NC-2016.dev"], ["NC-2016.test"]
    )
    counts = [len(read(corpus, split)) for split in SPLITS]
    assert counts[1:] == [2169, 2999]
    assert sum(counts) == 27595
