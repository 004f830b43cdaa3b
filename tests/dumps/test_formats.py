"""Dumps of other tools: real ones, made ones, and every way in which one can be wrong."""

import gzip
import json
from contextlib import nullcontext

import numpy as np
import pytest

from support.attention_dumps import FORMATS, read_dump
from support.pickles import Hostile
from xnmt_bench.dumps.json_lines import JsonLines, written
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.explainers.from_file import FromFile
from xnmt_bench.registry import entries, load
from xnmt_bench.words import Tokens, Weighed

SENTENCES = {
    "nematus/alignments.txt": 3, "nematus/newstest2017_1-15.txt": 15, "marian/amun.out.lv": 5,
    "marian/rnn.soft.de": 30, "marian/one_blocks.txt": 2, "opennmt_lua/attention_1-5.txt": 5,
    "sockeye1/alignment_matrix.txt": 10, "fairseq/generate.txt": 60,
    "opennmt_py/attn_debug.log": 60, "neural_monkey/alignments.npy": 5,
    "pair/monkey.npy": 100, "pair/nematus.txt": 100,
}  # fmt: skip
NEMATUS = "0 ||| Hund da ||| 0 ||| dog there ||| 3 3\n0.5 0.25 0.25\n0.1 0.8 0.1\n0 0 1\n"


@pytest.mark.shared("attention_dumps")
@pytest.mark.parametrize("name", FORMATS)
def test_real_dumps(name):
    sentences = read_dump(name)
    assert [sentence.number for sentence in sentences] == list(range(SENTENCES[name]))
    for sentence in sentences:
        assert sentence.weights_TS.shape == (len(sentence.target), len(sentence.source))
        assert (sentence.weights_TS >= 0).all()
        assert sentence.weights_TS.sum(1).max() < 1.001
        with_eos = sentence.whole()
        assert with_eos.weights_TS.shape == (len(with_eos.target), len(with_eos.source))
        # Pieces of a source word are summed, so a step has as much as before.
        assert with_eos.weights_TS.sum(1).max() < 1.001
        assert (max(with_eos.source.words), with_eos.source.eos) == (
            max(sentence.source.words),
            sentence.source.eos,
        )


def nematus(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "dump.txt"
    path.write_bytes(text.encode(encoding))
    return load("dumps", "nematus")(path)


def test_a_block(tmp_path):
    [sentence] = nematus(tmp_path, NEMATUS)
    assert sentence.source.pieces == ("dog", "there", "</s>")
    assert sentence.target.words == (0, 1, -1)
    assert sentence.weights_TS.tolist() == [[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0, 0, 1]]
    bare = sentence.without_eos()
    assert bare.weights_TS.tolist() == [[0.5, 0.25], [0.1, 0.8]]
    assert (bare.source.pieces, bare.source.text) == (("dog", "there"), "dog there")


@pytest.mark.parametrize("change", [("\n", "\r\n"), ("0 |||", "\ufeff0 |||")])
def test_line_ends_and_byte_order_marks(tmp_path, change):
    [sentence] = nematus(
        tmp_path, NEMATUS.replace(change[0], change[1], -1 if "\n" in change[0] else 1)
    )
    assert sentence.weights_TS.shape == (3, 3)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("0.1 0.8 0.1", "0.1 0.8", "dump.txt:3: sentence 1: 2 weights, but the rows above have 3"),
        ("0.1 0.8 0.1\n", "", "2 source tokens without EOS, but weights of 3"),
        ("0 0 1\n", "", "2 source tokens without EOS, but weights of 3"),
        ("0 0 1\n", "0 0 1\n0 0 1\n", "source tokens without EOS, but weights of 3"),
        ("0.5 ", "nan ", "a weight is nan"),
        ("0.5 ", "-0.5 ", "a weight is negative: -0.5"),
        ("0.5 ", "0,5 ", "dump.txt:2: '0,5' is not a number; write a decimal point"),
        ("0.5 0.25 0.25", "0.9 0.9 0.9", "sum to 2.700, more than 1"),
        ("0.5 0.25 0.25", "0-0 1-1 2-2", "is not a number but a link between words; write weights"),
        (
            "Hund da",
            "Hund da ist",
            "(do the weights include EOS, and the tokens not?): 'dog there'",
        ),
        ("dog there", "dogthere", "(is the source detokenised?): 'dogthere'"),
        ("dog there", "dog", "1 source tokens without EOS, but weights of 3"),
        ("||| 3 3", "", "4 fields between '|||'; expected: number ||| target"),
        ("Hund", "H\udcffnd", "the target is not UTF-8"),
    ],
)
def test_a_bad_sentence_is_named_and_the_next_is_read(tmp_path, old, new, problem):
    path = tmp_path / "dump.txt"
    text = NEMATUS.replace(old, new, 1) + "\n" + NEMATUS
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    broken, good = load("dumps", "nematus")(path)
    assert isinstance(broken, DataError)
    assert problem in str(broken)
    assert isinstance(good, Weighed)
    assert good.number == 1


def test_small_sentences(tmp_path):
    small, empty = nematus(
        tmp_path, "0 ||| a ||| 0 ||| b ||| 1 1\n1\n\n1 |||  ||| 0 ||| b c ||| 3 1\n.1 .1 .8\n"
    )
    assert small.weights_TS.tolist() == [[1]]
    assert not (small.source.eos or small.target.eos)
    assert (empty.target.size, empty.target.text, empty.weights_TS.shape) == (0, "", (1, 3))


def test_weights_that_are_all_zero_are_none(tmp_path):
    """Sockeye 1 writes them for a Transformer; their confidence would be 97.6 %."""
    path = tmp_path / "sockeye.txt"
    block = "0 ||| a b </s> ||| 0 ||| c d ||| 2 ||| 3\n0 0 0\n0 0 {}\n"
    path.write_text(block.format(1) + "\n" + block.format(0))
    some, nothing = load("dumps", "sockeye")(path)
    assert some.weights_TS.shape == (3, 2)
    assert (some.target.eos, some.source.eos) == (True, False)
    assert str(nothing).startswith(f"{path}:5: every weight is 0")


def files(tmp_path, **texts):
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return {name: tmp_path / name for name in texts}


def test_marian(tmp_path):
    lines = ("x ||| 0.5,0.5,0 0.25,0.25,0.5\n"  # EOS on both sides
             "x ||| 1,0,0 ||| WordScores= -0.5\n"  # padded, and the source's EOS is there
             "0-0\n"
             "x ||| 0-0 1-1\n")  # fmt: skip
    dump_files = files(tmp_path, path=lines, source="a b\na b\na b\na b\n")
    first, padded, bare, hard = load("dumps", "marian")(**dump_files)
    assert first.weights_TS.shape == (2, 3)
    assert padded.log_probability_T.tolist() == [-0.5]
    assert "no '|||'; expected target ||| weights (--alignment soft)" in str(bare)
    assert "path:4: '0-0' is not a number but a link between words" in str(hard)
    dump_files = files(tmp_path, path="x ||| 1,0\n" * 3, source="a b\n")
    with pytest.raises(
        DataError, match=r"path:2: translation 2 has no source: .*source has 1 lines"
    ):
        list(load("dumps", "marian")(**dump_files))


def test_the_best_of_an_n_best_list(tmp_path):
    lines = ("0 ||| x ||| 1,0 ||| F0= -1.5 ||| -0.5\n0 ||| y ||| 0,1 ||| F0= -2 ||| -0.7\n"
             "1 ||| z ||| 0.5,0.5 ||| WordScores= -0.25 ||| F0= -1 ||| -0.2\n")  # fmt: skip
    dump_files = files(tmp_path, path=lines, source="a\nb\n")
    best, other = load("dumps", "marian")(**dump_files)
    assert (best.target.text, best.number, other.target.text, other.number) == ("x", 0, "z", 1)
    assert other.log_probability_T.tolist() == [-0.25]


def test_fairseq(tmp_path):
    text = ("S-7\t▁a ▁b\nT-7\t▁x\nH-7\t-0.5\t▁x\nD-7\t-0.5\tx\nP-7\t-1.0 -2.0\n"
            "A-7\t0.5,0.25,0.25 0,0,1\n"
            "H-7\t-0.9\t▁y\nP-7\t-3 -3\nA-7\t1,0,0 1,0,0\n"  # the next of its hypotheses
            "S-2\t▁a\nH-2\t-0.5\t▁x\nGenerate test with beam=1\n")  # fmt: skip
    seven, two = load("dumps", "fairseq")(**files(tmp_path, path=text))
    assert (seven.number, seven.target.pieces) == (7, ("▁x", "</s>"))
    np.testing.assert_allclose(seven.log_probability_T, np.log([0.5, 0.25]))
    assert "sentence 2 has no A-; fairseq-generate --print-alignment soft" in str(two)


def test_opennmt_py(tmp_path):
    head = "[2026-01-01 00:00:00,000 INFO] "
    table = head + "   abcdefg   b\n  xxxxxxxxxx  *0.75  0.25\n  </s> 0.5 0.5\n\n"
    dump_files = files(tmp_path, path=head + "Loading\n" + table + table,
                  source="abcdefghi b\nother b\n", target="xxxxxxxxxxyyy\nx\n")  # fmt: skip
    first, other = load("dumps", "opennmt_py")(**dump_files)
    swapped = dump_files | files(tmp_path, target="x\nx\n")
    unlike, _ = load("dumps", "opennmt_py")(**swapped)
    assert "rows of 'xxxxxxxxxx', but line 1 of" in str(unlike)
    assert first.source.pieces == ("abcdefghi", "b")
    assert first.target.pieces == ("xxxxxxxxxxyyy", "</s>")
    assert first.weights_TS.tolist() == [[0.75, 0.25], [0.5, 0.5]]
    assert "weights of 'abcdefg b', but line 2 of" in str(other)
    assert "is 'other b'" in str(other)


def test_a_dump_that_ends_early_is_told(tmp_path):
    dump_files = files(tmp_path, path="x ||| 1,0\n", source="a\nb\nc\n")
    complete, problem = load("dumps", "marian")(**dump_files)
    assert complete.number == 0
    assert "1 sentences, but" in str(problem)
    assert "has 3" in str(problem)
    dump_files = files(tmp_path, path="a ||| x ||| 1,0 ||| F0= -1.5 ||| -0.5\n", source="a\n")
    with pytest.raises(
        DataError, match="'a' is not the number of a sentence, with which an n-best line begins"
    ):
        list(load("dumps", "marian")(**dump_files))


def test_neural_monkey(tmp_path):
    weights = np.zeros((2, 3, 3))
    weights[0, :2, :2] = [[0.75, 0.5], [0.25, 0.5]]
    weights[0, :, 2] = 7  # rubbish behind the translation
    weights[1] = 1 / 3
    np.save(tmp_path / "w.npy", weights)
    text_files = files(tmp_path, source="a b\na b c d\n", target="x y\nx y z u\n")
    first, cut = load("dumps", "neural_monkey")(tmp_path / "w.npy", **text_files)
    assert first.weights_TS.tolist() == [[0.75, 0.25], [0.5, 0.5]]
    assert cut.source.pieces == ("a", "b", "c")
    short = files(tmp_path, source="a b\n")
    with pytest.raises(DataError, match=r"an array of shape \(2, 3, 3\), but .*source has 1 lines"):
        list(load("dumps", "neural_monkey")(tmp_path / "w.npy", **text_files | short))


def test_pickles_are_never_read(tmp_path):
    target = tmp_path / "owned"
    np.save(tmp_path / "w.npy", np.array([Hostile(target)], dtype=object), allow_pickle=True)
    text_files = files(tmp_path, source="a\n", target="x\n")
    with pytest.raises(DataError, match="pickled objects, which are never read"):
        list(load("dumps", "neural_monkey")(tmp_path / "w.npy", **text_files))
    assert not target.exists()
    (tmp_path / "w.npy").write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match="npy"):
        list(load("dumps", "neural_monkey")(tmp_path / "w.npy", **text_files))
    for array in (np.array([["a"]]), np.ones((1, 1, 1), dtype=complex)):
        np.save(tmp_path / "w.npy", array)
        with pytest.raises(DataError, match="expected one array of real numbers"):
            list(load("dumps", "neural_monkey")(tmp_path / "w.npy", **text_files))


def test_our_own_form_goes_round(tmp_path):
    generator = np.random.default_rng(0)
    sentence = Weighed(
        3, Tokens.of(["▁Ein", "▁H", "und"], True), Tokens.of(["▁a", "▁dog"], True),
        generator.normal(size=(3, 4)), np.tril(generator.normal(size=(3, 3)), -1),
        np.log(generator.random(3)),
    )  # fmt: skip
    path = tmp_path / "w.jsonl.gz"
    assert list(written([sentence], path, attention=False)) == [sentence]
    reader = JsonLines(path)
    [again] = reader
    assert not reader.attention
    assert (again.number, again.source, again.target) == (3, sentence.source, sentence.target)
    for name in ("weights_TS", "prefix_TT", "log_probability_T"):
        np.testing.assert_allclose(getattr(again, name), getattr(sentence, name), rtol=1e-6)
    first = path.read_bytes()
    list(written([sentence], path, attention=False))
    assert path.read_bytes() == first
    assert gzip.decompress(first).startswith(b'{"form": "weights"')


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"weights": [[1], [1, 2]]}, "weights: expected numbers, in rows of equal length"),
        ({"weights": [[float("nan")]]}, "weights: a number is not finite"),
        ({"weights": None}, "no weights"),
        ({"weights": [[0.5, 0.5, 0.5]]}, "1 source tokens without EOS, but weights of 3"),
        ({"source": "a"}, "source: expected a list of tokens"),
        ({"number": -1}, "number: -1 is not a whole number from 0"),
        ({"prefix": [[0, 0]]}, "prefix: 1 x 2; expected 1 x 1, one for each target token"),
        ({"prefix": [[0.1]]}, "prefix: a step has a weight for its own word or a later one"),
        ({"prefix": []}, "prefix: 0; expected 1 x 1, one for each target token"),
        ({"log_probabilities": [-1, -2]}, "2 log-probabilities, but weights of 1 target tokens"),
        ({"log_probabilities": [1]}, "a log-probability is above 0 or not a number"),
        ({"weights": [[10**400]]}, "weights: expected numbers, in rows of equal length"),
        ({"number": 10**30}, "is not a whole number from 0"),
        ({"source": ["\ud800"]}, "half a character"),
        ({"source_words": [-1]}, "source_words: the last number should be -1 for </s> and for"),
        (
            {"source": ["a", "</s>"], "weights": [[1, 0]], "source_words": [0, 1]},
            "source_words: the last number should be -1 for </s> and for nothing else",
        ),
    ],
)
def test_our_own_form_is_checked(tmp_path, change, problem):
    good = {"source": ["a"], "target": ["x"], "weights": [[1]]}
    header = json.dumps({"form": "weights", "version": 1, "attention": True})
    lines = [header, json.dumps(good | change), "", json.dumps(good)]
    broken, complete = load("dumps", "json_lines")(**files(tmp_path, path="\n".join(lines) + "\n"))
    assert problem in str(broken)
    assert "path:2:" in str(broken)
    assert complete.number == 1
    with pytest.raises(DataError, match="path:1: the first line is not the header"):
        JsonLines(**files(tmp_path, path=json.dumps(good)))


def test_files_beside_a_dump_are_those_that_it_needs(tmp_path):
    dump_files = files(tmp_path, path=NEMATUS, source="a\n")
    with pytest.raises(XnmtError, match=r"takes no file of source tokens \(relevance.source\)"):
        load("dumps", "nematus")(**dump_files)
    with pytest.raises(XnmtError, match=r"needs a file of source tokens \(relevance.source\)"):
        load("dumps", "marian")(dump_files["path"])
    assert set(entries("dumps")) == {kind for kind, *_ in FORMATS.values()} | {
        "json_lines",
        "inseq",
    }  # these have tests of their own


@pytest.mark.parametrize(
    ("pieces", "words", "text"),
    [
        (["Net@@", "any@@", "ahu", "is"], [0, 0, 0, 1], "Netanyahu is"),
        (["▁Net", "any", "ahu", "▁is"], [0, 0, 0, 1], "Netanyahu is"),
        (["Net￭", "anyahu", "is", "￭."], [0, 0, 1, 1], "Netanyahu is."),
        (["it", "&apos;s", "28", "@-@", "old"], [0, 1, 2, 3, 4], "it 's 28 - old"),
        (["?a=1&section=3", "&amp;copy"], [0, 1], "?a=1&section=3 &copy"),
        ([], [], ""),
    ],
)
def test_words_and_text_of_pieces(pieces, words, text):
    tokens = Tokens.of(pieces, eos=True)
    assert tokens.words == (*words, -1)
    assert tokens.text == text
    assert tokens.size == len(pieces)


def test_words_are_sums_of_source_pieces_and_means_of_target_pieces():
    sentence = Weighed(
        0, Tokens.of(["a@@", "b", "c"], True), Tokens.of(["x", "y@@", "z"], False),
        np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.2, 0.2, 0.2], [0, 0, 1, 0]]),
        np.array([[0, 0, 0], [3, 0, 0], [1, 5, 0]]), np.array([-1.0, -2.0, -4.0]),
    ).whole()  # fmt: skip
    np.testing.assert_allclose(sentence.weights_TS, [[0.3, 0.3, 0.4], [0.3, 0.6, 0.1]])
    np.testing.assert_allclose(sentence.prefix_TT, [[0, 0], [2, 0]])
    assert sentence.log_probability_T.tolist() == [-1, -6]
    assert (sentence.source.pieces, sentence.target.pieces) == (("ab", "c", "</s>"), ("x", "yz"))


@pytest.mark.parametrize("weight", [0.2, 0.20001, 0.3])  # padding rounds
def test_a_repeated_sentence_has_the_same_weights_of_its_prefix(tmp_path, weight):
    """An explainer reads one relevance for each pair of texts."""
    line = {
        "source": ["a"],
        "target": ["x", "y"],
        "weights": [[1], [1]],
        "prefix": [[0, 0], [0.2, 0]],
    }
    again = line | {"prefix": [[0, 0], [weight, 0]]}
    path = tmp_path / "dump"
    header = {"form": "weights", "version": 1}
    path.write_text("".join(json.dumps(x) + "\n" for x in (header, line, again)))
    explainer = FromFile(str(path), "json_lines")
    refused = pytest.raises(
        DataError, match="sentences 1 and 2 are equal, but their weights differ"
    )
    with nullcontext() if weight < 0.21 else refused:
        assert len(explainer._sentences) == 1
