"""Infidelity against Captum's, slow loops, and scores that are exactly right."""

import numpy as np
import pytest
import torch
from captum.metrics import infidelity as captum_infidelity
from conftest import batch_of, command, configure, double, overrides

from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import decide
from xnmt_bench.metrics.infidelity import Infidelity
from xnmt_bench.metrics.infidelity.metric import errors
from xnmt_bench.metrics.infidelity.samples import erased_words, probabilities
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.table import SentenceRelevance

SAMPLES = 40


@pytest.fixture(scope="module")
def case(transformer):
    """A model in float64, a labelled sentence, and the words that each row erases."""
    model, split = double(transformer.system.model), transformer.texts.split("test")
    batch, log_p_BT = decide(model, batch_of(split, [4]))
    erased = erased_words(split.source[4], split.target[4], SAMPLES, seed=0)
    return model, batch, log_p_BT[0].exp().numpy(), erased


def p_of(model, batch, source_off, target_off):
    """P of each label with some words zeroed by hand, (T,)."""
    source, inputs = model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)
    source, inputs = source.clone(), inputs.clone()
    source[0, np.flatnonzero(source_off)] = 0
    inputs[0, 1 + np.flatnonzero(target_off[:-1])] = 0
    states = model.decode(model.encode(source, batch.layout), inputs)
    return model.log_probability(states, batch.labels_BT)[0].exp().numpy()


def test_rows_equal_embeddings_zeroed_by_hand(case):
    model, batch, whole_T, erased = case
    p_RT = probabilities(model, batch, erased, "zero")
    for row in range(SAMPLES):
        expected_T = p_of(model, batch, erased[0][row], erased[1][row])
        np.testing.assert_allclose(p_RT[row], expected_T, rtol=1e-9)
    nothing = tuple(np.zeros_like(x) for x in erased)
    np.testing.assert_allclose(probabilities(model, batch, nothing, "zero")[0], whole_T, rtol=1e-9)


def test_draws_follow_from_the_sentence_and_spare_eos(case):
    _, batch, _, erased = case
    ids = [x[0].numpy() for x in (batch.source_BS, batch.target_BT)]
    for first, again in zip(erased, erased_words(*ids, SAMPLES, 0), strict=True):
        np.testing.assert_array_equal(first, again)
        assert not first[:, -1].any() and 0.4 < first[:, :-1].mean() < 0.6
    assert (erased[0] != erased_words(*ids, SAMPLES, 1)[0]).any()


def test_it_equals_captums_on_the_same_subsets(case):
    """By switches of words; the scores are drawn."""
    model, batch, whole_T, erased = case
    rng = np.random.default_rng(0)
    s, t = batch.source_BS.shape[1], batch.target_BT.shape[1]
    scores = rng.normal(size=(t, s)), np.tril(rng.normal(size=(t, t)), -1)
    p_RT = probabilities(model, batch, erased, "zero")
    ours = errors(SentenceRelevance(0, 0, *scores, whole_T), erased, whole_T, p_RT)
    masks = torch.tensor(np.concatenate(erased, axis=1), dtype=torch.float64)
    for step in (0, 2, t - 1):

        def forward(on_RX, step=step):
            return torch.tensor(
                [
                    p_of(model, batch, row[:s] == 0, row[s:] == 0)[step]
                    for row in on_RX.detach().numpy()
                ]
            )

        def perturb(inputs):
            return masks, inputs - masks

        expected = captum_infidelity(
            forward,
            perturb,
            torch.ones(1, s + t, dtype=torch.float64),
            torch.tensor(np.concatenate([scores[0][step], scores[1][step]]))[None],
            n_perturb_samples=SAMPLES,
            max_examples_per_batch=SAMPLES,
            normalize=True,
        )
        assert ours["error"][step] == pytest.approx(float(expected), rel=1e-6)


def test_scores_that_foretell_everything_have_no_error_in_any_scale():
    """What is lost is a sum over words; the scores are a tenth of it, or its opposite."""
    rng = np.random.default_rng(1)
    erased = rng.random((30, 4)) < 0.5, rng.random((30, 3)) < 0.5
    source, prefix = rng.normal(size=(3, 4)), np.tril(rng.normal(size=(3, 3)), -1)
    whole = np.full(3, 5.0)
    p_RN = whole - (erased[0] @ source.T + erased[1] @ prefix.T)
    unseen = np.triu(np.full((3, 3), np.nan)) + prefix
    for scale in (0.1, -1.0):
        found = SentenceRelevance(0, 0, scale * source, scale * unseen, whole)
        sums = errors(found, erased, whole, p_RN)
        np.testing.assert_allclose(sums["error"], 0, atol=1e-12)
        assert (sums["against"] == (scale < 0)).all() and (sums["lost"] > 0).all()
    # Scores of 0 foretell nothing: the error is all that is lost.
    nothing = SentenceRelevance(0, 0, 0 * source, 0 * prefix, whole)
    sums = errors(nothing, erased, whole, p_RN)
    np.testing.assert_array_equal(sums["error"], sums["lost"])
    with pytest.raises(NotApplicable, match="says nothing of some words"):
        errors(SentenceRelevance(0, 0, np.nan * source, prefix, whole), erased, whole, p_RN)


def test_equal_scores_are_counts_of_erased_words():
    """Of the source, and of earlier target words; a loss of one for each is foretold."""
    rng = np.random.default_rng(2)
    erased = rng.random((20, 3)) < 0.5, rng.random((20, 4)) < 0.5
    whole = np.zeros(2)
    counts = [erased[0].sum(1) + erased[1][:, :step].sum(1) for step in (2, 3)]
    scores = rng.normal(size=(2, 3)), rng.normal(size=(2, 4))
    sums = errors(SentenceRelevance(0, 2, *scores, whole), erased, whole, -np.stack(counts, axis=1))
    np.testing.assert_allclose(sums["alike"], 0, atol=1e-12)
    assert (sums["error"] > 0.1).all()


def test_results_are_of_the_sums():
    sums = {"error": np.array([3.0]), "lost": np.array([12.0]), "against": np.array([1.0]),
            "alike": np.array([6.0]), "rows": np.array([10.0])}  # fmt: skip
    results = Infidelity().of_sums(sums)
    assert results["unexplained"] == 0.25 and results["alike"] == 0.5
    assert results["infidelity"] == pytest.approx(0.3)
    assert results["against"] == pytest.approx(0.1)


@pytest.mark.long
def test_shapley_foretells_more_than_random_words(workplace, transformer):
    """Under the removal that Shapley values are of; equal scores are as good as random ones."""
    unexplained = {}
    for name in ("shapley", "random"):
        changes = [*overrides("transformer"), f"store={workplace}/store", "corpus.seed=0",
                   "rules.test_sentences=20"]  # fmt: skip
        metric = Infidelity(removals=["zero"], sentences=20)
        [row] = metric.measure(Job(configure(*changes, f"explainer={name}")))
        units = row.make().units
        sums = {n: units[n].sum(keepdims=True) for n in units.columns}
        results = metric.of_sums(sums)
        unexplained[name] = float(results["unexplained"][0])
    alike = float(results["alike"][0])
    assert unexplained["shapley"] < 0.7 * alike < alike < unexplained["random"] < 1


@pytest.mark.long
def test_from_the_command_line(workplace, tmp_path):
    shared = [*overrides("transformer"), f"store={workplace}/store", "corpus.seed=0",
              f"results={tmp_path}", "metric=[infidelity]", "metric.infidelity.sentences=12",
              "metric.infidelity.removals=[zero,attention]"]  # fmt: skip
    done = command("train.py", "-m", *shared, "explainer=attention,random", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = command("evaluate.py", *shared, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    text = " ".join(shown.stdout.split())
    assert "attention: its scores of source and of prefix words are not on one scale" in text
    assert "random (blind)" in text and "removal zero: equal scores for all words leave" in text
