"""KL divergence over the whole vocabulary, of proxies that learn the model's distribution."""

import numpy as np
import pytest
import torch

from proxies.data import narrowest, open_decisions
from proxies.lessons import ProxyTrainingOptions
from support.systems import make_scarce, small_job
from xnmt_bench.device import Room
from xnmt_bench.explainers.base import decide
from xnmt_bench.judges import RuleSet
from xnmt_bench.judges.base_untuned import Base
from xnmt_bench.judges.kl import Distilled, divergences
from xnmt_bench.judges.masked import base_distributions
from xnmt_bench.judges.own import Own
from xnmt_bench.judges.trained_proxy import LESSONS, decisions_of
from xnmt_bench.metrics.fidelity.decision_facts import TestDecisions
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.rules.states import write_states
from xnmt_bench.rules.table import all_rules, shards
from xnmt_bench.store import Store


def job_for(workplace, explainer, *changes):
    few = ["proxy=fn", "proxy.training.batch_size=256", "proxy.training.learning_rate=0.003"]
    return small_job(workplace, "transformer", f"explainer={explainer}", *few, *changes)


def own_distributions(job, split, indices):
    """The model's probabilities of every word at every step of some sentences, one by one."""
    for i in indices:
        batch, _ = decide(job.system.model, Batch.collate([(split.source[i], split.target[i])]))
        yield job.system.model(batch)[0].softmax(-1).detach().double().numpy()


def test_states_give_the_models_distributions(system, tmp_path, monkeypatch):
    split, model = system.texts.split("test"), system.system.model
    room = Room(60, cpu=1024, each=1)  # a part of the sentences in one pass
    monkeypatch.setattr("xnmt_bench.rules.states.states_room", lambda: room)
    states_ND = write_states(model, split, 12, tmp_path / "states")
    p_NV = torch.softmax(model.logits(torch.from_numpy(np.array(states_ND))), -1).numpy()
    expected = np.concatenate(list(own_distributions(system, split, range(12))))
    np.testing.assert_allclose(p_NV, expected, rtol=1e-4, atol=1e-7)


def test_kl_of_base_and_of_a_proxy_against_a_slow_sum(transformer, workplace):
    job = job_for(workplace, "gradient_norm", "rules.test_sentences=8", "train_sentences=60")
    proxy = Distilled(RuleSet(job))
    kl_N = TestDecisions(proxy.rules).kl(proxy)
    split, rules = job.texts.split("test"), RuleSet(job).test
    p_NV = np.concatenate(list(own_distributions(job, split, range(8))))
    words = torch.from_numpy(decisions_of(rules)[:, 1:3].astype(np.int64))
    q_NV = proxy.open()(words, torch.zeros_like(words)).softmax(-1).detach().double().numpy()
    expected = (p_NV * (np.log(p_NV) - np.log(q_NV))).sum(1)
    np.testing.assert_allclose(kl_N, expected, rtol=1e-3, atol=1e-5)


def test_a_judges_new_version_has_a_kl_of_its_own(transformer, workplace, unmade, monkeypatch):
    stages_asked = []

    class Asked(Exception):
        pass

    def make(self, stage):
        if stage.name == "kl":
            stages_asked.append(stage.fingerprint)
            raise Asked
        return make_artefact(self, stage)

    make_artefact = Store.make
    monkeypatch.setattr(Store, "make", make)
    base = Base(RuleSet(job_for(workplace, "gradient_norm", "rules.test_sentences=8")))
    for version in (base.version, 99):
        monkeypatch.setattr(Base, "version", version)
        with pytest.raises(Asked):
            TestDecisions(base.rules).kl(base)
    assert stages_asked[0] != stages_asked[1]


def test_the_kl_of_base_goes_on_with_less(transformer, workplace, tmp_path, monkeypatch):
    job = job_for(workplace, "gradient_norm", "rules.test_sentences=9")
    model, rules, split = job.system.model, RuleSet(job).test, job.texts.split("test")
    states_ND = write_states(model, split, 9, tmp_path / "states")
    expected = divergences(model, states_ND, base_distributions(model, split, rules, 60))
    refused = make_scarce(monkeypatch, model, "decode", 1)
    base = Base(RuleSet(job))
    kl_N = TestDecisions(base.rules).kl(base)
    assert refused
    np.testing.assert_allclose(kl_N, expected, rtol=1e-3, atol=1e-6)


def test_lessons_hold_the_models_distribution_beside_the_rule(transformer, workplace, tmp_path):
    proxy = Distilled(RuleSet(job_for(workplace, "gradient_norm", "train_sentences=30")))
    lessons = proxy.lessons(tmp_path, ProxyTrainingOptions(batch_size=50))
    decisions = open_decisions(tmp_path / LESSONS, 1, narrowest(1))
    split = proxy.rules.explained.decisions.split("train", "teacher_forcing")
    p_NV = np.concatenate(list(own_distributions(transformer, split, range(30))))
    [*batches] = lessons.valid()
    held_out = sum(len(words) for _, words, _ in batches)
    held_out_p = torch.cat([p for p, _, _ in batches]).numpy()
    np.testing.assert_allclose(held_out_p, p_NV[-held_out:], rtol=1e-4, atol=1e-6)
    words = torch.cat([words for _, words, _ in batches]).numpy()
    assert (words == decisions[-held_out:, 1:3]).all()
    first, again, other = (
        torch.cat([w for _, w, _ in lessons.train(e)]).tolist() for e in (0, 0, 1)
    )
    assert first == again != other
    assert sorted(first) == sorted(other)


@pytest.mark.parametrize("kind", [Own, Distilled])
def test_the_last_sentences_are_held_out_whole(transformer, workplace, tmp_path, kind):
    few = ["train_sentences=30", "rules.train_sentences=30", "rules.shard_sentences=7"]
    proxy = kind(RuleSet(job_for(workplace, "gradient_norm", *few)))
    rules = all_rules(proxy.rules.training_artefact.path, "train", 1)
    assert len(shards(proxy.rules.training_artefact.path, "train")) == 5
    last = np.isin(rules.sentence_N, list(dict.fromkeys(rules.sentence_N.tolist()))[-3:])
    lessons = proxy.lessons(tmp_path, ProxyTrainingOptions(validation_share=0.1))
    words_of = [
        np.concatenate([words.numpy() for _, words, _ in batches])
        for batches in (lessons.valid(), lessons.train(0))
    ]
    assert (words_of[0] == decisions_of(rules.take(last))[:, 1:3]).all()
    assert len(words_of[1]) == (~last).sum()


def test_words_that_both_hold_impossible_add_nothing(transformer):
    class Fixed(torch.nn.Module):
        """A model whose logits are its states."""

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def logits(self, states):
            return states

    states = np.array([[0.0, 0.0, -np.inf]], dtype=np.float32)
    log_q = torch.tensor([[0.25, 0.75, 0.0]]).log()
    kl_N = divergences(Fixed(), states, [(slice(0, 1), log_q)])
    np.testing.assert_allclose(kl_N, 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75), rtol=1e-6)
    # What a judge cannot say stays so, and is not the best number that there is.
    for log_q, expected in (([np.nan, 0.0, 0.0], np.nan), ([-np.inf, 0.0, 0.0], np.inf)):
        kl_N = divergences(Fixed(), states, [(slice(0, 1), torch.tensor([log_q]))])
        np.testing.assert_equal(kl_N, [expected])
