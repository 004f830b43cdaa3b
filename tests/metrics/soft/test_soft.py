"""Soft erasure against a slow loop, bounds, and explainers whose place is known."""

from dataclasses import replace
from itertools import chain, islice

import numpy as np
import pytest
import torch

from support.configurations import overrides
from support.forked_commands import command, must_run
from support.systems import batch_of, double, small_job
from xnmt_bench.corpora.vocabulary.subwords import SPECIAL
from xnmt_bench.errors import NotApplicable
from xnmt_bench.metrics.soft import SoftErasure
from xnmt_bench.metrics.soft.distances import Decision, distances, hellinger
from xnmt_bench.metrics.soft.metric import NARROW, sums_of
from xnmt_bench.metrics.soft.retention import KINDS, chances_of, level, scale
from xnmt_bench.rules.extract import TEACHER_FORCING
from xnmt_bench.rules.table import SentenceRelevance

SAMPLES = 3


@pytest.fixture(scope="module")
def model_and_sentence(system):
    """A model in float64 and one sentence."""
    model, split = double(system.system.model), system.texts.split("test")
    return model, batch_of(split, [4]), (split.source[4], split.target[4])


def drawn_relevance(ids, first=0):
    """Relevance of each step that it can see, drawn at random."""
    rng = np.random.default_rng(0)
    s, t = map(len, ids)
    prefix = rng.normal(size=(t - first, t))
    for row, step in enumerate(range(first, t)):
        prefix[row, step:] = np.nan
    return SentenceRelevance(0, first, rng.normal(size=(t - first, s)), prefix, np.ones(t - first))


def decisions_of(chances, first=0, sentence=0):
    """The decisions of a sentence, from a step on, by the chances of its words."""
    by_decision = zip(*(chances_KNX.swapaxes(0, 1) for chances_KNX in chances), strict=True)
    return [Decision(sentence, first + n, *of) for n, of in enumerate(by_decision)]


def test_distances_equal_a_slow_loop(model_and_sentence):
    """One decision, one way to keep words and one draw at a time, by numpy's own sums."""
    model, batch, ids = model_and_sentence
    first = 1
    chances, _, _ = chances_of(drawn_relevance(ids, first), *ids, retention=0.4)
    steps = range(first, len(ids[1]))
    nothing_N, moved_NKR = distances(model, batch, decisions_of(chances, first), SAMPLES, seed=5)
    source, inputs = model.embed_source(batch.source_BS)[0], model.embed_target(batch.input_BT)[0]
    special = np.isin(batch.input_BT[0].numpy(), SPECIAL)

    def p_of(x, y, step):
        states = model.decode(model.encode(x[None], batch.layout), y[None])
        return model.logits(states)[0, step].softmax(-1).numpy()

    def distance(p, q):
        return np.sqrt(max(0.0, 1 - np.sqrt(p * q).sum()))

    source_words = [i for i, word in enumerate(ids[0]) if word not in SPECIAL]
    for n, step in enumerate(steps):
        unerased = p_of(source, inputs, step)
        empty_source, empty_inputs = source.clone(), inputs.clone()
        empty_source[source_words] = 0
        empty_inputs[~special] = 0
        expected = distance(unerased, p_of(empty_source, empty_inputs, step))
        assert nothing_N[n] == pytest.approx(expected, abs=1e-7)
        rng = np.random.default_rng([5, step, *ids[0].tolist(), *ids[1].tolist()])
        of_source = rng.random((SAMPLES, *source.shape), dtype=np.float32)
        of_inputs = rng.random((SAMPLES, *inputs.shape), dtype=np.float32)
        for k in range(len(KINDS)):
            for r in range(SAMPLES):
                x, y = source.clone(), inputs.clone()
                for i in source_words:
                    x[i][torch.tensor(of_source[r, i] >= chances[0][k, n, i])] = 0
                for j in range(step):
                    y[j + 1][torch.tensor(of_inputs[r, j + 1] >= chances[1][k, n, j])] = 0
                expected = distance(unerased, p_of(x, y, step))
                assert moved_NKR[n, k, r] == pytest.approx(expected, abs=1e-7)


def test_whole_embeddings_move_nothing_and_none_moves_as_far_as_no_word(model_and_sentence):
    model, batch, ids = model_and_sentence
    count = len(ids[1])
    ends = tuple(np.stack([np.full((count, len(x)), keep) for keep in (1.0, 0.0)]) for x in ids)
    nothing_N, moved_NKR = distances(model, batch, decisions_of(ends), 2, seed=0)
    np.testing.assert_allclose(moved_NKR[:, 0], 0, atol=1e-7)
    np.testing.assert_allclose(moved_NKR[:, 1], np.repeat(nothing_N[:, None], 2, 1), atol=1e-7)
    assert nothing_N.max() > 0.5


def test_sentences_that_are_computed_together_have_the_distances_of_each(system):
    model, split = double(system.system.model), system.texts.split("test")
    pairs = [(split.source[i], split.target[i]) for i in range(4)]
    decisions = [
        decisions_of(chances_of(drawn_relevance(ids, first), *ids, 0.4)[0], first, n)
        for n, (first, ids) in enumerate(zip((0, 2, 1, 0), pairs, strict=True))
    ]
    together = distances(model, model.collate(pairs), [*chain(*decisions[::-1])], SAMPLES, seed=5)
    each = [
        distances(
            model, model.collate([ids]), [replace(d, sentence=0) for d in of], SAMPLES, seed=5
        )
        for ids, of in zip(pairs, decisions, strict=True)
    ][::-1]
    for whole, parts in zip(together, zip(*each, strict=True), strict=True):
        np.testing.assert_allclose(whole, np.concatenate(parts), atol=1e-9)


def test_hellinger_is_between_0_and_1():
    ends = torch.eye(3, dtype=torch.float64)
    assert hellinger(ends[0], ends[0]) == 0
    assert hellinger(ends[0], ends[1]) == 1
    p, q = torch.tensor([0.36, 0.64]), torch.tensor([0.64, 0.36])
    assert float(hellinger(p, q)) == pytest.approx(np.sqrt(1 - 2 * 0.48))


def test_chances_follow_from_relevance():
    np.testing.assert_allclose(scale(np.array([-2.0, 0.0, 2.0])), [0, 0.5, 1])
    np.testing.assert_allclose(scale(np.array([3.0, 3.0])), [0.5, 0.5])
    assert len(scale(np.zeros(0))) == len(level(np.zeros(0), 0.5)) == 0


@pytest.mark.parametrize("retention", [0.05, 0.3, 0.5, 0.95])
def test_levelled_chances_keep_the_order_and_have_one_mean(retention):
    rng = np.random.default_rng(0)
    for scores in (rng.normal(size=9), rng.exponential(size=4) ** 4, np.array([0.0, 0, 0, 1])):
        levelled = level(scale(scores), retention)
        assert levelled.mean() == pytest.approx(retention)
        assert levelled.min() >= 0 and levelled.max() <= 1
        order = np.argsort(scores)
        assert (np.diff(levelled[order]) >= -1e-12).all()
    np.testing.assert_allclose(level(scale(np.ones(3)), retention), retention)


def test_words_that_are_seen_have_chances_and_no_others():
    source, target = np.array([9, 8, 7, SPECIAL[-1]]), np.array([6, 5, SPECIAL[-1]])
    nan = np.nan
    prefix = np.array([[nan, nan, nan], [4.0, nan, nan], [1.0, 3.0, nan]])
    relevance = SentenceRelevance(
        0, 0, np.array([[1.0, 2, 3, 99], [0, 0, 4, 99], [5, 5, 5, 99]]), prefix, np.ones(3)
    )
    (source_KNS, target_KNT), retention_N, flat_N = chances_of(relevance, source, target, 0.5)
    np.testing.assert_allclose(source_KNS[0], [[0, 0.5, 1, 1], [0, 0, 1, 1], [0.5, 0.5, 0.5, 1]])
    np.testing.assert_allclose(target_KNT[0], [[1, 1, 1], [0.5, 1, 1], [0, 1, 1]])
    # EOS is kept whole, also where the words named are taken away.
    np.testing.assert_allclose(source_KNS[1, :, :3], 1 - source_KNS[0, :, :3])
    assert (source_KNS[:, :, 3] == 1).all()
    np.testing.assert_allclose(source_KNS[2:, :, :3].mean(-1), 0.5)
    np.testing.assert_allclose(retention_N, [0.5, 1.5 / 4, 2.5 / 5])
    assert flat_N.tolist() == [False, False, True]
    with pytest.raises(NotApplicable, match="gives no score to some words"):
        chances_of(SentenceRelevance(0, 0, nan * prefix, prefix, np.ones(3)),
                   np.array([9, 8, 7]), target, 0.5)  # fmt: skip


def test_sums_are_of_ratios_by_decision():
    """A draw that moves farther than no word counts 0; a decision without need is left out."""
    columns = {
        "nothing": np.array([0.5, 0.8, NARROW / 2]),
        "retention": np.array([0.2, 0.4, 0.9]),
        "kept": np.array([[0.25, 0.75], [0.0, 0.4], [0.1, 0.1]]),
        "removed": np.array([[0.5, 0.25], [0.8, 0.8], [0.1, 0.1]]),
        "level_kept": np.zeros((3, 2)),
        "level_removed": np.zeros((3, 2)),
    }
    sums = sums_of(columns)
    np.testing.assert_allclose(sums["soft_ns"], [0.25, 0.75, 0])
    np.testing.assert_allclose(sums["soft_nc"], [0.75, 1.0, 0])
    np.testing.assert_allclose(sums["pi_soft_ns"], [1, 1, 0])
    results = SoftErasure().of_sums(
        {name: x.sum(keepdims=True) for name, x in sums.items()} | {"rows": np.array([3.0])}
    )
    assert results["soft_ns"] == pytest.approx(0.5)
    assert results["retention"] == pytest.approx(0.3)
    assert results["decisions"] == 2 and results["narrow"] == 1


def results_of(workplace, explainer, *changes):
    """Results of an explainer on some sentences of the session's Transformer."""
    metric = SoftErasure(sentences=15, samples=2)
    job = small_job(workplace, "transformer", f"explainer={explainer}", *changes)
    [row] = metric.measure(job)
    evidence = row.make()
    sums = {name: evidence.units[name].sum(keepdims=True) for name in evidence.units.columns}
    return {name: float(x[0]) for name, x in metric.of_sums(sums).items()}


@pytest.mark.long
def test_what_asks_the_model_is_ahead_of_random_words(workplace, transformer):
    asks, blind = (results_of(workplace, name) for name in ("prediction_difference", "random"))
    assert asks["pi_soft_ns"] > blind["pi_soft_ns"] + 0.1
    assert asks["pi_soft_nc"] > blind["pi_soft_nc"] + 0.05
    assert asks["decisions"] == blind["decisions"] > 100


def test_high_scores_for_all_words_gain_by_the_raw_numbers_alone(workplace, transformer):
    """Against drawn scores: every word but the first scores 1, and the model is never asked."""
    job = small_job(workplace, "transformer", "explainer=random")
    model, split = job.system.model, job.texts.split("test")
    means, rng = [], np.random.default_rng(0)
    for cheats in (False, True):
        parts = []
        for relevance in islice(job.relevance(TEACHER_FORCING).read(), 8):
            ids = split.ids(relevance.number)
            scores = [
                np.where(
                    np.isnan(x), x, np.arange(x.shape[1]) > 0 if cheats else rng.random(x.shape)
                )
                for x in (relevance.source_TS, relevance.prefix_TT)
            ]
            relevance = replace(relevance, source_TS=scores[0], prefix_TT=scores[1])
            chances, retention_N, _ = chances_of(relevance, *ids, 0.5)
            decisions = decisions_of(chances, relevance.first)
            nothing_N, moved_NKR = distances(model, model.collate([ids]), decisions, 2, 0)
            columns = dict(zip(KINDS, moved_NKR.swapaxes(0, 1), strict=True))
            parts.append(sums_of(columns | {"nothing": nothing_N, "retention": retention_N}))
        means.append({name: np.concatenate([p[name] for p in parts]).mean() for name in parts[0]})
    drawn, cheater = means
    assert cheater["retention"] > 0.8 > 0.6 > drawn["retention"]
    assert cheater["soft_ns"] > drawn["soft_ns"] + 0.2
    assert cheater["soft_nc"] > drawn["soft_nc"] + 0.05
    # All but one word alike: what equal scores have, which may be more than drawn ones.
    for name in ("pi_soft_ns", "pi_soft_nc"):
        assert abs(cheater[name] - drawn[name]) < 0.1


@pytest.mark.long
def test_from_the_command_line(workplace, tmp_path):
    shared = [*overrides("transformer", workplace), f"results={tmp_path}", "metric=[soft]",
              "metric.soft.sentences=5", "metric.soft.samples=1"]  # fmt: skip
    must_run("train.py", "-m", *shared, "explainer=gradient_norm,random", cwd=tmp_path)
    shown = must_run("evaluate.py", *shared, cwd=tmp_path)
    text = " ".join(shown.stdout.split())
    assert "random (blind)" in text and "pi-Soft-NS" in text
    assert "Compare explainers by the pi columns" in text


def test_a_retention_outside_0_and_1_is_one_line(tmp_path):
    done = command("train.py", "metric=[soft]", "metric.soft.retention=1.0", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["error: metric.soft.retention=1.0: should be less than 1"]
