"""Infidelity against Captum's, slow loops, and scores that are exactly right."""

from itertools import product

import numpy as np
import pytest
import torch
from captum.metrics import infidelity as captum_infidelity
from scipy.optimize import nnls

from support.configurations import configure, overrides
from support.forked_commands import must_run
from support.systems import batch_of, double
from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import Relevance, decide
from xnmt_bench.explainers.prediction_difference import PredictionDifference
from xnmt_bench.metrics.infidelity import Infidelity
from xnmt_bench.metrics.infidelity.metric import EQUAL, ErasedLabels, equal_relevance, errors
from xnmt_bench.metrics.infidelity.samples import erased_words, probabilities
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.table import SentenceRelevance

SAMPLES = 40


@pytest.fixture(scope="module")
def erased_sentence(transformer):
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


def test_rows_equal_embeddings_zeroed_by_hand(erased_sentence):
    model, batch, whole_T, erased = erased_sentence
    [p_RT] = probabilities(model, batch, [erased], "zero")
    for row in range(SAMPLES):
        expected_T = p_of(model, batch, erased[0][row], erased[1][row])
        np.testing.assert_allclose(p_RT[row], expected_T, rtol=1e-9)
    nothing = tuple(np.zeros_like(x) for x in erased)
    np.testing.assert_allclose(
        probabilities(model, batch, [nothing], "zero")[0][0], whole_T, rtol=1e-9
    )


def test_draws_follow_from_the_sentence_and_spare_eos(erased_sentence):
    _, batch, _, erased = erased_sentence
    ids = [x[0].numpy() for x in (batch.source_BS, batch.target_BT)]
    for first, again in zip(erased, erased_words(*ids, SAMPLES, 0), strict=True):
        np.testing.assert_array_equal(first, again)
        assert not first[:, -1].any() and 0.4 < first[:, :-1].mean() < 0.6
    assert (erased[0] != erased_words(*ids, SAMPLES, 1)[0]).any()


def test_it_equals_captums_on_the_same_subsets(erased_sentence):
    """By switches of words; the scores are drawn."""
    model, batch, whole_T, erased = erased_sentence
    rng = np.random.default_rng(0)
    s, t = batch.source_BS.shape[1], batch.target_BT.shape[1]
    scores = rng.normal(size=(t, s)), np.tril(rng.normal(size=(t, t)), -1)
    [p_RT] = probabilities(model, batch, [erased], "zero")
    actual = errors(
        SentenceRelevance(0, 0, *scores, whole_T), erased, ErasedLabels(0, whole_T, p_RT)
    )
    masks = torch.tensor(np.concatenate(erased, axis=1), dtype=torch.float64)
    compared = []
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
        # Captum's scale may be negative; here scores that point the wrong way foretell nothing.
        against = bool(actual["against"][step])
        error = actual["lost"][step] if against else float(expected)
        assert actual["error"][step] == pytest.approx(error, rel=1e-6)
        compared.append(against)
    assert not all(compared)


def drawn_case(seed):
    """Scores of three decisions, which words are erased, and losses that are drawn."""
    rng = np.random.default_rng(seed)
    erased = rng.random((30, 4)) < 0.5, rng.random((30, 3)) < 0.5
    source, prefix = rng.normal(size=(3, 4)), np.tril(rng.normal(size=(3, 3)), -1)
    unseen = np.triu(np.full((3, 3), np.nan)) + prefix
    foretold_RN = erased[0] @ source.T + erased[1] @ prefix.T
    return erased, source, unseen, foretold_RN, rng.normal(size=(30, 3)) + 0.3 * foretold_RN


def test_the_error_is_that_of_least_squares_without_negative_scales():
    """By scipy's solver, decision by decision, for scores and for their opposite."""
    p_T, against = np.full(3, 5.0), []
    for seed, sign in product(range(10), (1, -1)):
        erased, source, unseen, foretold_RN, lost_RN = drawn_case(seed)
        sentence_relevance = SentenceRelevance(0, 0, sign * source, sign * unseen, p_T)
        sums = errors(sentence_relevance, erased, ErasedLabels(0, p_T, p_T - lost_RN))
        for n in range(3):
            scale, residual = nnls(sign * foretold_RN[:, [n]], lost_RN[:, n])
            assert sums["error"][n] == pytest.approx(residual**2 / 30, rel=1e-9)
            assert sums["against"][n] == (scale[0] == 0)
        against += sums["against"].tolist()
    assert 5 < sum(against) < len(against) - 5


def test_scores_that_foretell_everything_have_no_error_and_their_opposite_has_all():
    """What is lost is a sum over words; the scores are a tenth of it, or minus the whole of it."""
    erased, source, unseen, foretold_RN, _ = drawn_case(1)
    p_T = np.full(3, 5.0)
    p_RN = p_T - foretold_RN
    right = errors(
        SentenceRelevance(0, 0, source / 10, unseen / 10, p_T),
        erased,
        ErasedLabels(0, p_T, p_RN),
    )
    np.testing.assert_allclose(right["error"], 0, atol=1e-12)
    assert not right["against"].any() and (right["lost"] > 0).all()
    wrong = errors(
        SentenceRelevance(0, 0, -source, -unseen, p_T), erased, ErasedLabels(0, p_T, p_RN)
    )
    np.testing.assert_array_equal(wrong["error"], wrong["lost"])
    assert wrong["against"].all()
    # Scores of 0 foretell nothing: the error is all that is lost.
    nothing = SentenceRelevance(0, 0, 0 * source, 0 * np.nan_to_num(unseen), p_T)
    sums = errors(nothing, erased, ErasedLabels(0, p_T, p_RN))
    np.testing.assert_array_equal(sums["error"], sums["lost"])
    assert not sums["against"].any()
    with pytest.raises(NotApplicable, match="gives no score to some words"):
        errors(
            SentenceRelevance(0, 0, np.nan * source, unseen, p_T),
            erased,
            ErasedLabels(0, p_T, p_RN),
        )


def test_equal_scores_are_counts_of_erased_words():
    """Of the source, and of earlier target words; a loss of one for each is foretold."""
    rng = np.random.default_rng(2)
    erased = rng.random((20, 3)) < 0.5, rng.random((20, 4)) < 0.5
    p_T = np.zeros(2)
    counts = [erased[0].sum(1) + erased[1][:, :step].sum(1) for step in (2, 3)]
    p_RN = -np.stack(counts, axis=1)
    equal = equal_relevance(7, ErasedLabels(2, p_T, p_RN), 3, 4)
    assert (equal.number, equal.first) == (7, 2)
    np.testing.assert_allclose(
        errors(equal, erased, ErasedLabels(0, p_T, p_RN))["error"], 0, atol=1e-12
    )


class Opposite(PredictionDifference):
    """Minus a method, as a package of its own may have it."""

    def relevance(self, model, batch):
        """Return its scores, turned round."""
        relevance = super().relevance(model, batch)
        return Relevance(-relevance.source_BTS, -relevance.prefix_BTT)


def test_the_opposite_of_a_method_is_behind_equal_scores_which_are_a_blind_row(
    workplace, transformer
):
    """The blind row is that of the explainer `uniform`, and the same beside every explainer."""
    rows = {}
    for name in ("prediction_difference", "opposite", "uniform"):
        changes = [*overrides("transformer", workplace), "rules.test_sentences=5"]
        changes += (
            ["explainer=prediction_difference", "explainer.name=opposite",
             f"explainer.phi._target_={__name__}.Opposite"]
            if name == "opposite" else [f"explainer={name}"]
        )  # fmt: skip
        metric = Infidelity(removals=["zero"], samples=20)
        for row in metric.measure(Job(configure(*changes))):
            evidence, identity = row.make(), row.identify()
            sums = {n: evidence.units[n].sum(keepdims=True) for n in evidence.units.columns}
            results = {n: float(v[0]) for n, v in metric.of_sums(sums).items()}
            rows.setdefault(
                (identity.columns["explainer"], identity.facts.get("blind")), []
            ).append(results)
    [method], [opposite] = rows["prediction_difference", False], rows["opposite", False]
    [uniform], equal = rows["uniform", True], rows[EQUAL, True]
    assert equal == [equal[0]] * 3
    assert equal[0] == pytest.approx(uniform)
    # A decision's scores point the wrong way under one of both.
    assert opposite["against"] == pytest.approx(1 - method["against"])
    assert opposite["unexplained"] > equal[0]["unexplained"] > method["unexplained"]


def test_results_are_of_the_sums():
    sums = {"error": np.array([3.0]), "lost": np.array([12.0]), "against": np.array([1.0]),
            "rows": np.array([10.0])}  # fmt: skip
    results = Infidelity().of_sums(sums)
    assert results["unexplained"] == 0.25
    assert results["infidelity"] == pytest.approx(0.3)
    assert results["against"] == pytest.approx(0.1)


@pytest.mark.long
def test_shapley_foretells_more_than_random_words(workplace, transformer):
    """Under the removal that Shapley values are of; equal scores are as good as random ones."""
    unexplained = {}
    for name in ("shapley", "random"):
        changes = [*overrides("transformer", workplace), "rules.test_sentences=20"]
        metric = Infidelity(removals=["zero"], sentences=20)
        for row in metric.measure(Job(configure(*changes, f"explainer={name}"))):
            units = row.make().units
            sums = {n: units[n].sum(keepdims=True) for n in units.columns}
            unexplained[row.keys["explainer"]] = float(metric.of_sums(sums)["unexplained"][0])
    equal = unexplained[EQUAL]
    assert unexplained["shapley"] < 0.7 * equal < equal < unexplained["random"] < 1


@pytest.mark.long
def test_from_the_command_line(workplace, tmp_path):
    shared = [*overrides("transformer", workplace), f"results={tmp_path}", "metric=[infidelity]",
              "metric.infidelity.sentences=12",
              "metric.infidelity.removals=[zero,attention]"]  # fmt: skip
    must_run("train.py", "-m", *shared, "explainer=attention,random", cwd=tmp_path)
    shown = must_run("evaluate.py", *shared, cwd=tmp_path)
    text = " ".join(shown.stdout.split())
    assert "attention: its scores of source and of prefix words are not on one scale" in text
    assert "random (blind)" in text and "equal scores (blind)" in text
