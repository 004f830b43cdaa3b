"""Why this word and not the target's own: fidelity of the decisions where the two differ."""

import numpy as np
import pytest

from proxies.lessons import ProxyTrainingOptions
from support.systems import small_job
from xnmt_bench.errors import NotApplicable
from xnmt_bench.judges import RuleSet
from xnmt_bench.judges.base_untuned import Base
from xnmt_bench.judges.evalx import EvalX
from xnmt_bench.judges.kl import Distilled
from xnmt_bench.judges.matched import OnMatchedRules
from xnmt_bench.judges.matches import Matches
from xnmt_bench.judges.nmt import NMT
from xnmt_bench.metrics.fidelity.decision_facts import TestDecisions
from xnmt_bench.metrics.fidelity.evidence import evidence_of, reference_evidence
from xnmt_bench.parquet import read_table
from xnmt_bench.rules.density import density
from xnmt_bench.rules.table import read_rules, shards


def job_for(workplace, *options):
    return small_job(workplace, "transformer", "explainer=gradient_norm", "proxy=fn", *options)


@pytest.fixture(scope="module")
def gold_foil_job(workplace, transformer):
    few = "rules.train_sentences=300", "rules.shard_sentences=100"
    return job_for(workplace, "explainer.phi.foil=gold", *few)


def test_decisions_where_label_and_foil_are_one_are_not_counted(gold_foil_job, workplace):
    rules, decisions = RuleSet(gold_foil_job), TestDecisions(RuleSet(gold_foil_job))
    evidence = evidence_of(Base(rules), decisions, 5, compare_distributions=False)
    other = job_for(workplace)
    all_labels, gold = rules.test.label_N, rules.target_words
    np.testing.assert_array_equal(all_labels, RuleSet(other).test.label_N)
    scores = Base(rules).scores()
    differs = all_labels != gold
    assert 0 < differs.sum() < len(differs)
    assert evidence.units["rows"].sum() == differs.sum()
    total = evidence.units["log_likelihood"].sum()
    assert total == pytest.approx(scores.log_likelihood_N[differs].sum())
    assert "hits" not in evidence.units.columns
    fact = {"gold": "is not", "decisions": int(differs.sum()), "of": len(differs)}
    assert evidence.facts["counted"] == fact
    browsed = read_rules(evidence.files["browsed_rules"], 1)
    first = dict.fromkeys(rules.test.sentence_N.tolist())
    kept = differs & np.isin(rules.test.sentence_N, list(first)[:5])
    np.testing.assert_array_equal(browsed.step_N, rules.test.step_N[kept])


def test_its_rows_compare_with_rows_of_the_same_decisions_alone(gold_foil_job, workplace):
    own_units = evidence_of(
        Base(RuleSet(gold_foil_job)), TestDecisions(RuleSet(gold_foil_job)), 5, False
    ).units
    other = job_for(workplace)
    all_units = evidence_of(Base(RuleSet(other)), TestDecisions(RuleSet(other)), 5, False).units
    assert own_units.test_set == f"{all_units.test_set}, labels that are not the target's word"
    # The model's own row is of all decisions under every explainer.
    for each in (gold_foil_job, other):
        units = reference_evidence(NMT(RuleSet(each)), TestDecisions(RuleSet(each)), 5).units
        assert units.test_set == all_units.test_set
        assert units["rows"].sum() == all_units["rows"].sum()


@pytest.mark.long
def test_proxies_learn_from_decisions_that_are_explained(gold_foil_job):
    rules = RuleSet(gold_foil_job)
    learnt = [(rule.sentence_N, rule.step_N, rule.label_N) for rule in rules.training()]
    expected, sentences = [], {}
    for path in shards(rules.training_artefact.path, "train"):
        table = read_table(path, ("sentence", "step", "label", "gold"))
        columns = (column.to_pylist() for column in table.columns)
        for sentence, step, label, gold in zip(*columns, strict=True):
            sentences[sentence] = None
            if label != gold and len(sentences) <= rules.train_sentences:
                expected.append((sentence, step, label))
    shown = zip(
        *(np.concatenate(column).tolist() for column in zip(*learnt, strict=True)), strict=True
    )
    assert list(shown) == expected
    # A sentence whose every label is right still counts as a sentence.
    assert len({sentence for sentence, *_ in expected}) < rules.train_sentences


def test_a_rule_is_not_matched_with_its_own_decision(gold_foil_job, tmp_path, monkeypatch):
    """Also where decisions are left out, so that rows of rules are not those of labels."""
    rows_asked = []

    def label(self, words_K, own_row, generator):
        rows_asked.append((self._contexts, own_row))
        return 5

    monkeypatch.setattr(Matches, "label", label)
    rules = RuleSet(gold_foil_job)
    judge = OnMatchedRules(EvalX(rules))
    judge.lessons(tmp_path, ProxyTrainingOptions())
    numbers = rules.decisions.split("train", rules.learned_from).number
    own_decisions = [
        (numbers[c.sentence_N[row]], c.step_N[row], c.label_N[row]) for c, row in rows_asked
    ]
    learnt = [zip(r.sentence_N, r.step_N, r.label_N, strict=True) for r in rules.training()]
    assert own_decisions == [rule for part in learnt for rule in part]


def test_rules_without_any_match_are_not_applicable(gold_foil_job, tmp_path, monkeypatch):
    monkeypatch.setattr(Matches, "label", lambda *_: None)
    with pytest.raises(
        NotApplicable, match="no training decision can show the words of another decision's rule"
    ):
        OnMatchedRules(EvalX(RuleSet(gold_foil_job))).lessons(tmp_path, ProxyTrainingOptions())


def test_kl_pairs_a_rule_with_the_distribution_of_its_own_decision(gold_foil_job, tmp_path):
    rules = RuleSet(gold_foil_job)
    labels = np.concatenate([part.label_N for part in rules.training()])
    lessons = Distilled(rules).lessons(tmp_path, ProxyTrainingOptions())
    # The held-out rules are the last ones, in their order.
    chosen = np.concatenate([p_BV.argmax(1).numpy() for p_BV, *_ in lessons.valid()])
    np.testing.assert_array_equal(chosen, labels[-len(chosen) :])


def test_where_nothing_is_left_to_learn_from_it_is_not_applicable(
    gold_foil_job, tmp_path, monkeypatch
):
    monkeypatch.setattr(RuleSet, "learnable", lambda *_: np.zeros(10**6, dtype=bool))
    with pytest.raises(NotApplicable, match="gives no relevance for any training decision"):
        Distilled(RuleSet(gold_foil_job)).write_decisions(tmp_path)


def test_density_is_of_decisions_that_are_explained(gold_foil_job):
    rules = RuleSet(gold_foil_job)
    by_hand = density(rules.training(), len(rules.test))
    assert vars(TestDecisions(rules).density) == vars(by_hand)
    stored = sum(len(read_rules(p, 1)) for p in shards(rules.training_artefact.path, "train"))
    assert by_hand.rules < stored


@pytest.mark.parametrize("scenario", ["golden", "real"])
def test_where_every_label_is_the_targets_word_it_is_not_applicable(workplace, scenario):
    options = ("explainer.phi.foil=gold", f"scenario={scenario}")
    job = job_for(workplace, *options)
    with pytest.raises(NotApplicable, match="every label is the target's own word"):
        _ = RuleSet(job).test


def test_metrics_that_read_all_steps_are_not_applicable(gold_foil_job):
    with pytest.raises(
        NotApplicable, match="has no foil where the system says the target's own word"
    ):
        gold_foil_job.explained.relevance("teacher_forcing")
