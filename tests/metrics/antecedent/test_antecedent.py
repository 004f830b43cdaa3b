"""Weights on antecedents: where they are looked for, and how they predict right decisions."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from support.configurations import DISCOURSE, configure
from xnmt_bench.errors import XnmtError
from xnmt_bench.measuring.bootstrap import Draws, score
from xnmt_bench.measuring.measurement import read, write
from xnmt_bench.measuring.units import Units, by_unit, side_by_side
from xnmt_bench.metrics.antecedent import AntecedentWeight
from xnmt_bench.metrics.antecedent.logistic import slope
from xnmt_bench.metrics.antecedent.metric import RIGHT, WEIGHT
from xnmt_bench.metrics.antecedent.weights import AntecedentWeights, find_phrase
from xnmt_bench.pipeline.job import Job


def most_likely(*data):
    """The slope that torch's L-BFGS finds."""
    x, right, weight = (torch.tensor(column, dtype=torch.float64) for column in data)
    parameters = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS([parameters], max_iter=500, tolerance_grad=1e-12, tolerance_change=0,
                               line_search_fn="strong_wolfe")  # fmt: skip

    def loss():
        search.zero_grad()
        z = parameters[0] + parameters[1] * x
        value = (weight * (torch.nn.functional.softplus(z) - right * z)).sum()
        value.backward()
        return value

    search.step(loss)
    return float(parameters[1].detach())


def test_the_slope_is_that_of_greatest_likelihood():
    dice = np.random.default_rng(0)
    x = dice.random(200)
    right = dice.binomial(1, 1 / (1 + np.exp(1 - 2.5 * x)))
    weights = np.vstack([np.ones(200), dice.multinomial(200, np.full(200, 1 / 200), 3)])
    slopes = slope(x, right, weights)
    for weight, value in zip(weights, slopes, strict=True):
        assert value == pytest.approx(most_likely(x, right, weight), rel=1e-6)


def test_what_has_no_slope_is_no_number():
    weight, x = np.ones((1, 6)), np.array([0, 0, 0, 1, 1, 1.0])
    # All wrong on one side, some right on the other: the slope goes to its limit.
    sides, mixed = np.array([0] * 9 + [1] * 2), np.array([1, 1] + [0] * 9)
    for x_D, right_D in ((sides, mixed), (1 - sides, mixed), (sides, 1 - mixed)):
        assert np.isnan(slope(x_D, right_D, np.ones((1, 11))))
    # Beside a sample that converges, whose value it does not change.
    some, right = np.array([0, 0, 0, 0, 1, 1, 1, 1]), np.array([1, 0, 0, 0, 1, 1, 0, 0])
    weights = np.array([[1, 1, 1, 1, 0, 0, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1]])
    separated, value = slope(some, right, weights)
    assert np.isnan(separated)
    assert value == pytest.approx(slope(some, right, weights[1:])[0]) == pytest.approx(np.log(3))
    assert np.isnan(slope(x, np.array([0, 0, 0, 1, 1, 1]), weight))  # separated
    assert np.isnan(slope(np.ones(6), np.array([0, 1, 0, 1, 0, 1]), weight))
    assert np.isnan(slope(x, np.ones(6), weight))


def test_numbers_from_units():
    """Seven decisions of five sources: three look and two of them are right, four do not."""
    unit = np.array([0, 0, 1, 1, 2, 3, 4])
    right, weight = np.array([1, 1, 0, 1, 0, 0, 0.0]), np.array([1, 0.5, 1, 0, 0, 0, 0])
    unit_U, sums = by_unit(unit, right=right, looked=weight > 0, looked_right=(weight > 0) * right)
    sums |= side_by_side(unit, unit_U, {WEIGHT: weight, RIGHT: right})
    units = Units("t", unit_U, sums)
    score_of = AntecedentWeight().score(units, np.array([[1] * 5, [2, 1, 0, 1, 1]]))
    first = {name: value[0] for name, value in score_of.items()}
    assert first.pop("slope") == pytest.approx(most_likely(weight, right, np.ones(7)), rel=1e-6)
    assert first == pytest.approx(
        {"difference": 100 * (2 / 3 - 1 / 4), "looking": 2 / 3, "not_looking": 1 / 4,
         "looked": 3 / 7, "groups": 7}
    )  # fmt: skip
    # A source that is drawn twice brings all of its decisions twice.
    drawn = most_likely(weight, right, [2, 2, 1, 1, 0, 1, 1])
    assert score_of["slope"][1] == pytest.approx(drawn, rel=1e-6)


@pytest.fixture(scope="module")
def discourse_job(workplace):
    changes = ["nmt=concat", f"store={workplace}/store", "explainer=prediction_difference"]
    return Job(configure(*DISCOURSE, *changes))


def test_the_decision_and_the_antecedent_are_found(discourse_job):
    pronouns = discourse_job.corpus.contrastive("test")[2]
    weights = AntecedentWeights(discourse_job, pronouns)
    assert len(weights.placed) == len(pronouns.groups) == 45
    split, target = weights.texts.split("test"), weights.texts.subwords[1]
    for placed in weights.placed[::7]:
        group = pronouns.groups[placed.group]
        ids = split.target[placed.sentence].tolist()
        # What stands before the decision is the same in all variants, and what stands there not.
        shared, decided = target.decode(ids[: placed.step]), target.decode(ids[: placed.step + 1])
        other_texts = [v.text for n, v in enumerate(group.variants) if n != group.true]
        now = shared.split()[-len(group.variants[group.true].text.split()) :]
        assert not any(" ".join(decided.split()).endswith(text) for text in other_texts), now
        sentences = [*group.source_context, group.source]
        words = sentences[placed.segment].split()
        assert tuple(words[w] for w in placed.words) == group.antecedent.words
        assert placed.segment == 3 - group.distance


def test_a_system_that_reads_only_the_source_needs_no_target_context(workplace):
    changes = ["nmt=concat", "nmt.context.target=false", "corpus.train=300", "explainer=attention",
               "nmt.training.max_epochs=1", f"store={workplace}/store"]  # fmt: skip
    job = Job(configure(*DISCOURSE, *changes))
    pronouns = job.corpus.contrastive("test")[2]
    bare = [
        replace(group, variants=[replace(variant, context=()) for variant in group.variants])
        for group in pronouns.groups
    ]
    weights = AntecedentWeights(job, replace(pronouns, groups=bare))
    assert len(weights.placed) == 45
    for placed in weights.placed:
        assert placed.segment == 3 - bare[placed.group].distance
    values = [weight for _, weight in weights.weights()]
    assert len(values) == 45 and 0 <= min(values) < max(values) <= 1


def test_it_is_measured_of_each_part(discourse_job, tmp_path):
    metric = AntecedentWeight()
    rows = {}
    for planned in metric.measure(discourse_job):
        scored = score(
            metric, write(metric.name, planned.identify(), planned.make(), tmp_path), Draws(20, 0)
        )
        rows[planned.keys["part"]] = scored.values
        assert planned.keys["explainer"] == "prediction_difference"
    assert rows["all"]["groups"] == 45
    assert {part: row["groups"] for part, row in rows.items()} == {
        "all": 45, "distance 1": 15, "distance 2": 15, "distance 3": 15, "er": 15, "es": 15,
        "sie": 15,
    }  # fmt: skip
    assert 0 <= rows["all"]["looked"] <= 1


def test_rows_of_other_groups_stand_apart(discourse_job, tmp_path):
    """Of `rules.test_sentences` sentences, contexts among them."""
    metric, shown = AntecedentWeight(), []
    for sentences in (None, 60):
        job = discourse_job.changed({"rules": {"test_sentences": sentences}})
        planned = next(iter(metric.measure(job)))
        shown.append(write(metric.name, planned.identify(), planned.make(), tmp_path))
    every, first = (m.settings["explained"] for m in shown)
    assert every.startswith("45 (") and int(first.split()[0]) < 45
    assert len(read(metric.name, tmp_path, metric.identity)) == 2


def test_doubts_are_of_the_set_that_is_measured(discourse_job, monkeypatch):
    pairs_asked = []
    monkeypatch.setattr(
        Job, "doubts_of", lambda self, pairs: pairs_asked.append(pairs) or ["doubtful"]
    )
    planned = next(iter(AntecedentWeight().measure(discourse_job)))
    assert planned.identify().facts["doubts"] == ["doubtful"]
    [pairs] = pairs_asked
    assert len(pairs) == 45 and all(len(pair) == 2 for pair in pairs)


@pytest.mark.parametrize("phrase", [("your", "hand"), ("hand,",)])
def test_an_antecedent_is_found_in_text_that_is_not_tokenised(phrase):
    assert find_phrase(phrase, ["My", "hand!", "Give", "me", "Your", "hand,", "ah."])[-1] == 5
    assert find_phrase(("hands",), ["hand,"]) == ()


def test_antecedents_that_are_not_found_are_counted(discourse_job):
    groups = discourse_job.corpus.contrastive("test")[2]
    lost = replace(groups.groups[0].antecedent, words=("nowhere",))
    groups = replace(
        groups, groups=[replace(groups.groups[0], antecedent=lost), *groups.groups[1:]]
    )
    weights = AntecedentWeights(discourse_job, groups)
    assert weights.not_found == 1 and len(weights.placed) == len(groups.groups) - 1


def test_an_antecedent_beyond_the_window_is_left_out(discourse_job):
    near = discourse_job.changed({"nmt": {"context": {"read": 1}}})
    weights = AntecedentWeights(near, near.corpus.contrastive("test")[2])
    assert len(weights.placed) == 15


def test_a_sentence_that_is_too_long_takes_its_groups_with_it(discourse_job):
    """It is in no context, so others would stand where it did."""
    pronouns = discourse_job.corpus.contrastive("test")[2]
    group = next(g for g in pronouns.groups if g.distance == 3)
    long = replace(group, source_context=(group.source_context[0], "the man " * 60, "he ."))
    weights = AntecedentWeights(discourse_job, replace(pronouns, groups=[group, long]))
    assert [placed.group for placed in weights.placed] == [0]


def test_a_set_without_antecedents_is_named(discourse_job, tmp_path):
    (tmp_path / "set.jsonl").write_text(
        '{"lang_pair": "en-de"}\n{"source": "a", "variants": ["b", "c"]}\n'
    )
    with pytest.raises(XnmtError, match="the set has no annotated antecedents"):
        list(AntecedentWeight(set=f"{tmp_path}/set.jsonl").measure(discourse_job))
