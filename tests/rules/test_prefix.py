"""Rules with other prefix words than the explainer's: for training, for tests, and in rows."""

import numpy as np
import pytest

from support.systems import small_job
from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS
from xnmt_bench.errors import XnmtError
from xnmt_bench.judges import RuleSet
from xnmt_bench.judges.base_untuned import Base
from xnmt_bench.judges.evalx import EvalX
from xnmt_bench.judges.kl import Distilled
from xnmt_bench.judges.own import Own
from xnmt_bench.judges.unigram import Unigram
from xnmt_bench.metrics.fidelity.decision_facts import TestDecisions
from xnmt_bench.rules.prefix import with_prefix
from xnmt_bench.rules.table import Rules

# Sentences 7 and 3 of a corpus; the second holds a separator, which is no word of a rule.
SPLIT = EncodedSplit(
    EncodedSide.of([[10, 11, EOS], [12, 13, EOS]]),
    EncodedSide.of([[20, 21, 22, EOS], [23, BOS, 24, EOS]]),
    np.array([7, 3]),
)
STEPS = [(3, 2), (3, 3), (7, 0), (7, 1), (7, 3)]


def rules_of(steps):
    sentence_N, step_N = np.array(steps).T
    words = np.arange(2 * len(steps), dtype=np.int32).reshape(-1, 2)
    return Rules(
        sentence_N, step_N, step_N + 40, step_N / 9, words + 50, words + 70, words % 3, words % 2
    )


def test_the_explainers_words_stay_as_they_are():
    rules = rules_of(STEPS)
    assert with_prefix(rules, "chosen", SPLIT, False) is rules


@pytest.mark.parametrize(
    ("prefix", "admit_special", "positions", "ids"),
    [
        ("none", False, [-1] * 5, [-1] * 5),
        ("previous", False, [-1, 2, -1, 0, 2], [-1, 24, -1, 20, 22]),
        ("previous", True, [1, 2, -1, 0, 2], [BOS, 24, -1, 20, 22]),
    ],
)
def test_every_rule_holds_the_same_prefix_words(prefix, admit_special, positions, ids):
    """One word at the most, whatever k is; source words, labels and places of decisions stay."""
    rules = rules_of(STEPS)
    changed = with_prefix(rules, prefix, SPLIT, admit_special)
    np.testing.assert_array_equal(changed.prefix_position_NK.T, [positions, [-1] * 5])
    np.testing.assert_array_equal(changed.prefix_NK.T, [ids, [-1] * 5])
    for name in vars(rules).keys() - {"prefix_NK", "prefix_position_NK"}:
        np.testing.assert_array_equal(getattr(changed, name), getattr(rules, name))


def rule_sets(workplace, explainer, *changes):
    """The rules of a job under each value of the option."""
    return {
        prefix: RuleSet(small_job(workplace, "transformer", f"explainer={explainer}",
                                  f"prefix={prefix}", "rules.train_sentences=60", *changes))
        for prefix in ("chosen", "none", "previous")
    }  # fmt: skip


def test_rules_of_test_and_training_are_read_alike_and_nothing_is_explained_anew(
    transformer, workplace
):
    by_prefix = rule_sets(workplace, "random", "k=2")
    chosen = by_prefix["chosen"]
    for prefix, rules in by_prefix.items():
        assert rules.test_artefact.fingerprint == chosen.test_artefact.fingerprint
        assert rules.training_artefact.fingerprint == chosen.training_artefact.fingerprint
        for own, first, split in (
            (rules.test, chosen.test, rules.test_split),
            (next(rules.training()), next(chosen.training()),
             rules.decisions.split("train", rules.learned_from)),
            (rules.test_shard(0), chosen.test_shard(0), rules.test_split),
        ):  # fmt: skip
            np.testing.assert_array_equal(own.source_NK, first.source_NK)
            if prefix == "none":
                assert (own.prefix_NK == -1).all()
            elif prefix == "previous":
                places = zip(own.sentence_N, own.step_N, strict=True)
                last = [split.ids(n)[1][step - 1] for n, step in places if step]
                assert own.prefix_NK[own.step_N > 0, 0].tolist() == last
                assert (own.prefix_NK[own.step_N == 0] == -1).all()
    assert (chosen.test.prefix_NK >= 0).any()


def test_only_what_reads_the_words_is_made_anew(transformer, workplace):
    """EVAL-X learns from random words; it is the same judge, tested on other rules."""
    by_prefix = rule_sets(workplace, "random", "proxy.training.max_epochs=1")

    def made(of):
        return len({of(rules) for rules in by_prefix.values()})

    assert made(lambda rules: Unigram(rules).judged.fingerprint) == 1
    assert made(lambda rules: EvalX(rules).trained.fingerprint) == 1
    for judge in (Own, Distilled):
        assert made(lambda rules, judge=judge: judge(rules).trained.fingerprint) == 3
    for judge in (Base, EvalX, Own):
        assert made(lambda rules, judge=judge: judge(rules).judged.fingerprint) == 3
    plug_in = type("Mine", (Base,), {"learns_from": "rules", "recipe": lambda self: {}})
    assert made(lambda rules: str(super(Base, plug_in(rules)).recipe())) == 3


def test_base_sees_the_previous_word_or_none(transformer, workplace):
    """`nearest` keeps the previous word by itself, so that for it the option changes nothing."""
    by_prefix = rule_sets(workplace, "nearest")
    scores = {p: Base(rules).scores().log_likelihood_N for p, rules in by_prefix.items()}
    np.testing.assert_array_equal(scores["previous"], scores["chosen"])
    first_N = by_prefix["none"].test.step_N == 0
    np.testing.assert_array_equal(scores["none"][first_N], scores["chosen"][first_N])
    assert (scores["none"][~first_N] != scores["chosen"][~first_N]).mean() > 0.9


def test_a_side_that_rules_do_not_have_is_not_missed(transformer, workplace):
    by_prefix = rule_sets(workplace, "nearest")
    hits = {p: TestDecisions(rules).hits.sum(0) for p, rules in by_prefix.items()}
    assert hits["previous"].tolist() == hits["chosen"].tolist()
    assert hits["chosen"][3] > 0 and hits["none"][2:4].tolist() == [0, 0]
    assert hits["none"][:2].tolist() == hits["chosen"][:2].tolist()


def test_a_leak_is_of_the_explainers_words(workplace):
    rules = rule_sets(workplace, "random")["none"]
    with pytest.raises(XnmtError, match="leak needs prefix=chosen"):
        EvalX(rules, leak=True)
