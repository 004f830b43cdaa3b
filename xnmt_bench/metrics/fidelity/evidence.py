"""The evidence behind each row of fidelity: sums by sentence, and what analyses read later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.errors import NotApplicable
from xnmt_bench.judges import Judge
from xnmt_bench.judges.extremes import stored_extremes
from xnmt_bench.judges.judge import JUDGING_SECONDS, SCORES
from xnmt_bench.judges.unigram import left_out_perplexity
from xnmt_bench.measuring.measurement import DECISIONS, Evidence
from xnmt_bench.measuring.metric import OFF_WORDS
from xnmt_bench.measuring.units import Units, by_unit
from xnmt_bench.metrics.fidelity.decision_facts import FACETS_FILE, SAMPLE_FILE, TestDecisions
from xnmt_bench.rules.table import ERROR, read_errors

# Facts: perplexities with no word on and with all; that by frequencies of the same labels.
EXTREMES, LABEL_FREQUENCIES = "extremes", "label_frequencies"
TWIN_SYSTEMS = (
    "twin_systems"  # fact: the two systems whose decisions are the test set; see `Corpus.twins`
)
# Columns of units, each in front of a slot: decisions of planted words, and their log-likelihoods.
PLANTED, LIKELIHOOD_OF = "planted ", "log-likelihood of planted "


def evidence_of(
    judge: Judge, decisions: TestDecisions, browsed: int, compare_distributions: bool
) -> Evidence:
    """Return what a judge decides from only the explainer's rules.

    Args:
        judge: bound to the rules of the job.
        decisions: the test decisions.
        browsed: the number of test sentences whose rules are kept for the page.
        compare_distributions: whether the KL divergence is measured, of judges that give one.
    """
    columns = judge.columns()
    if compare_distributions and judge.gives_distributions:
        columns["kl"] = decisions.kl(judge)
    if (off_words_N := decisions.off_words) is not None:
        columns[OFF_WORDS.name] = off_words_N
    evidence = sum_predictions(judge, decisions, columns, of_rules=True)
    facts = judge.facts() | {JUDGING_SECONDS: judge.judged.artefact.seconds}
    if judge.switches_off:
        facts[EXTREMES] = stored_extremes(judge).facts
    labels_N = decisions.rules.test.label_N[decisions.rules.counted]
    facts[LABEL_FREQUENCIES] = left_out_perplexity(labels_N)
    errors_N = read_errors(decisions.rules.test_artefact.path, "test")
    if errors_N is not None:
        errors_N = errors_N[decisions.rules.counted]
        # Not the mean, which one badly explained decision would decide.
        quantiles = {"median": float(np.median(errors_N)), "greatest": float(errors_N.max())}
        facts[ERROR] = {"what": decisions.rules.explained.explainer.error, **quantiles}
    made_by = evidence.made_by | judge.made_by()
    # Only such a judge has the rules of the training sentences extracted.
    if judge.learns_from == "rules":
        # Counts and no rules, so that results stay small and complete.
        facts["density"] = vars(decisions.density)
        made_by |= {"rules": decisions.rules.training_artefact.fingerprint}
    return replace(
        evidence,
        made_by=made_by,
        facts=evidence.facts | facts,
        files=evidence.files | decisions.browsed(browsed),
    )


def reference_evidence(reference: Judge, decisions: TestDecisions, browsed: int) -> Evidence | None:
    """Return what a judge without rules decides; None where the explainer has no rules here.

    A job without rules has no decisions; the row is written by another explainer's job.
    """
    try:
        _ = decisions.rules.test_artefact.artefact
    except NotApplicable:
        return None
    evidence = sum_predictions(reference, decisions, {}, of_rules=False)
    facts, files = evidence.facts | reference.facts(), dict(evidence.files)
    if reference.name == "nmt":  # one row a scenario, since it is the same under every explainer
        facts |= {"doubts": decisions.doubts, "capped": decisions.rules.system.capped}
        # Kinds are of the decisions, so the system's own row holds them once for all.
        files["facets"] = decisions.facets.path / FACETS_FILE
        files["sample"] = decisions.sample(browsed).path / SAMPLE_FILE
    return replace(evidence, facts=facts, files=files)


def sum_predictions(
    judge: Judge, decisions: TestDecisions, columns: Mapping[str, np.ndarray], of_rules: bool
) -> Evidence:
    """Sum a judge's predictions by sentence.

    Args:
        judge: the judge.
        decisions: the test decisions.
        columns: what else is summed, (N,) each.
        of_rules: whether the row is of the explainer's rules: then hits are counted too, and the
            decisions that it gives relevance for.
    """
    rules, scores = decisions.rules, judge.scores()
    explainer, test_set = rules.explained.explainer, rules.explained.texts.test_set
    summed = {"log_likelihood": scores.log_likelihood_N, **columns}
    if scores.correct_N is not None:
        summed["correct"] = scores.correct_N
    # Planted decisions are those in which the system says the target's own word.
    against_gold = of_rules and explainer.against_gold
    for slot, planted_N in ({} if against_gold else decisions.planted).items():
        summed[PLANTED + slot] = planted_N
        summed[LIKELIHOOD_OF + slot] = planted_N * scores.log_likelihood_N
    counted_N = np.ones(len(scores), dtype=bool)
    facts, settings = dict[str, Any](), dict(rules.settings)
    made_by = {"scores": judge.judged.fingerprint}
    if of_rules:
        made_by = {"judged": rules.test_artefact.fingerprint} | made_by
        counted_N = rules.counted
        if not counted_N.any():
            raise NotApplicable("the explainer gives no relevance for any test decision")
        of_gold = explainer.needs_gold or explainer.of_target_words
        which = "all"
        if of_gold or explainer.against_gold:
            gold, count = "is" if of_gold else "is not", int(counted_N.sum())
            facts["counted"] = {"gold": gold, "decisions": count, "of": len(scores)}
            if count < len(scores):
                which = f"{count:,} of {len(scores):,}, whose label {gold} the target's word"
        # Such decisions may be the easy ones, so that rows of all are another block.
        settings[DECISIONS] = which
        if against_gold:
            # Units of a test set of their own, so that no analysis compares them with others.
            test_set = f"{test_set}, labels that are not the target's word"
    counted = {name: column_N[counted_N] for name, column_N in summed.items()}
    # Sentences are resampled, not decisions, since decisions of one sentence depend on each other.
    number_U, sums = by_unit(scores.sentence_N[counted_N], **counted)
    if of_rules and not against_gold and (hits_U6 := decisions.hits) is not None:
        # Hits have a row for every sentence; sentences without a counted decision have no unit.
        hits_U6 = hits_U6[np.isin(np.unique(scores.sentence_N), number_U)]
        # Columns: hits and counted decisions of the source, of the prefix, of either side.
        sums["hits"], sums["hittable"] = (hits_U6[:, :2] + hits_U6[:, 2:4]).T
        sums["hits_any"], sums["hittable_any"] = hits_U6[:, 4:].T
    units = Units(test_set, number_U, sums)
    files: dict[str, Path] = {"decisions": judge.judged.path / SCORES}
    return Evidence(units, made_by, facts, files, settings)
