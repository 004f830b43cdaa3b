"""What judges that switch words off predict with no word on, and with all."""

import numpy as np
import pytest
import torch

from support.configurations import configure, overrides
from support.example_rows import FIDELITY, scored
from support.systems import batch_of, double, small_job
from xnmt_bench.corpora.vocabulary.subwords import SPECIAL
from xnmt_bench.judges import RuleSet, extremes
from xnmt_bench.judges.base_tuned import BaseTuned
from xnmt_bench.judges.base_untuned import Base
from xnmt_bench.judges.evalx import EvalX
from xnmt_bench.judges.extremes import stored_extremes, with_all_words, without_words
from xnmt_bench.judges.nmt import NMT
from xnmt_bench.judges.own import Own
from xnmt_bench.judges.unigram import left_out_perplexity
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.fidelity.decision_facts import TestDecisions
from xnmt_bench.metrics.fidelity.evidence import evidence_of
from xnmt_bench.pipeline.job import Job

FEW = "rules.test_sentences=20"


def test_all_words_give_the_model_itself_and_no_word_gives_zeros(system, monkeypatch):
    """Against the system's whole context, and against embeddings that are zeroed by hand."""
    monkeypatch.setattr(extremes, "TOGETHER", 50)  # several parts, the last one shorter
    changes = [*overrides(system.settings.nmt.name), f"store={system.settings.store}", FEW]
    rules = RuleSet(Job(configure(*changes, "explainer=random")))
    facts = stored_extremes(Base(rules)).facts
    nmt = np.exp(-NMT(rules).log_likelihood(rules.test)[0].mean())
    assert facts["all_words"] == pytest.approx(nmt, rel=1e-4)
    model, split = double(system.system.model), rules.test_split
    log_p = []
    for row in range(len(rules.test)):
        batch = batch_of(split, [split.index_of[int(rules.test.sentence_N[row])]])
        source, inputs = (
            embed(ids) * torch.isin(ids, torch.tensor(SPECIAL))[..., None]
            for embed, ids in (
                (model.embed_source, batch.source_BS), (model.embed_target, batch.input_BT),
            )
        )  # fmt: skip
        with torch.no_grad():
            states = model.decode(model.encode(source, batch.layout), inputs)
            label = int(rules.test.label_N[row])
            log_p.append(
                model.logits(states[0, int(rules.test.step_N[row])]).log_softmax(-1)[label].item()
            )
    assert facts["no_word"] == pytest.approx(np.exp(-np.mean(log_p)), rel=1e-4)
    assert facts["no_word"] > facts["all_words"]


def test_rules_hold_every_word_that_a_decision_sees_or_none(transformer, workplace):
    rules = RuleSet(small_job(workplace, "transformer", "explainer=random", FEW))
    split, test = rules.test_split, rules.test
    every, none = with_all_words(test, split), without_words(test)
    for row in range(0, len(test), 11):
        source_S, _ = split.ids(int(test.sentence_N[row]))
        for places_K, count in (
            (every.source_position_NK[row], len(source_S)),
            (every.prefix_position_NK[row], test.step_N[row]),
            (none.source_position_NK[row], 0),
            (none.prefix_position_NK[row], 0),
        ):
            assert places_K[places_K >= 0].tolist() == list(range(count))


def test_they_are_stored_once_for_a_judge_and_its_test_decisions(transformer, workplace):
    """Explainer, k and prefix words change nothing; the removal, and what was learnt, do."""
    jobs = [("random",), ("attention", "k=2"), ("nearest", "prefix=none")]
    rules = [
        RuleSet(small_job(workplace, "transformer", f"explainer={name}", FEW, *options,
                          "proxy.training.max_epochs=1", "rules.train_sentences=60"))
        for name, *options in jobs
    ]  # fmt: skip
    prints = [{stored_extremes(Base(r, way)).fingerprint for r in rules} for way in ("zero", "unk")]
    assert [len(of_removal) for of_removal in prints] == [1, 1] and prints[0] != prints[1]
    tuned = stored_extremes(BaseTuned(rules[0]))
    assert tuned.fingerprint not in prints[0] and tuned.facts["no_word"] > 1
    decisions = TestDecisions(rules[0])
    facts = {kind.name: evidence_of(kind(rules[0]), decisions, 5, False).facts for kind in
             (Base, EvalX, Own)}  # fmt: skip
    assert facts["base"]["extremes"].keys() == {"no_word", "all_words"}
    assert "extremes" not in facts["evalx"] and "extremes" not in facts["own"]
    assert len({of_judge["label_frequencies"] for of_judge in facts.values()}) == 1


def test_a_label_is_left_out_of_its_own_frequency():
    labels = [3, 3, 3, 7, 9, 9]
    log_p = []
    for place, label in enumerate(labels):
        others = labels[:place] + labels[place + 1 :]
        log_p.append(np.log((others.count(label) + 1) / (len(others) + 3)))
    assert left_out_perplexity(np.array(labels)) == pytest.approx(np.exp(-np.mean(log_p)))


def test_a_line_for_each_judge_stands_under_the_table():
    def row(no_word, all_words, explainer="attention", **identity):
        ppls = {"no_word": no_word, "all_words": all_words}
        keys = FIDELITY | {"explainer": explainer, **identity}
        return scored(keys, {"ppl": 9.0}, extremes=ppls)

    rows = [
        row(93742.0, 1.72, instantiation="base"),
        row(93742.0, 1.72, explainer="lexicon", instantiation="base"),
        row(226.4, 1.69, instantiation="base_tuned", seed=0),
        row(231.7, 1.7, instantiation="base_tuned", seed=1),
        scored(FIDELITY, {"ppl": 9.0}),
    ]
    assert Fidelity().notes(rows) == [
        "toy en-de transformer: Base: PPL 93742 with no word on, 1.72 with all.",
        "toy en-de transformer: Base, tuned: PPL 226.4 or 231.7 with no word on, 1.69 or 1.70 with "
        "all.",
        "Followed which words a system uses (one pair in four by chance), pairs of generated "
        "twins: Base in 10 of 10; Base, tuned in 10 of 10. In pairs of natural twins: Base in 7 of "
        "10; Base, tuned in 2 of 5. In pairs of natural twins of two architectures: Base in "
        "14 of 15; Base, tuned in 10 of 10.",  # own FN was not tried
    ]
