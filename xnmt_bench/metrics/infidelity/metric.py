"""Infidelity as a metric: its rows, its results, and the notes under its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.measurement import SETTINGS, Evidence, PlannedRow, ScoredRow
from xnmt_bench.measuring.metric import Column, Key, SumMetric, count, ratio
from xnmt_bench.measuring.units import Bounds, Units, by_unit
from xnmt_bench.metrics.infidelity.samples import Sampling, erased_words, read, sample
from xnmt_bench.nmt.switched import Removal
from xnmt_bench.options import Count, Few, Seed
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.texts import name_sentences
from xnmt_bench.rules.extract import TEACHER_FORCING
from xnmt_bench.rules.table import SentenceRelevance

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
    reads_relevance = True
    title = "Infidelity: do scores foretell what erasing words does?"
    note = (
        "Each word is erased with probability 1/2; the summed scores of the erased words, in the "
        "scale that fits each decision best, against what P(label) loses. Unexplained: the squared "
        "error, as a share of the square of what is lost. Infidelity: the mean squared error (Yeh "
        "et al. 2019). With 95 % bootstrap intervals over sentences."
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
        "alike": Bounds(0, 1, of="lost"),
        "against": Bounds(0, 1, of="rows"),
    }
    columns = (
        Column(
            "unexplained",
            "unexplained",
            "{:.3f}".format,
            "lower",
            interval=True,
            meaning="squared error of the scores, as a share of the square of what is lost",
        ),
        Column(
            "infidelity",
            "infidelity",
            "{:.4f}".format,
            "lower",
            interval=True,
            meaning="mean squared error of the scores, in squared probability",
        ),
        Column(
            "alike",
            "words alike",
            "{:.3f}".format,
            shown=False,
            meaning="unexplained of equal scores for all words",
        ),
        Column("decisions", "decisions", count, shown=False),
        Column(
            "against",
            "against %",
            lambda share: f"{100 * share:.1f}",
            shown=False,
            meaning="share of the decisions whose best scale is negative",
        ),
    )

    def __init__(
        self,
        samples: Few = 50,
        removals: Annotated[Sequence[Removal], Field(min_length=1)] = ("zero", "mean", "attention"),
        sentences: Count | None = None,
        draws: Seed = 0,
    ) -> None:
        self.samples, self.removals = samples, tuple(removals)
        self.sentences, self.draws = sentences, draws

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield the explainer's row under each removal."""
        for removal in self.removals:
            make = partial(self._evidence, job, removal)
            yield self.plan(job, make, explained=True, removal=removal)

    def _evidence(self, job: Job, removal: Removal) -> Evidence:
        explained = job.explained.decisions.count(EVALUATED)
        sentences = min(self.sentences or explained, explained)
        relevances = job.relevance(TEACHER_FORCING)
        sampled = sample(job, Sampling(sentences, self.samples, removal, self.draws))
        # In memory: a few numbers a decision, of the test set alone.
        p_of_sentence, split = read(sampled), job.texts.split(EVALUATED)
        index_of = {int(number): index for index, number in enumerate(split.number)}
        numbers: list[int] = []
        columns: dict[str, list[float]] = {}
        for relevance in relevances:
            # Relevance is of all explained sentences, samples may be of fewer.
            if relevance.number in p_of_sentence:
                index = index_of[relevance.number]
                # Drawn again and not stored: ids and seed decide the draw.
                erased = erased_words(
                    split.source[index], split.target[index], self.samples, self.draws
                )
                sums = errors(relevance, erased, *p_of_sentence[relevance.number])
                numbers += [relevance.number] * len(sums["lost"])
                for name, values in sums.items():
                    columns.setdefault(name, []).extend(values.tolist())
        number_U, summed = by_unit(
            np.array(numbers), **{name: np.array(values) for name, values in columns.items()}
        )
        # Rows of other draws or sentences never stand in one comparison.
        settings = {
            "test sentences": name_sentences(number_U),
            "samples": self.samples,
            "draws": self.draws,
        }
        facts = {SETTINGS: settings, ATTENDS: job.explained.explainer.attends}
        made_by = {"erased": sampled.fingerprint, "relevance": relevances.fingerprint}
        return Evidence(Units(job.texts.test_set, number_U, summed), made_by, facts)

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return means over decisions."""
        decisions_R = sums_R["rows"]
        return {
            "unexplained": ratio(sums_R["error"], sums_R["lost"]),
            "infidelity": ratio(sums_R["error"], decisions_R),
            # Beside it, since the number of erased words alone foretells much of a loss.
            "alike": ratio(sums_R["alike"], sums_R["lost"]),
            "decisions": decisions_R,
            "against": ratio(sums_R["against"], decisions_R),
        }

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return what equal scores have, and whose scores of the two sides do not compare."""
        alike = {
            f"{s.row['nmt']}, removal {s.row['removal']}: equal scores for all words leave "
            f"{s.values['alike']:.3f} unexplained, since the more words are erased the more is "
            "lost; scores that leave as much say nothing of which word."
            for s in scored
            if s.measurement.ok
        }
        names = sorted(
            {
                s.measurement.identity["explainer"]
                for s in scored
                if s.measurement.ok and s.measurement.facts.get(ATTENDS)
            }
        )
        return sorted(alike) + [
            f"{name}: its scores of source and of prefix words are not on one scale; here they are "
            "summed as they stand."
            for name in names
        ]


def errors(
    relevance: SentenceRelevance,
    erased: tuple[np.ndarray, np.ndarray],
    whole_N: np.ndarray,
    erased_RN: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return the mean squared error of each decision's scores, in the scale that fits best, (N,).

    Beside it `alike`, the error of equal scores for all words, `lost`, the mean square of what the
    label loses, and `against`, whether the best scale is negative.

    Args:
        relevance: of one sentence, N decisions.
        erased: of each row, the words that are erased, (R, S) and (R, T).
        whole_N: P(label) with all words.
        erased_RN: with some erased.

    Raises:
        NotApplicable: a word of the source has no relevance.
    """
    source_NS, prefix_NT = relevance.source_TS, relevance.prefix_TT
    if np.isnan(source_NS).any():
        raise NotApplicable("it says nothing of some words that a decision sees")
    # A word that a step cannot see changes nothing there.
    foretold_RN = erased[0] @ source_NS.T + erased[1] @ np.nan_to_num(prefix_NT).T
    seen_NT = np.arange(prefix_NT.shape[1]) < (relevance.first + np.arange(len(whole_N)))[:, None]
    # As numbers: a product of booleans is one too.
    counted_RN = erased[0].sum(axis=1, keepdims=True) + erased[1] @ seen_NT.T.astype(np.float64)
    # In float64, since a difference of like probabilities keeps few digits.
    lost_RN = whole_N.astype(np.float64) - erased_RN
    error_N, scale_N = _fit(foretold_RN, lost_RN)
    return {
        "error": error_N,
        "alike": _fit(counted_RN, lost_RN)[0],
        "lost": np.square(lost_RN).mean(axis=0),
        "against": (scale_N < 0).astype(np.float64),
    }


def _fit(foretold_RN: np.ndarray, lost_RN: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least mean squared error of each decision in any scale, and that scale, (N,)."""
    product_N, square_N = ((foretold_RN * x).mean(axis=0) for x in (lost_RN, foretold_RN))
    # Least squares in one unknown. Scores of 0 foretell nothing in any scale.
    scale_N = np.divide(product_N, square_N, out=np.zeros_like(product_N), where=square_N > 0)
    return np.square(scale_N * foretold_RN - lost_RN).mean(axis=0), scale_N
