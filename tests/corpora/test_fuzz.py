"""Mutated files: each is either read, or refused with the file named; never a traceback.

Two hundred in CI, two thousand with `-m slow`; the same ones each time.
"""

import gzip
import random
import shutil

import pytest

from support.mmax_documents import MENTIONS, SENTENCE_SPANS, WORDS, write_document
from support.paths import ROOT
from xnmt_bench.corpora.formats.alignment import AlignmentFile
from xnmt_bench.corpora.formats.fairseq import FairseqBinCorpus
from xnmt_bench.corpora.formats.parcorfull import ParCorFull
from xnmt_bench.corpora.formats.tsv import TsvCorpus
from xnmt_bench.corpora.gold import GoldCorpus
from xnmt_bench.corpora.text import TextCorpus
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.errors import XnmtError
from xnmt_bench.pipeline.inputs import InputFile

PORTIONS = ("train", "valid", "test")
SENTENCES = list(ToyCorpus(train=25).sentences("train"))
# What breaks readers: line ends, invisible characters, long numbers, markup, half characters.
NASTY = [b"\n", b"\r", b"\t", b"\0", b" ", b"\xc2\xa0", b"\xe2\x80\x8b", b"\xef\xbb\xbf", b"\xff",
         b"\xe2\x80\xa8", b"9" * 5000, b"-1", b"0-0", b"<", b"&", b"]]>", b"..", b",", b"word_0",
         b"nan", b"1e999", b"\xf0\x9f", b"|||", b"p", b"-"]  # fmt: skip


def mutate(content, dice):
    """One to three changes of a file's bytes."""
    changed = bytearray(content)
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(changed) + 1)
        end = min(len(changed), at + dice.choice((1, 1, 2, 5, 40, 400)))
        match dice.randrange(6):
            case 0:
                changed[at:end] = b""
            case 1:
                changed[at:at] = dice.choice(NASTY)
            case 2:
                changed[at:end] = dice.choice(NASTY)
            case 3:
                changed[at:at] = changed[at:end]
            case 4:
                changed = changed[:at]
            case _:
                if at < len(changed):
                    changed[at] ^= 1 << dice.randrange(8)
    return bytes(changed)


def text(folder):
    for split in ("train", "valid", "test"):
        for side in ("source", "target"):
            lines = "".join(f"{getattr(s, side)}\n" for s in SENTENCES)
            (folder / f"{split}.{side}").write_text(lines)
    names = {"train": "train", "valid": "valid", "test": "test"}
    corpus = TextCorpus(folder, names, "source", "target")
    return folder / "train.source", lambda: list(corpus.sentences("train"))


def tsv(folder, ending=""):
    rows = "".join(
        f"{PORTIONS[n % 3]}\t{s.document}\t{s.position}\t{s.target}\t{s.source}\n"
        for n, s in enumerate(SENTENCES)
    )
    path = folder / f"docs.tsv{ending}"
    (gzip.open if ending else open)(path, "wb").write(rows.encode())
    corpus = TsvCorpus(path, ["de", "en"], "en", "de", ["valid"], ["test"], tokenizer="moses")
    return path, lambda: list(corpus.sentences("train"))


def gzipped(folder):
    return tsv(folder, ".gz")


def pharaoh(folder):
    (folder / "a.talp").write_text("1-1 2p2 3-4\n" * 40)
    file = AlignmentFile(folder / "a.talp", base=1)
    return folder / "a.talp", lambda: list(file.read([(80, 80)] * 40))


def naacl(folder):
    (folder / "a.naacl").write_text("".join(f"{n} {n} 1 S\n{n} 1 2 P\n" for n in range(1, 20)))
    file = AlignmentFile(folder / "a.naacl", base=1, form="naacl")
    return folder / "a.naacl", lambda: list(file.read(None, 30))


def gold_text(folder):
    lines = "".join(f"{s.source} ||| {s.target}\n" for s in SENTENCES)
    (folder / "both.txt").write_text(lines)
    (folder / "links").write_text("0-0\n" * len(SENTENCES))
    corpus = GoldCorpus(ToyCorpus(), [folder / "both.txt"], folder / "links")
    return folder / "both.txt", lambda: list(corpus.sentences("test"))


def fairseq_index(folder, name="test.en-de.de.idx"):
    shutil.copytree(ROOT / "tests/fixtures/fairseq/transformer", folder / "data-bin")
    splits = {"train": "test", "valid": "test", "test": "test"}
    corpus = FairseqBinCorpus(folder / "data-bin", splits, "en", "de")
    return folder / "data-bin" / name, lambda: list(corpus.sentences("test"))


def fairseq_data(folder):
    return fairseq_index(folder, "test.en-de.en.bin")


def fairseq_dictionary(folder):
    return fairseq_index(folder, "dict.en.txt")


def mmax(folder, level="coref"):
    for language in ("EN", "DE"):
        write_document(folder / "news" / language, "01", WORDS, SENTENCE_SPANS, MENTIONS)
    corpus = ParCorFull(ToyCorpus(), folder, ["news"])
    return (
        folder / "news" / "EN" / "Markables" / f"01_{level}_level.xml",
        lambda: list(corpus.sentences("test")),
    )


def mmax_sentences(folder):
    return mmax(folder, "sentence")


def mmax_words(folder):
    _, read = mmax(folder)
    return folder / "news" / "EN" / "Basedata" / "01_words.xml", read


def scores(folder):
    (folder / "scores").write_text("-1.5\n0.25\n-3e-2\n" * 10)
    input_file = InputFile("scores", folder / "scores", "text", "x")
    return folder / "scores", lambda: list(input_file.read())


def outputs(folder):
    (folder / "out.txt").write_text("".join(f"{s.target}\n" for s in SENTENCES))
    input_file = InputFile("outputs", folder / "out.txt", "text", "x")
    return folder / "out.txt", input_file.read


READERS = (text, tsv, gzipped, pharaoh, naacl, gold_text, fairseq_index, fairseq_data,
           fairseq_dictionary, mmax, mmax_sentences, mmax_words, scores, outputs)  # fmt: skip


def survive(maker, folder, count, caplog):
    """Reads a file under mutation after mutation; says how often it was read, and how not."""
    path, read = maker(folder)
    content = path.read_bytes()
    outcomes = dict.fromkeys(("read", "left out with a warning", "refused"), 0)
    read()
    for number in range(count):
        dice = random.Random(f"{maker.__name__} {number}")
        path.write_bytes(mutate(content, dice))
        # A corpus keeps what it has read, so each mutation is read by a reader of its own.
        shutil.rmtree(again := folder.parent / f"{folder.name}-again", ignore_errors=True)
        again.mkdir()
        other, read = maker(again)
        other.write_bytes(path.read_bytes())
        caplog.clear()
        try:
            read()
        except XnmtError as error:
            outcomes["refused"] += 1
            # Of files that have to agree, either may be the one that is named.
            assert str(again) in str(error), f"mutation {number}: {error}"
            assert "\n" not in str(error), f"mutation {number}"
        else:
            # A layer of mentions that is not XML; a document can do without it.
            warned = str(other) in caplog.text
            outcomes["left out with a warning" if warned else "read"] += 1
    print(f"{maker.__name__}: {', '.join(f'{n} {outcome}' for outcome, n in outcomes.items())}")


@pytest.mark.parametrize("maker", READERS)
def test_a_few_mutations(maker, tmp_path, caplog):
    (tmp_path / "files").mkdir()
    survive(maker, tmp_path / "files", 15, caplog)


@pytest.mark.slow
@pytest.mark.parametrize("maker", READERS)
def test_two_thousand_mutations(maker, tmp_path, caplog):
    (tmp_path / "files").mkdir()
    survive(maker, tmp_path / "files", -(-2000 // len(READERS)), caplog)
