"""Fidelity as a metric: its rows, its results, and the notes under its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import mean
from typing import Any, ClassVar

import numpy as np

from xnmt_bench.errors import XnmtError
from xnmt_bench.judges import Judge, RuleSet
from xnmt_bench.judges.configured import configured_judges, installed_judges
from xnmt_bench.judges.extremes import ALL_WORDS, NO_WORD, stored_extremes
from xnmt_bench.judges.judge import TOLD_APART
from xnmt_bench.judges.nmt import NMT
from xnmt_bench.judges.unigram import Unigram
from xnmt_bench.measuring.alike import family
from xnmt_bench.measuring.listing import Listing
from xnmt_bench.measuring.measurement import (
    Measurement,
    PlannedRow,
    ScoredRow,
)
from xnmt_bench.measuring.metric import (
    OFF_WORDS,
    Column,
    Further,
    Key,
    PivotValue,
    SumMetric,
    TableRow,
    count,
    digits,
    percent,
    ratio,
)
from xnmt_bench.measuring.units import Bounds
from xnmt_bench.metrics.fidelity.decision_facts import TestDecisions
from xnmt_bench.metrics.fidelity.evidence import (
    EXTREMES,
    LABEL_FREQUENCIES,
    LIKELIHOOD_OF,
    PLANTED,
    TWIN_SYSTEMS,
    evidence_of,
    reference_evidence,
)
from xnmt_bench.metrics.fidelity.listed_decisions import list_decisions
from xnmt_bench.options import Count
from xnmt_bench.pipeline.job import Job
from xnmt_bench.registry import entries, load
from xnmt_bench.report.panels import system_name
from xnmt_bench.rules.extract import TEACHER_FORCING
from xnmt_bench.rules.prefix import CHOSEN
from xnmt_bench.rules.table import ERROR
from xnmt_bench.store import Stage

REFERENCES: tuple[type[Judge], ...] = (Unigram, NMT)
nats = "{:.3f}".format
BLIND_NOTE = (
    "Blind rows never ask the model. A method that does not beat them has shown nothing about it."
)
NARROWED_NOTE = (
    "Proxies, EVAL-X and unigram tell apart only the target pieces of {nmt} that they learn from, "
    "{learnt} of {of:,}. All others share one probability evenly; {unlearnt} % of the test labels "
    "are among them."
)
SCORED = {
    "is": "is scored on the decisions whose label is the target's own word.",
    "is not": (
        "is scored on the {decisions:,} of {of:,} decisions whose label is not the target's own "
        "word, and compares with rows of the same decisions alone."
    ),
}


class Fidelity(SumMetric):
    """Perplexity of judges that see only an explainer's words (Li et al. 2020, Eq. 7).

    `judge=[...]` chooses the judges. A unit is a sentence; its sums are log-likelihood, decisions,
    right first choices, and where they are known KL divergence, hits, and the log-likelihoods that
    a leak follows from.

    Args:
        browsed: test sentences whose rules the page shows, and `unaligned` reads.
    """

    name = "fidelity"
    papers = ("li2020",)
    setting_options = ()
    needs = "training sentences, where a judge or an explainer learns"
    reads_relevance = True
    title = "Fidelity: perplexity under judges"
    note = (
        "PPL: a judge's perplexity on held-out decisions, with its 95 % bootstrap interval over "
        "sentences; lower is more faithful."
    )
    keys = (
        Key("explainer", "explainer"),
        Key("k", "k", "k = {}"),
        Key("prefix", "prefix words", "prefix words: {}", CHOSEN),
        Key("scenario", "scenario", usual=TEACHER_FORCING),
        Key("learned_from", "learned from", "learned from {}", TEACHER_FORCING, shared=True),
        Key("instantiation", "instantiation"),
        Key("seed", "seed"),
        Key("train_sentences", "sentences", "{} training sentences", shared=True),
    )
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {
        "rows": Bounds(1),
        "log_*": Bounds(high=0),
        "correct": Bounds(0, 1, of="rows"),
        "kl": Bounds(0),
        f"{PLANTED}*": Bounds(0, 1, of="rows"),
        f"{LIKELIHOOD_OF}*": Bounds(high=0),
        "hittable": Bounds(0),
        "hits": Bounds(0, 1, of="hittable"),
        "hittable_any": Bounds(0),
        "hits_any": Bounds(0, 1, of="hittable_any"),
        OFF_WORDS.name: Bounds(0, 1, of="rows"),
    }
    columns: Sequence[Column] = (
        Column.lower("ppl", "PPL", log=True).means(
            "perplexity on held-out decisions, from the rule's words alone"
        ),
        Column.higher("accuracy", "accuracy", percent, shown=False),
        Column("decisions", "decisions", count, shown=False),
        Column("planted_log_q", "log Q planted", nats, shown=False).means(
            "mean log-probability of the label on planted decisions, in nats"
        ),
        Column("planted", "planted decisions", count, shown=False),
        Column.higher("hit_at_k", "hit@k, sides", percent, interval=False).means(
            "share of the sides whose words hold one that decides the label"
        ),
        Column.higher("hit_any_at_k", "hit@k, decisions", percent, interval=False).means(
            "share of the decisions whose rule holds a word that decides the label"
        ),
        OFF_WORDS,
    )
    pivot = "instantiation"

    def __init__(self, browsed: Count = 50) -> None:
        self.browsed = browsed
        # All that are installed and not those of a configuration: `evaluate.py` has rows of judges
        # that its own configuration does not choose.
        self._judge_kinds = installed_judges()
        self.columns = _with_results_of(self._judge_kinds, self.columns)
        self.csv_only = tuple(name for kind in self._judge_kinds for name in kind.csv_only)

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield each judge's row, then those of the two references."""
        # One set of rules for all judges, so that they are read from disk once.
        rules = RuleSet(job)
        decisions, judges = TestDecisions(rules), configured_judges(rules)
        # Whole distributions cost a pass over the vocabulary, so only the judge `kl` asks for them.
        compare_distributions = any(judge.learns_from == "distributions" for judge in judges)
        options = ("k", "prefix", "scenario", "learned_from")
        keys = {name: getattr(rules, name) for name in options}

        def plan(judge: Judge, make: Any, further: Callable[[], Further]) -> PlannedRow:
            def stages() -> list[Stage]:
                extremes = [stored_extremes(judge)] if judge.switches_off else []
                return [judge.judged, *extremes]

            return self.plan(job, make, stages, further, explained=True, **keys | judge.row_keys())

        for judge in judges:
            make = partial(evidence_of, judge, decisions, self.browsed, compare_distributions)
            pivot = judge.pivot_value()
            settings = {f"{judge.row_name} {key}": value for key, value in judge.settings().items()}
            # Heading and place go into the row: a page may be made where the judge is missing.
            facts = {"judge": judge.name, "pivot": vars(pivot)}
            if job.corpus.twins:
                facts[TWIN_SYSTEMS] = list(job.corpus.twins)
            yield plan(judge, make, partial(_further, rules, settings, facts))
        # Each job yields them; equal rows of a sweep replace each other.
        for reference in (kind(rules) for kind in REFERENCES):
            pivot = PivotValue(reference.name, reference.row_order)
            make_reference = partial(reference_evidence, reference, decisions, self.browsed)
            further = partial(_further, rules, {}, {"pivot": vars(pivot)})
            yield plan(reference, make_reference, further)

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return perplexity, KL divergence in nats, and shares of decisions."""
        decisions_R = sums_R["rows"]
        results = {
            "ppl": np.exp(-ratio(sums_R["log_likelihood"], decisions_R)),
            "decisions": decisions_R,
        }
        if "correct" in sums_R:
            results["accuracy"] = ratio(sums_R["correct"], decisions_R)
        if OFF_WORDS.name in sums_R:
            results[OFF_WORDS.name] = ratio(sums_R[OFF_WORDS.name], decisions_R)
        planted = [name.removeprefix(PLANTED) for name in sums_R if name.startswith(PLANTED)]
        if planted:
            results["planted"] = np.sum([sums_R[PLANTED + slot] for slot in planted], axis=0)
            log_q_R = np.sum([sums_R[LIKELIHOOD_OF + slot] for slot in planted], axis=0)
            results["planted_log_q"] = ratio(log_q_R, results["planted"])
        if "hits" in sums_R:
            # Not by all decisions: a side without a deciding word cannot be hit.
            results["hit_at_k"] = ratio(sums_R["hits"], sums_R["hittable"])
            results["hit_any_at_k"] = ratio(sums_R["hits_any"], sums_R["hittable_any"])
        for kind in self._judge_kinds:
            results |= kind.results(sums_R)
        return results

    def combine(self, scored: Sequence[ScoredRow]) -> list[ScoredRow]:
        """Return the rows that judges make of their own rows, such as Comb."""
        rows_of: dict[str, list[ScoredRow]] = {}
        for row in scored:
            if name := row.measurement.facts.judge:
                rows_of.setdefault(name, []).append(row)
        installed = entries("judges")
        return [
            combined
            for name, rows in rows_of.items()
            if name in installed  # results may come from where another package was installed
            for combined in load("judges", name).combine(rows)
        ]

    def reference(self, row: TableRow) -> str | None:
        """Return what a judge without rules is; it stands under the table."""
        # What they are goes into the note, since a reference has no column of its own.
        headings = {kind.name: kind.heading for kind in REFERENCES}
        return headings.get(row["instantiation"])

    def why_unranked(
        self,
        best: float,
        rows: Sequence[ScoredRow],
        references: Mapping[str, Sequence[ScoredRow]],
    ) -> str | None:
        """Return that a judge predicts less from every row's words than label frequencies do."""
        counted = [s.values["ppl"] for s in references.get(Unigram.name, ()) if "ppl" in s.values]
        name = Unigram.name
        # A reference is of all decisions, and without training text there is none.
        if not counted or any(s.measurement.partial for s in rows):
            facts = [s.measurement.facts.of_metric.get(LABEL_FREQUENCIES) for s in rows]
            counted = [ppl for ppl in facts if ppl is not None]
            name = "frequencies of the same labels"
        if not counted or best <= mean(counted):
            return None
        return (
            "does not judge here: from the words of the best row it predicts less than label "
            f"frequencies do (PPL {digits(best)}, {name} {digits(mean(counted))})"
        )

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return what blind rows are for, and facts about judges, decisions and relevance."""
        rows = [row.measurement for row in scored if row.measurement.ok]
        notes = [BLIND_NOTE] if any(m.facts.blind for m in rows) else []
        counted = {
            f"{m.identity['explainer']} {SCORED[fact['gold']].format(**fact)}"
            for m in rows
            if (fact := m.facts.counted)
        }
        # Rows of one explainer on several systems or corpora each have their own.
        errors = {
            f"{m.identity['explainer']} on {m.identity['nmt']}: {error['what']}: "
            f"{error['median']:.2g} in the median, {error['greatest']:.2g} at most."
            for m in rows
            if (error := m.facts.of_metric.get(ERROR))
        }
        extremes, trials = _describe_extremes(scored), _describe_trials(rows)
        notes = [*extremes, *trials, *notes, *sorted(counted), *sorted(errors)]
        return [*notes, *_describe_pieces(rows)]

    def listings(self, measurements: Sequence[Measurement]) -> Iterator[Listing]:
        """Yield decisions with the words that each explainer picked."""
        return list_decisions(measurements)


def _describe_extremes(scored: Sequence[ScoredRow]) -> Iterator[str]:
    """Yield what each judge predicts that switches words off: with no word on, and with all."""
    by_judge: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for m in (s.measurement for s in scored if not s.derived):
        if extremes := m.facts.of_metric.get(EXTREMES):
            system = system_name(m.identity["nmt"], family(m), scored)
            where = " ".join([m.identity["corpus"], m.identity["lang_pair"], system])
            both = digits(extremes[NO_WORD]), digits(extremes[ALL_WORDS])
            by_judge.setdefault((where, m.facts.pivot["heading"]), set()).add(both)
    for (where, heading), ppls in by_judge.items():
        # Of several trainings, scenarios or test sets.
        no_word, all_words = (" or ".join(sorted(texts)) for texts in zip(*ppls, strict=True))
        yield f"{where}: {heading}: PPL {no_word} with no word on, {all_words} with all."


def _describe_trials(rows: Sequence[Measurement]) -> list[str]:
    """Return a note on which judges followed what a system uses, if any was tried."""
    installed, by_kind = entries("judges"), dict[str, dict[str, str]]()
    for m in rows:
        name, instantiation = m.facts.judge, m.identity["instantiation"]
        # Judges were tried without options, which stand in brackets.
        if name in installed and "[" not in instantiation:
            judge = load("judges", name)
            if instantiation.partition("@")[0] == (judge.tried_as or name):
                for kind, pairs in judge.twins_followed.items():
                    by_kind.setdefault(kind, {})[m.facts.pivot["heading"]] = pairs
    sentences = [
        f"pairs of {kind}: " + "; ".join(f"{heading} in {n}" for heading, n in trials.items())
        for kind, trials in sorted(by_kind.items())
    ]
    if not sentences:
        return []
    # A judge that sees nothing has either sign in either system.
    beginning = "Followed which words a system uses (one pair in four by chance)"
    return [f"{beginning}, {'. In '.join(sentences)}."]


def _describe_pieces(rows: Sequence[Measurement]) -> list[str]:
    """Return a note on judges that have weights of only some pieces of their vocabulary, if any."""
    by_system: dict[tuple[str, int], list[Mapping[str, int]]] = {}
    for row in rows:
        if pieces := row.facts.of_metric.get(TOLD_APART):
            by_system.setdefault((row.identity["nmt"], pieces["of"]), []).append(pieces)
    return [
        NARROWED_NOTE.format(
            nmt=nmt,
            learnt=_span([pieces["learnt"] for pieces in every], ","),
            of=size,
            unlearnt=_span(
                [100 * pieces["unlearnt labels"] / pieces["labels"] for pieces in every], ".1f"
            ),
        )
        for (nmt, size), every in sorted(by_system.items())
    ]


def _span(values: Sequence[float], form: str) -> str:
    """Return the least and the greatest value, or one where they read alike."""
    return " to ".join(dict.fromkeys(f"{value:{form}}" for value in (min(values), max(values))))


def _further(rules: RuleSet, settings: dict[str, Any], facts: dict[str, Any]) -> Further:
    """Return what a judge adds to a row; no more sentences can be explained than there are."""
    return Further({"train_sentences": rules.train_sentences}, settings, facts=facts)


def _with_results_of(kinds: Sequence[type[Judge]], columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return a metric's columns, with those of judges behind the first.

    Raises:
        XnmtError: a judge names a result like another one.
    """
    by_name = {column.name: column for column in columns}
    of_judges: list[Column] = []
    for kind in kinds:
        for column in kind.result_columns:
            # A judge that inherits a result from another one shares its column.
            if by_name.setdefault(column.name, column) != column:
                raise XnmtError(
                    f"judge {kind.name!r}: its column {column.name!r} has the name of another "
                    "column of fidelity"
                )
            if column not in (*columns, *of_judges):
                of_judges.append(column)
    # The headline stays the first column.
    headline, *further = columns
    return (headline, *of_judges, *further)
