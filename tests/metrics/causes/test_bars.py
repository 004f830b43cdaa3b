"""The bars that were set before the trial, on one pair of twins; two trainings take minutes."""

import time

import pytest
from conftest import configure

from xnmt_bench.measuring.bootstrap import Draws, score
from xnmt_bench.measuring.measurement import write
from xnmt_bench.metrics.causes import Causes
from xnmt_bench.metrics.causes.effects import Interventions
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.pipeline.job import Job

SENTENCES = 100
EXPLAINERS = ("prediction_difference", "lexicon")


def opened(workplace, twin, explainer):
    """A job of the trial on the system that learnt where `twin` is hidden."""
    return Job(configure(
        "experiment=trial", "corpus.hides=nothing", f"nmt.corpus={{hides:{twin}}}", "judge=[base]",
        f"explainer={explainer}", f"rules.test_sentences={SENTENCES}", "nmt.seed=0", "seed=0",
        "trainer.progress_bar=false", "device=cpu", "threads=1", f"store={workplace}/bars",
    ))  # fmt: skip


def numbers(metric, row, folder):
    """The numbers of a planned row."""
    return score(metric, write(metric.name, row.identify(), row.make(), folder), Draws(9, 0)).values


@pytest.fixture(scope="module")
def twins(workplace):
    """Of each twin and explainer, the numbers of its causes."""
    return {
        (twin, name): numbers(
            Causes(), next(iter(Causes().measure(opened(workplace, twin, name)))), workplace / twin
        )
        for twin in ("cue", "link")
        for name in EXPLAINERS
    }


@pytest.mark.slow
@pytest.mark.parametrize("twin", ["cue", "link"])
def test_both_systems_have_learnt_the_planted_words(workplace, twins, twin):
    row = next(iter(Fidelity().measure(opened(workplace, twin, "lexicon"))))
    right = numbers(Fidelity(), row, workplace / f"{twin}_fidelity")["planted"]
    assert right >= 0.98 * 2 * SENTENCES


@pytest.mark.slow
def test_the_word_that_a_system_uses_is_the_strongest_and_the_other_one_does_nothing(twins):
    for twin, used, unused in (("cue", "link", "cue"), ("link", "cue", "link")):
        row = twins[twin, "lexicon"]
        assert row[f"{used}_greatest"] >= 0.95
        assert row[unused] <= 0.02
        assert row[used] > 0.8


@pytest.mark.slow
def test_the_lexicon_names_the_link_whatever_the_system_uses_and_deletion_finds_the_cause(twins):
    assert twins["cue", "lexicon"]["causal_planted"] >= 0.95
    assert twins["link", "lexicon"]["causal_planted"] <= 0.15
    for twin in ("cue", "link"):
        assert twins[twin, "prediction_difference"]["causal_planted"] >= 0.9


@pytest.mark.slow
def test_400_sentences_take_a_minute(workplace, twins):
    """Of processor time, from the time of 100; what else runs has little part in it."""
    job = opened(workplace, "cue", "lexicon")
    interventions = Interventions(job.system.model, job.corpus.substitutes(), 4)
    sentences = list(enumerate(job.texts.sentences("test", SENTENCES)))
    began = time.process_time()
    for number, sentence in sentences:
        interventions.effects(number, sentence)
    assert 400 / SENTENCES * (time.process_time() - began) <= 60
