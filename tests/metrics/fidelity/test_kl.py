"""KL divergence over the top words and the rest."""

import numpy as np
import pytest
import torch
from conftest import configure, overrides

from xnmt_bench.explainers.base import decide
from xnmt_bench.metrics.fidelity.kl import kl_divergence
from xnmt_bench.metrics.fidelity.predictors import KL_FILE, Predictors
from xnmt_bench.nmt.base import Batch
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.extract import top_words
from xnmt_bench.rules.table import read_columns


def logs(shape, seed):
    logits = 2 * np.random.default_rng(seed).standard_normal(shape)
    return logits - np.log(np.exp(logits).sum(1, keepdims=True))


def test_over_all_words_it_is_the_divergence():
    p, q = logs((50, 8), 0), logs((50, 8), 1)
    expected = (np.exp(p) * (p - q)).sum(1)
    np.testing.assert_allclose(kl_divergence(p, q), expected, rtol=1e-6)


def test_taken_together_words_never_make_it_greater_and_never_less_than_zero():
    p, q = logs((500, 30), 2), logs((500, 30), 3)
    whole = (np.exp(p) * (p - q)).sum(1)
    last = np.zeros(500)
    for words in (1, 5, 20, 30):
        top = np.argsort(-p, axis=1)[:, :words]
        found = kl_divergence(np.take_along_axis(p, top, 1), np.take_along_axis(q, top, 1))
        assert (found >= last - 1e-9).all()
        assert (found <= whole + 1e-6).all()
        last = found
    by_hand = 0.7 * np.log(0.7 / 0.2) + 0.3 * np.log(0.3 / 0.8)
    assert kl_divergence(np.log([[0.7]]), np.log([[0.2]]))[0] == pytest.approx(by_hand)


def test_the_same_distribution_has_none():
    p = logs((20, 9), 4)
    np.testing.assert_allclose(kl_divergence(p[:, :3], p[:, :3]), 0, atol=1e-12)
    sure = np.log([[1.0 - 1e-9]])  # rounding leaves less than nothing for the rest
    assert np.isfinite(kl_divergence(sure, np.log([[0.5]]))).all()


def test_top_words_are_the_models(transformer):
    split, model = transformer.texts.split("test"), transformer.system.model
    found = top_words(model, split, 12, 4, batch_tokens=60)
    row = 0
    for i in range(12):
        batch, log_p = decide(model, Batch.collate([(split.source[i], split.target[i])]))
        logits = model(batch)[0].log_softmax(-1)
        for step in range(len(split.target[i])):
            assert (found["sentence"][row], found["step"][row]) == (split.number[i], step)
            assert found["top_ids"][row, 0] == batch.labels_BT[0, step]
            assert found["top_scores"][row, 0] == pytest.approx(float(log_p[0, step]), abs=1e-5)
            expected = logits[step, torch.as_tensor(found["top_ids"][row]).long()]
            np.testing.assert_allclose(found["top_scores"][row], expected, atol=1e-5)
            assert (np.diff(found["top_scores"][row]) <= 0).all()
            row += 1
    assert row == len(found["step"])


def test_proxies_and_base_diverge_from_the_model(transformer, workplace):
    def predictors(explainer):
        changes = [*overrides("transformer"), f"store={workplace}/store", f"explainer={explainer}"]
        return Predictors(Job(configure(*changes, "proxy=fn")))

    def mean(artefact):
        return read_columns(artefact.path / KL_FILE)["kl"].mean()

    good, floor = predictors("gradient_norm"), predictors("random")
    for instantiation in ("base", "fn"):
        made = [p.kl(instantiation, 10) for p in (good, floor)]
        assert 0 < mean(made[0]) < mean(made[1])
        # What the model says of a decision does not depend on the explainer.
        assert made[0].recipe["distribution"] == made[1].recipe["distribution"]

    columns = read_columns(good.kl("fn", 10).path / KL_FILE)
    assert (columns["kl"] >= 0).all()
    assert len(columns["kl"]) == len(good.proxy.test_rules)
