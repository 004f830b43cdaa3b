"""Weights on antecedents: where they are looked for, and what they tell of right decisions."""

import numpy as np
import pytest
import torch
from conftest import DISCOURSE, configure

from xnmt_bench.metrics.antecedent import AntecedentWeight
from xnmt_bench.metrics.antecedent.logistic import slope
from xnmt_bench.metrics.antecedent.weights import AntecedentWeights
from xnmt_bench.metrics.bootstrap import Draws, score
from xnmt_bench.metrics.measurement import write
from xnmt_bench.metrics.units import Units
from xnmt_bench.pipeline.job import Job


def most_likely(*data):
    """The slope that torch's L-BFGS finds."""
    x, right, count, weight = (torch.tensor(column, dtype=torch.float64) for column in data)
    found = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS([found], max_iter=500, tolerance_grad=1e-12, tolerance_change=0,
                               line_search_fn="strong_wolfe")  # fmt: skip

    def loss():
        search.zero_grad()
        z = found[0] + found[1] * x
        value = (weight * (count * torch.nn.functional.softplus(z) - right * z)).sum()
        value.backward()
        return value

    search.step(loss)
    return float(found[1].detach())


def test_the_slope_is_that_of_greatest_likelihood():
    dice = np.random.default_rng(0)
    x, count = dice.random(200), dice.integers(1, 4, 200)
    right = dice.binomial(count, 1 / (1 + np.exp(1 - 2.5 * x)))
    weights = np.vstack([np.ones(200), dice.multinomial(200, np.full(200, 1 / 200), 3)])
    found = slope(x, right, count, weights)
    for weight, value in zip(weights, found, strict=True):
        assert value == pytest.approx(most_likely(x, right, count, weight), rel=1e-6)


def test_what_has_no_slope_is_no_number():
    one, x = np.ones((1, 6)), np.array([0, 0, 0, 1, 1, 1.0])
    assert np.isnan(slope(x, np.array([0, 0, 0, 1, 1, 1]), np.ones(6), one))  # separated
    assert np.isnan(slope(np.ones(6), np.array([0, 1, 0, 1, 0, 1]), np.ones(6), one))
    assert np.isnan(slope(x, np.ones(6), np.ones(6), one))


def test_numbers_from_units():
    """Six sources: three look and two of them are right, three do not and one is."""
    right, weight = np.array([1, 1, 0, 1, 0, 0]), np.array([1, 0.5, 1, 0, 0, 0])
    looked = weight > 0
    units = Units("t", np.arange(6), {
        "right": right, "weight": weight, "looked": looked, "looked_right": looked * right,
        "rows": np.ones(6),
    })  # fmt: skip
    found = AntecedentWeight().score(units, np.ones((1, 6)))
    assert {name: value[0] for name, value in found.items() if name != "slope"} == pytest.approx(
        {
            "difference": 100 / 3,
            "looking": 2 / 3,
            "not_looking": 1 / 3,
            "looked": 1 / 2,
            "groups": 6,
        }
    )


@pytest.fixture(scope="module")
def concat(workplace):
    changes = ["nmt=concat", f"store={workplace}/store", "explainer=prediction_difference"]
    return Job(configure(*DISCOURSE, *changes))


def test_the_decision_and_the_antecedent_are_found(concat):
    pronouns = concat.corpus.contrastive("test")[2]
    weights = AntecedentWeights(concat, pronouns)
    assert len(weights.placed) == len(pronouns.groups) == 45
    split, target = weights.texts.split("test"), weights.texts.subwords[1]
    for placed in weights.placed[::7]:
        group = pronouns.groups[placed.group]
        ids = split.target[placed.sentence].tolist()
        # What stands before the decision is the same in all variants, and what stands there not.
        shared, decided = target.decode(ids[: placed.step]), target.decode(ids[: placed.step + 1])
        others = [v.text for n, v in enumerate(group.variants) if n != group.true]
        now = shared.split()[-len(group.variants[group.true].text.split()) :]
        assert not any(" ".join(decided.split()).endswith(text) for text in others), now
        sentences = [*group.source_context, group.source]
        words = sentences[placed.segment].split()
        assert tuple(words[w] for w in placed.words) == group.antecedent.words
        assert placed.segment == 3 - group.distance


def test_it_is_measured_of_each_part(concat, tmp_path):
    metric = AntecedentWeight()
    rows = {}
    for planned in metric.measure(concat):
        one = score(metric, write(metric.name, planned, planned.make(), tmp_path), Draws(20, 0))
        rows[planned.identity["part"]] = one.values
        assert planned.identity["explainer"] == "prediction_difference"
    assert rows["all"]["groups"] == 45
    assert {part: row["groups"] for part, row in rows.items()} == {
        "all": 45, "distance 1": 15, "distance 2": 15, "distance 3": 15, "er": 15, "es": 15,
        "sie": 15,
    }  # fmt: skip
    assert 0 <= rows["all"]["looked"] <= 1


def test_an_antecedent_beyond_the_window_is_left_out(concat):
    near = concat.changed({"nmt": {"context": {"read": 1}}})
    weights = AntecedentWeights(near, near.corpus.contrastive("test")[2])
    assert len(weights.placed) == 15
