"""Infidelity as a metric: its rows, its results, and the notes under its table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.measurement import Evidence, PlannedRow, ScoredRow
from xnmt_bench.measuring.metric import Column, Further, Key, SumMetric, count, hundredths, ratio
from xnmt_bench.measuring.sentence_sums import evidence_of_sentences, sum_by_sentence
from xnmt_bench.measuring.units import Bounds
from xnmt_bench.metrics.infidelity.samples import erased_words, probabilities
from xnmt_bench.nmt.switched import Removal
from xnmt_bench.options import Count, Seed
from xnmt_bench.pipeline.decision_table import load_decisions, store_decisions
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.extract import TEACHER_FORCING
from xnmt_bench.rules.labels import StoredLabels
from xnmt_bench.rules.table import SentenceRelevance, sentence_rows
from xnmt_bench.store import Stage

SHARD = 50  # sentences
EQUAL = "equal scores"  # the name of the row of the same score for every word
EQUAL_NOTE = (
    f"{EQUAL} (blind): the same score for every word, which foretells a loss by the number of "
    "erased words alone; scores that leave as much unexplained say nothing of which word."
)
ATTENDS = "attends"  # a fact of a row: scores of source and prefix words are not on one scale


class Infidelity(SumMetric):
    """The squared error of an explainer's scores as a linear model of erasing words.

    Words are erased at random; the scores of the erased ones are summed and compared with what the
    label's probability loses (Yeh et al. 2019, Definition 2.1). A unit is a sentence; its sums are
    over its decisions.

    Args:
        samples: rows of a sentence, which serve all its steps.
        removals: what an erased word is replaced by; a row for each.
        sentences: of the test set; null for all that are explained.
        draws: seed of the words that are erased; the same for every explainer.
    """

    name = "infidelity"
    papers = ("yeh2019",)
    setting_options = ("samples", "draws")
    reads_relevance = True
    title = "Infidelity: do scores foretell what erasing words does?"
    note = (
        "Each word is erased with probability 1/2; the summed scores of the erased words, in the "
        "scale of 0 or more that fits each decision best, against what P(label) loses. "
        "Unexplained: the squared error, as a share of the square of what is lost. Infidelity: the "
        "mean squared error (Yeh et al. 2019). Against: the share of the decisions that a negative "
        "scale would fit best. With 95 % bootstrap intervals over sentences."
    )
    keys = (
        Key("explainer", "explainer"),
        Key("removal", "removal", "removal: {}"),
        Key("seed", "seed"),
    )
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {
        "rows": Bounds(1),
        "lost": Bounds(0, 1, of="rows"),
        # In the scale that fits best, 0 at the worst.
        "error": Bounds(0, 1, of="lost"),
        "against": Bounds(0, 1, of="rows"),
    }
    columns = (
        Column.lower("unexplained", "unexplained", "{:.3f}".format).means(
            "squared error of the scores, as a share of the square of what is lost"
        ),
        Column.lower("infidelity", "infidelity", "{:.4f}".format).means(
            "mean squared error of the scores, in squared probability"
        ),
        Column("against", "against %", hundredths).means(
            "share of the decisions where the label gains what the scores say it loses"
        ),
        Column("decisions", "decisions", count, shown=False),
    )

    def __init__(
        self,
        samples: Annotated[int, Field(ge=2, le=1_000)] = 50,
        removals: Annotated[Sequence[Removal], Field(min_length=1)] = ("zero", "mean", "attention"),
        sentences: Count | None = None,
        draws: Seed = 0,
    ) -> None:
        self.samples, self.removals = samples, tuple(removals)
        self.sentences, self.draws = sentences, draws

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield the explainer's row under each removal, and that of equal scores."""
        # The system as the explainer's row has it, which stores none for a file's relevance.
        nmt = job.explained_identity()["nmt"]
        for removal in self.removals:
            make = partial(self._evidence, job, removal)
            stages = partial(self._stages, job, removal)
            yield self.plan(job, make, stages, explained=True, removal=removal)
            make = partial(self._evidence_of_equal, job, removal)
            equal: dict[str, Any] = {"explainer": EQUAL, "removal": removal, "seed": "", "nmt": nmt}
            blind = partial(Further, facts={"blind": True})
            yield self.plan(job, make, further=blind, **equal)

    def _stages(self, job: Job, removal: Removal) -> list[Stage | None]:
        return [job.relevance(TEACHER_FORCING).source, self._erase(job, removal)]

    def _evidence(self, job: Job, removal: Removal) -> Evidence:
        """Return the sums of the explainer under one removal."""
        relevances, table = job.relevance(TEACHER_FORCING), self._erase(job, removal)
        made_by = {"erased": table.fingerprint, "relevance": relevances.fingerprint}
        facts = {ATTENDS: job.explained.explainer.attends}
        return self._sum(job, relevances, load_erased(table), made_by, facts)

    def _evidence_of_equal(self, job: Job, removal: Removal) -> Evidence:
        """Return the sums of equal scores, the same for every explainer."""
        table, split = self._erase(job, removal), job.texts.split(EVALUATED)
        labels_by_number = load_erased(table)
        relevances = [
            equal_relevance(number, labels, *map(len, split.ids(number)))
            for number, labels in labels_by_number.items()
        ]
        return self._sum(job, relevances, labels_by_number, {"erased": table.fingerprint}, {})

    def _erase(self, job: Job, removal: Removal) -> Stage:
        """Return what the system says with words erased at random."""
        decisions, texts = job.explained.decisions, job.texts
        sentences = decisions.count(EVALUATED, self.sentences)
        labels = decisions.labels(EVALUATED, TEACHER_FORCING)

        def compute(members: list[int]) -> list[dict[str, Any]]:
            size = decisions.extraction.shard_sentences
            stored = StoredLabels(labels.path, EVALUATED, size)
            split, model = texts.split(EVALUATED), job.system.model
            ids = [(split.source[index], split.target[index]) for index in members]
            # Labels of the unchanged system: erased words change its probability and not its
            # choice.
            batch, whole_BT = stored.of(members, model.collate(ids))
            # One draw of erased words serves all steps of a sentence.
            erased = [erased_words(*pair, self.samples, self.draws) for pair in ids]
            p_BRT = probabilities(model, batch, erased, removal)
            step_BX = [np.flatnonzero(now_T) for now_T in batch.on_host.current_BT]
            return [
                {
                    "sentence": np.full(len(step_X), split.number[index]),
                    "step": step_X,
                    "whole": whole_T[step_X],
                    "erased": [*p_RT.T[step_X]],
                }
                for index, step_X, whole_T, p_RT in zip(
                    members, step_BX, whole_BT, p_BRT, strict=True
                )
            ]

        return store_decisions(
            job,
            "erased_at_random",
            "erased at random",
            lambda: range(sentences),
            compute,
            shard=SHARD,
            sentences=sentences,
            version=1,
            labels=labels,
            samples=self.samples,
            removal=removal,
            seed=self.draws,
        )

    def _sum(
        self,
        job: Job,
        relevances: Iterable[SentenceRelevance],
        labels_by_number: Mapping[int, ErasedLabels],
        made_by: dict[str, str],
        facts: dict[str, Any],
    ) -> Evidence:
        split = job.texts.split(EVALUATED)

        def compute() -> Iterator[tuple[int, dict[str, np.ndarray]]]:
            for relevance in relevances:
                # Relevance is of all explained sentences, words may be erased of fewer.
                if labels := labels_by_number.get(relevance.number):
                    ids = split.ids(relevance.number)
                    # Drawn again and not stored: ids and seed decide the draw.
                    erased = erased_words(*ids, self.samples, self.draws)
                    yield relevance.number, errors(relevance, erased, labels)

        # Rows of other draws are never compared.
        return evidence_of_sentences(job, *sum_by_sentence(compute()), made_by, facts=facts)

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return means over decisions."""
        decisions_R = sums_R["rows"]
        return {
            "unexplained": ratio(sums_R["error"], sums_R["lost"]),
            "infidelity": ratio(sums_R["error"], decisions_R),
            "against": ratio(sums_R["against"], decisions_R),
            "decisions": decisions_R,
        }

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return what equal scores are for, and whose scores of the two sides do not compare."""
        measured = [s.measurement for s in scored if s.measurement.ok]
        names = {m.identity["explainer"] for m in measured}
        apart = {m.identity["explainer"] for m in measured if m.facts.of_metric.get(ATTENDS)}
        return [EQUAL_NOTE] * (EQUAL in names) + [
            f"{name}: its scores of source and of prefix words are not on one scale; here they are "
            "summed without rescaling."
            for name in sorted(apart)
        ]


@dataclass(frozen=True)
class ErasedLabels:
    """What the labels of one sentence's decisions lose when words are erased.

    Attributes:
        first: the first decision's step; the others follow.
        whole_N: P(label) with all words.
        erased_RN: of each row, with some erased.
    """

    first: int
    whole_N: np.ndarray
    erased_RN: np.ndarray


def load_erased(table: Stage) -> dict[int, ErasedLabels]:
    """Return what labels lose, by number of the sentence."""
    # In memory: a few numbers a decision, of the test set only.
    columns = load_decisions(table)
    names = ("sentence", "step", "whole", "erased")
    number_N, step_N, whole_N, erased_NR = (columns[name] for name in names)
    return {
        int(number_N[rows.start]): ErasedLabels(
            int(step_N[rows.start]), whole_N[rows], erased_NR[rows].T
        )
        for rows in sentence_rows(number_N)
    }


def equal_relevance(
    number: int, labels: ErasedLabels, source_size: int, target_size: int
) -> SentenceRelevance:
    """Return a score of 1 for each word that a decision of one sentence sees.

    Args:
        number: of the sentence.
        labels: of its N decisions.
        source_size: its source ids, S.
        target_size: its target ids, T.
    """
    step_N1 = labels.first + np.arange(len(labels.whole_N))[:, None]
    prefix_NT = np.where(np.arange(target_size) < step_N1, 1.0, np.nan)
    source_NS = np.ones((len(labels.whole_N), source_size))
    return SentenceRelevance(number, labels.first, source_NS, prefix_NT, labels.whole_N)


def errors(
    relevance: SentenceRelevance, erased: tuple[np.ndarray, np.ndarray], labels: ErasedLabels
) -> dict[str, np.ndarray]:
    """Return the mean squared error of each decision's scores, (N,).

    The scores are in the scale of 0 or more that fits the decision best: a negative one would turn
    scores round that foretell the opposite of what happens. Beside the `error` stand `lost`, the
    mean square of what the label loses, and `against`, whether a negative scale would fit best.

    Args:
        relevance: of one sentence, N decisions.
        erased: of each row, the words that are erased, (R, S) and (R, T).
        labels: P(label) with all words, and in each row.

    Raises:
        NotApplicable: a word of the source has no relevance.
    """
    source_NS, prefix_NT = relevance.source_TS, relevance.prefix_TT
    if np.isnan(source_NS).any():
        raise NotApplicable("the explainer gives no score to some words that a decision sees")
    # A word that a step cannot see changes nothing there.
    foretold_RN = erased[0] @ source_NS.T + erased[1] @ np.nan_to_num(prefix_NT).T
    # In float64, since a difference of like probabilities keeps few digits.
    lost_RN = labels.whole_N.astype(np.float64) - labels.erased_RN
    product_N, square_N = ((foretold_RN * x).mean(axis=0) for x in (lost_RN, foretold_RN))
    # Least squares in one unknown. Scores of 0 foretell nothing in any scale.
    scale_N = np.divide(product_N, square_N, out=np.zeros_like(product_N), where=square_N > 0)
    return {
        "error": np.square(np.maximum(scale_N, 0) * foretold_RN - lost_RN).mean(axis=0),
        "lost": np.square(lost_RN).mean(axis=0),
        "against": (scale_N < 0).astype(np.float64),
    }
