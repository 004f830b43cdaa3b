"""The plug-ins: files, gold, fastcoref by a stand-in, and the command."""

import gzip
import json
import sys
from types import ModuleType

import pytest

from xnmt_bench.corpora.sentence import Gold as GoldAnnotation
from xnmt_bench.corpora.sentence import Mention, Sentence
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.registry import create, entries
from xnmt_bench.resolvers.__main__ import main
from xnmt_bench.resolvers.base import character_starts, clusters_of_words, tidy

TROPHY = "The trophy didn't fit in the suitcase because it was too small."


def sentence(source, gold=None):
    return Sentence(source, "", "made", 0, gold)


def test_four_come_with_the_package():
    assert {"fastcoref", "file", "gold", "learnt"} <= set(entries("resolvers"))


def test_clusters_are_in_order_and_have_two_mentions():
    assert tidy([[(5, 6), (1, 1), (5, 6)], [(0, 0), (9, 9)], [(3, 3), (3, 3)]]) == (
        ((0, 0), (9, 9)), ((1, 1), (5, 6)),
    )  # fmt: skip


def test_characters_and_their_words():
    text = " so  it, was"
    assert character_starts(text) == [1, 5, 9, 12]
    clusters = [[(5, 7), (5, 12), (0, 1)]]
    assert clusters_of_words(character_starts(text), clusters) == (((1, 1), (1, 2)),)


def test_a_file_of_other_tokens(tmp_path):
    path = tmp_path / "clusters.jsonl"
    cut = TROPHY.replace("didn't", "did n't").replace(".", " .").split()
    row = {"document": cut, "clusters": [[[6, 7], [9, 9]], [[0, 1]]]}
    path.write_text(json.dumps(row) + "\n")
    resolver = create("resolvers", "file", path=str(path))
    resolved, unknown = resolver.resolve([sentence(TROPHY), sentence("It rains.")])
    assert resolved == (((5, 6), (8, 8)),)
    assert unknown is None
    with pytest.raises(DataError, match=r"clusters.jsonl: the file has none of the 1 sentences"):
        list(resolver.resolve([sentence("It rains.")]))


def test_sentences_that_differ_in_punctuation_have_clusters_of_their_own(tmp_path):
    path = tmp_path / "clusters.jsonl"
    texts = ["Oh John , he left .", "Oh , John , he left ."]
    mentions = [[[0, 1], [3, 3]], [[2, 2], [4, 4]]]
    rows = [{"tokens": t.split(), "clusters": [m]} for t, m in zip(texts, mentions, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    resolver = create("resolvers", "file", path=str(path))
    *resolved, unknown = resolver.resolve([*map(sentence, texts), sentence("Oh John he left")])
    assert resolved == [(((0, 1), (3, 3)),), (((2, 2), (4, 4)),)]
    assert unknown is None


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{"], ":1: not JSON"),
        ([{"tokens": ["A"], "clusters": [[[0, 5]]]}], ":1: expected tokens"),
        (
            [{"tokens": ["A", "b"], "clusters": c} for c in ([], [[[0, 0], [1, 1]]])],
            ":2: the clusters differ from those of an earlier line",
        ),
    ],
)
def test_a_line_that_is_none(lines, message, tmp_path):
    path = tmp_path / "clusters.jsonl"
    path.write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines))
    with pytest.raises(DataError, match=message):
        list(create("resolvers", "file", path=str(path)).resolve([sentence("A")]))


def test_a_missing_file_and_a_missing_path(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        create("resolvers", "file", path=str(tmp_path / "none.jsonl"))
    with pytest.raises(XnmtError, match=r"resolver 'file': .*path"):
        create("resolvers", "file")


def test_gold_chains_are_cut_at_the_end_of_a_sentence():
    gold = GoldAnnotation(
        source_mentions=(
            Mention("a", (0, 1)), Mention("a", (4,)), Mention("b", (3,)), Mention("c", (2, 5)),
            Mention("c", (6,)),
        )
    )  # fmt: skip
    resolved = create("resolvers", "gold").resolve([sentence("x", gold), sentence("x")])
    assert list(resolved) == [(((0, 1), (4, 4)), ((2, 5), (6, 6))), None]


class Prediction:
    def __init__(self, clusters):
        self._clusters = clusters

    def get_clusters(self, as_strings=True):
        assert not as_strings
        return self._clusters


class StandIn:
    """The interface of fastcoref's two models: characters of each mention (its README)."""

    batches: list

    def __init__(self, device):
        if device != "cpu":
            raise OSError("no network\nmore")
        StandIn.batches = []

    def predict(self, texts):
        StandIn.batches.append(len(texts))
        start = TROPHY.index("the suitcase")
        pronoun = TROPHY.index("it was")
        mentions = [(start, start + 12), (pronoun, pronoun + 2)]
        return [Prediction([mentions] if text == TROPHY else []) for text in texts]


def test_fastcoref_by_a_stand_in(monkeypatch):
    package = ModuleType("fastcoref")
    package.FCoref = package.LingMessCoref = StandIn
    monkeypatch.setitem(sys.modules, "fastcoref", package)
    resolver = create("resolvers", "fastcoref", sentences=2)
    texts = [TROPHY, "It rains.", TROPHY]
    expected = (((5, 6), (8, 8)),)
    resolved = list(resolver.resolve(map(sentence, texts)))
    assert StandIn.batches == [2, 1]
    assert resolved[1] == ()
    assert resolved[0] == resolved[2] == expected
    with pytest.raises(XnmtError, match=r"f-coref cannot be loaded: no network$"):
        create("resolvers", "fastcoref", device="cuda:9")


def test_fastcoref_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastcoref", None)
    with pytest.raises(XnmtError, match=r"pip install 'xnmt_bench\[fastcoref\]'"):
        create("resolvers", "fastcoref")


def test_the_command_counts_and_writes_what_the_resolver_of_files_reads(tmp_path, capsys):
    text, clusters, marked = (tmp_path / name for name in ("a.en", "c.jsonl", "m.en"))
    text.write_text("I love my dog.\nAnna said that she was ill.\nIt rains.\n")
    assert main([str(text), "--clusters", str(clusters), "--marked", str(marked)]) == 0
    first = capsys.readouterr().out
    assert "| a.en | 3 | 2 | 1 |" in first
    assert marked.read_text().splitlines()[1:] == [
        "<ENT1> Anna </ENT1> said that <ENT1> she </ENT1> was ill.", "It rains.",
    ]  # fmt: skip
    again = tmp_path / "again.en"
    options = ["--resolver", "file", "--path", str(clusters), "--marked", str(again)]
    assert main([str(text), *options]) == 0
    assert capsys.readouterr().out == first
    assert again.read_bytes() == marked.read_bytes()
    # Packed where the name ends in .gz, as every reader unpacks it.
    packed = clusters.with_suffix(".jsonl.gz")
    assert main([str(text), "--clusters", str(packed)]) == 0
    assert gzip.decompress(packed.read_bytes()) == clusters.read_bytes()
    again = tmp_path / "same.jsonl.gz"
    assert main([str(text), "--clusters", str(again)]) == 0
    assert again.read_bytes() == packed.read_bytes()


def test_no_file_is_lost_to_a_wrong_path(tmp_path, capsys):
    text, clusters = tmp_path / "a.en", tmp_path / "c.jsonl"
    text.write_text("It rains.\n")
    clusters.write_text("hours of work\n")
    assert main([str(tmp_path / "b.en"), "--clusters", str(clusters)]) == 1
    assert main([str(text), "--marked", str(text)]) == 1
    both = str(tmp_path / "both")
    assert main([str(text), "--marked", both, "--clusters", both]) == 1
    error = capsys.readouterr().err
    assert "both: give different files for clusters and marked sentences" in error
    assert "b.en: no such file" in error
    assert "a.en: this input file would be overwritten; give another file" in error
    assert (text.read_text(), clusters.read_text()) == ("It rains.\n", "hours of work\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--marked", "OUT"], "a.en:2: the text holds a marker: <ENT1>"),
        (["--resolver", "learned"], "no resolver 'learned'; did you mean learnt?"),
        (["--resolver", "file"], "resolver 'file':"),
    ],
)
def test_bad_input_ends_in_one_line(options, message, tmp_path, capsys):
    text = tmp_path / "a.en"
    text.write_text("It rains.\nThe <ENT1> dog </ENT1> sleeps.\n")
    options = [str(tmp_path / "out.en") if option == "OUT" else option for option in options]
    assert main([str(text), *options]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
