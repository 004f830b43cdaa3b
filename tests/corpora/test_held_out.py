"""Held-out pairs share no side with training pairs, directly or through other pairs."""

import networkx
import pytest

from xnmt_bench.corpora.held_out import HeldOutCorpus, letters
from xnmt_bench.errors import XnmtError

# A chain (a-1, b-1, b-2), a pair of equal letters (c-3, C!-4), and single pairs.
LINES = [("a", "1"), ("b", "1"), ("b", "2"), ("c", "3"), ("C!", "4")]
LINES += [(f"w{n}", f"v{n}") for n in range(40)]


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "pairs.tsv"
    rows = [f"tatoeba\t-\t0\t{source}\t{target}\n" for source, target in LINES]
    file.write_text("".join(rows) + "other\t-\t0\tx\ty\n", encoding="utf-8")
    return file


def corpus(path, **options):
    options = {"valid": 5, "test": 6} | options
    return HeldOutCorpus(path, "tatoeba", ["de", "en"], "de", "en", **options)


def split_of(corpus):
    splits = ("train", "valid", "test")
    return {(s.source, s.target): split for split in splits for s in corpus.sentences(split)}


@pytest.mark.parametrize("seed", range(6))
def test_connected_pairs_are_in_one_split(path, seed):
    splits = split_of(corpus(path, seed=seed))
    assert sorted(splits) == sorted(LINES)
    assert [list(splits.values()).count(s) for s in ("valid", "test")] == [5, 6]
    graph = networkx.Graph()
    for source, target in LINES:
        graph.add_edge(f"s{letters(source)}", f"t{letters(target)}")
    for component in networkx.connected_components(graph):
        members = [pair for pair in LINES if f"s{letters(pair[0])}" in component]
        assert len({splits[pair] for pair in members}) == 1


def test_another_seed_holds_out_other_pairs(path):
    first, second = (split_of(corpus(path, seed=seed)) for seed in (0, 1))
    assert first != second == split_of(corpus(path, seed=1))


def test_a_held_out_sentence_takes_its_whole_group_out(path):
    splits = split_of(corpus(path, held_out=["A ."]))
    assert not {("a", "1"), ("b", "1"), ("b", "2")} & splits.keys()
    assert len(splits) == len(LINES) - 3


def test_a_share_of_training_pairs_is_cut_into_words(tmp_path):
    file = tmp_path / "pairs.tsv"
    rows = [f"tatoeba\t-\t0\tSatz {n}, hier.\tLine {n}, here.\n" for n in range(200)]
    file.write_text("".join(rows), encoding="utf-8")
    partly_tokenised = corpus(file, tokenized=0.5)
    cut = [s.source.endswith(" , hier .") for s in partly_tokenised.sentences("train")]
    assert 60 < sum(cut) < 130
    assert all(s.source.endswith(" , hier .") == s.target.endswith(" , here .")
               for s in partly_tokenised.sentences("train"))  # fmt: skip
    assert not any(" ," in s.source for s in partly_tokenised.sentences("test"))


def test_too_few_pairs_are_an_error(path):
    with pytest.raises(XnmtError, match="pairs too few"):
        list(corpus(path, valid=40, test=30).sentences("test"))
