"""Explainers that never ask the model: points of reference."""

from collections import defaultdict

import numpy as np
import pytest
import torch

from support.configurations import configure, overrides
from support.systems import batch_of
from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import EOS, SEPARATOR
from xnmt_bench.errors import XnmtError
from xnmt_bench.explainers.base import decide
from xnmt_bench.explainers.lexicon import Lexicon
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.pipeline.job import Job
from xnmt_bench.registry import entries, load_explainer
from xnmt_bench.rules.topk import top_k
from xnmt_bench.words.ibm_model_1 import agreed_links, ibm_model_1

BLIND = (
    "code",
    "gold_alignment",
    "lexicon",
    "names_both",
    "names_cue",
    "names_link",
    "nearest",
    "random",
    "rarest",
    "uniform",
)


class Never:
    """Stands for a model that must not be asked; its vocabulary may be counted."""

    def __init__(self, model):
        self.target_subwords, self.source_subwords = model.target_subwords, model.source_subwords


def test_uniform_rules_are_the_first_words(transformer):
    batch = batch_of(transformer.texts.split("test"), range(3))
    relevance = load_explainer("uniform").relevance(Never(transformer.system.model), batch)
    words_BS = batch.source_BS > EOS
    for scores_TS, words_S in zip(relevance.source_BTS.numpy(), words_BS.numpy(), strict=True):
        seen_S = ~np.isnan(scores_TS[0])
        assert (scores_TS[0][seen_S] == 1).all()
        chosen_K = top_k(scores_TS[:1], (seen_S & words_S)[None], 2)[0][0]
        assert chosen_K.tolist() == np.flatnonzero(words_S)[:2].tolist()
    prefix_TT = relevance.prefix_BTT[0].numpy()
    assert [int((row == 1).sum()) for row in prefix_TT[:3]] == [0, 1, 2]


def test_the_nearest_word_is_one_of_the_current_sentence():
    """Whatever stands around it: a context on one side or both, following sentences."""
    alone = [[20, 21, 22, EOS], [30, 31, EOS]]
    nearest = load_explainer("nearest")
    expected_TS = nearest.relevance(None, Batch.collate([alone])).source_BTS[0]
    before, behind = [*range(40, 52), SEPARATOR], [60, 61, 62, EOS]
    for source_before, target_before, following in ((before, [], []), (before, before[:4], behind)):
        target_before = [*target_before, *[SEPARATOR] * bool(target_before)]
        pair = [*source_before, *alone[0], *following], [*target_before, *alone[1]]
        batch = Batch.collate([pair, ([20, EOS], [30, EOS])])  # which pads neither side here
        source_TS = nearest.relevance(None, batch).source_BTS[0, len(target_before) :]
        start = len(source_before)
        torch.testing.assert_close(source_TS[:, start : start + 4], expected_TS)
        for step, score_S in enumerate(source_TS):
            assert start <= int(score_S.argmax()) < start + 4, step


def test_words_of_a_context_are_counted_once():
    sentences = [[7, EOS], [7, SEPARATOR, 8, EOS], [7, SEPARATOR, 8, SEPARATOR, 9, 9, EOS, 8, EOS]]
    side = EncodedSide.of(sentences)
    learnt = load_explainer("rarest").prepare(EncodedSplit(side, side, np.arange(3)))
    for count_V in learnt.values():
        assert count_V[[7, 8, 9, SEPARATOR]].tolist() == [1, 1, 2, 0]


def test_rare_words_come_first(transformer):
    """By counts of the training text, one sentence after another."""
    rarest, train = load_explainer("rarest"), transformer.texts.split("train")
    batch = batch_of(transformer.texts.split("test"), range(4))
    with pytest.raises(XnmtError, match="no words have been counted: call prepare first"):
        rarest.relevance(Never(transformer.system.model), batch)
    rarest.learnt = rarest.prepare(train)
    counts = [defaultdict(int), defaultdict(int)]
    for i in range(len(train)):
        for count, ids in zip(counts, (train.source[i], train.target[i]), strict=True):
            for word in ids.tolist():
                count[word] += 1
    relevance = rarest.relevance(Never(transformer.system.model), batch)
    for b, t in np.ndindex(*batch.target_BT.shape):
        if batch.target_mask_BT[b, t]:
            for s in np.flatnonzero(batch.source_mask_BS[b]):
                times = counts[0][int(batch.source_BS[b, s])]
                assert relevance.source_BTS[b, t, s] == pytest.approx(-np.log(times + 1))
            for j in range(t):
                times = counts[1][int(batch.target_BT[b, j])]
                assert relevance.prefix_BTT[b, t, j] == pytest.approx(-np.log(times + 1))
    # A word that training never had is the rarest.
    rarest.learnt = {"source": np.array([5]), "target": np.array([5])}
    assert (rarest.relevance(Never(transformer.system.model), batch).source_BTS[0, 0, 0]) == 0


def test_which_explainers_are_blind():
    assert sorted(n for n, e in entries("explainers").items() if e.load().blind) == sorted(BLIND)


@pytest.fixture(scope="module")
def learnt():
    rng = np.random.default_rng(0)
    rows = [
        (
            [*rng.integers(4, 9, rng.integers(1, 5)), EOS],
            [*rng.integers(4, 8, rng.integers(1, 5)), EOS],
        )
        for _ in range(30)
    ]
    sides = (EncodedSide.of(side) for side in zip(*rows, strict=True))
    return rows, EncodedSplit(*sides, np.arange(30))


@pytest.mark.parametrize("iterations", [1, 4])
def test_ibm_model_1_against_a_slow_loop(learnt, iterations, monkeypatch):
    rows, split = learnt
    monkeypatch.setattr("xnmt_bench.words.ibm_model_1.CHUNK", 60)  # several chunks
    learnt_columns = ibm_model_1(split, 20, iterations)
    t = defaultdict(lambda: 1.0)
    for _ in range(iterations):
        count, total = defaultdict(float), defaultdict(float)
        for source, target in rows[:20]:
            for f in target:
                norm = sum(t[e, f] for e in source)
                for e in source:
                    count[e, f] += t[e, f] / norm
                    total[e] += t[e, f] / norm
        t = defaultdict(float, {(e, f): c / total[e] for (e, f), c in count.items()})
    table = zip(learnt_columns["source"].tolist(), learnt_columns["target"].tolist(), strict=True)
    learnt_table = dict(zip(table, learnt_columns["probability"].tolist(), strict=True))
    assert learnt_table == pytest.approx({pair: p for pair, p in t.items() if p >= 1e-6}, rel=1e-4)


def test_a_word_without_a_probable_source_word_has_no_link(monkeypatch):
    pairs = [(["a"], ["x"])] * 8 + [(["a"], ["y"])]
    assert agreed_links(pairs)[0] == {(0, 0)}
    # P(y given a) is 1 in 9, and `y`, the greatest number, has left the table.
    monkeypatch.setattr("xnmt_bench.words.ibm_model_1.LEAST", 0.2)
    assert agreed_links(pairs) == [{(0, 0)}] * 8 + [set()]


def prepared(job):
    lexicon = Lexicon()
    lexicon.learnt = lexicon.prepare(job.texts.split("train"))
    return lexicon


def test_blind_explainers_ask_no_model(transformer):
    model, split = transformer.system.model, transformer.texts.split("test")
    batch, _ = decide(model, batch_of(split, [0, 3, 5]))
    for explainer in (load_explainer("code"), load_explainer("nearest"), prepared(transformer)):
        batched = explainer.relevance(Never(model), batch)
        alone_batch, _ = decide(model, batch_of(split, [3]))
        alone = explainer.relevance(Never(model), alone_batch)
        t, s = alone_batch.target_BT.shape[1], alone_batch.source_BS.shape[1]
        torch.testing.assert_close(
            batched.source_BTS[1, :t, :s], alone.source_BTS[0], equal_nan=True
        )
        torch.testing.assert_close(
            batched.prefix_BTT[1, :t, :t], alone.prefix_BTT[0], equal_nan=True
        )
        assert alone.prefix_BTT[0].isnan().equal(torch.ones(t, t).triu().bool())


def test_a_lexicon_knows_translations_and_the_previous_word(transformer):
    model, split = transformer.system.model, transformer.texts.split("test")
    batch, _ = decide(model, batch_of(split, [7]))
    lexicon = prepared(transformer)
    relevance = lexicon.relevance(model, batch)
    keys = zip(*(lexicon.learnt[side].tolist() for side in ("source", "target")), strict=True)
    table = dict(zip(keys, lexicon.learnt["probability"].tolist(), strict=True))
    for step, label in enumerate(batch.labels_BT[0].tolist()):
        expected = [table.get((word, label), 0.0) for word in batch.source_BS[0].tolist()]
        np.testing.assert_allclose(relevance.source_BTS[0, step], expected, rtol=1e-5)
        if step:
            assert relevance.prefix_BTT[0, step].nan_to_num(-1).argmax() == step - 1


def test_a_code_depends_on_word_and_label_alone(transformer):
    model, split = transformer.system.model, transformer.texts.split("test")
    batch, _ = decide(model, batch_of(split, range(12)))
    source_BTS = load_explainer("code").relevance(model, batch).source_BTS
    value_of = {}
    for b, t, s in zip(
        *map(torch.Tensor.tolist, (~source_BTS.isnan()).nonzero(as_tuple=True)), strict=True
    ):
        key = (int(batch.source_BS[b, s]), int(batch.labels_BT[b, t]))
        value = float(source_BTS[b, t, s])
        assert value_of.setdefault(key, value) == value
    values = np.array(list(value_of.values()))
    assert len(set(values)) > 0.99 * len(values)
    assert abs(values.mean() - 0.5) < 0.05 and values.min() >= 0 and values.max() < 1


def test_a_lexicon_that_nobody_prepared_says_so(transformer):
    with pytest.raises(XnmtError, match="learnt from no training split"):
        load_explainer("lexicon")(transformer.system.model, [("a dog .", "ein Hund .")])


def test_what_is_learnt_is_stored_once(transformer, workplace):
    changes = [*overrides("transformer", workplace), "explainer=lexicon"]
    first, other = (Job(configure(*changes)).explained for _ in range(2))
    assert first.prepared.fingerprint == other.prepared.fingerprint
    assert (first.ready.learnt["probability"] == other.ready.learnt["probability"]).all()
    fewer = Job(configure(*changes, "explainer.phi.sentences=100")).explained
    assert fewer.prepared.fingerprint != first.prepared.fingerprint
    assert Job(configure(*changes, "explainer=code")).explained.prepared is None
