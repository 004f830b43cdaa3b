"""The kinds of decisions, on the toy corpus."""

import numpy as np
import pytest

from xnmt_bench.corpora.sentence import SPLITS
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS
from xnmt_bench.judges import RuleSet
from xnmt_bench.metrics.fidelity.decision_facts import FACETS_FILE, TestDecisions
from xnmt_bench.parquet import read_table
from xnmt_bench.rules.decision_kinds import facets


@pytest.fixture(scope="module")
def facets_of(transformer):
    gold = transformer.texts.gold("test")
    return facets(
        RuleSet(transformer).test,
        transformer.texts.split("test"),
        transformer.system.subwords[1],
        transformer.texts.split("train"),
        gold,
    )


def decisions(job):
    """Number, step, target ids of each decision."""
    rules, split = RuleSet(job).test, job.texts.split("test")
    index = {int(n): i for i, n in enumerate(split.number)}
    for row, (number, step) in enumerate(zip(rules.sentence_N, rules.step_N, strict=True)):
        yield row, int(number), int(step), split.target[index[int(number)]].tolist()


def test_labels_are_counted_in_the_texts_that_the_system_learnt_from(transformer, monkeypatch):
    """With `nmt.corpus`, these are not the measured corpus's."""
    usual = TestDecisions(RuleSet(transformer)).facets
    few = transformer.system.read(ToyCorpus(seed=0, train=30, valid=5, test=5), SPLITS)
    monkeypatch.setitem(vars(transformer.system), "learnt_texts", few)
    other = TestDecisions(RuleSet(transformer)).facets
    tables = [read_table(artefact.path / FACETS_FILE).to_pydict() for artefact in (usual, other)]
    assert tables[0]["place"] == tables[1]["place"]
    usually_rare, rare = (kinds["frequency"].count("0-10") for kinds in tables)
    assert rare > usually_rare


def test_place(transformer, facets_of):
    for row, _, step, ids in decisions(transformer):
        names = ["first fifth", "second", "third", "fourth", "last fifth"]
        assert facets_of["place"][row] == names[int(5 * step / len(ids))]


def test_frequency_is_counted_in_the_training_targets(transformer, facets_of):
    training = transformer.texts.split("train")
    counts = {}
    for i in range(len(training)):
        for token in training.target[i].tolist():
            counts[token] = counts.get(token, 0) + 1
    labels = RuleSet(transformer).test.label_N
    for row in range(len(labels)):
        low, _, high = facets_of["frequency"][row].strip("> ").replace(",", "").partition("-")
        assert int(low) <= counts.get(int(labels[row]), 0) <= (int(high) if high else np.inf)
    assert len(set(facets_of["frequency"])) > 2


def test_words_of_a_context_are_counted_once(tmp_path):
    """Of a concatenation each sentence stands in the context of the next ones too."""
    from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit
    from xnmt_bench.rules.table import Rules

    class Vocabulary:
        def __len__(self):
            return 12

        def pieces(self, ids):
            return ["▁x" for _ in ids]

        def begin_words(self, before, ids):
            return [True for _ in ids]

        def words(self, ids):
            return list(range(len(ids)))

    rows = [[7, EOS], [7, BOS, 8, EOS], [7, BOS, 8, BOS, *[9] * 11, EOS]]
    side = EncodedSide.of(rows)
    split = EncodedSplit(side, side, np.arange(3))
    n = np.array([2, 2, 2])
    rules = Rules(n, np.array([4, 5, 15]), np.array([8, 9, EOS]), n, *[n[:, None]] * 4)
    facets_of = facets(rules, split, Vocabulary(), split, None)
    assert facets_of["frequency"].tolist() == ["0-10", "11-100", "0-10"]
    assert facets_of["place"].tolist() == ["first fifth", "first fifth", "last fifth"]


def test_pieces(transformer, facets_of):
    labels, target = RuleSet(transformer).test.label_N.tolist(), transformer.system.subwords[1]
    for label, piece, name in zip(labels, target.pieces(labels), facets_of["piece"], strict=True):
        begins = "begins a word" if piece.startswith("▁") else "goes on"
        assert name == ("end of sentence" if label == EOS else begins)
    assert len(set(facets_of["piece"])) == 3


def test_links_are_those_of_the_steps_word(transformer, facets_of):
    gold, target = transformer.texts.gold("test"), transformer.system.subwords[1]
    for row, number, step, ids in decisions(transformer):
        word = target.words(ids)[step]
        linked = {j for _, j in gold[number].sure}
        expected = "" if word < 0 else "sure" if word in linked else "none"
        if word in {j for _, j in gold[number].possible} - linked:
            expected = "possible only"
        assert facets_of["link"][row] == expected


def test_without_gold_there_is_no_link(transformer):
    split = transformer.texts.split("test")
    bare = facets(RuleSet(transformer).test, split, transformer.system.subwords[1], split, None)
    assert set(bare["link"]) == {""}
