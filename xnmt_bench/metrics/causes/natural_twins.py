"""Natural twins: decisions that two systems make alike, each because of another word.

Two systems of one vocabulary read the same contexts. Where both choose the same word, the same
substitutes replace each word of the context. On one half of the substitutes, a is the word whose
replacement moves system A most, and b the word that moves B most. Where they differ by a margin in
both systems, A and B are twins at this decision: a judge that sees the model has to prefer a in A
and b in B, while text, label and words are the same. The other half of the substitutes measures
the effects anew, since the greatest of several noisy numbers is too great (regression to the mean).

Where the causes differ by the least margin or more, both words are also erased, by each removal.

Shapes: H halves of the substitutes, W words of a context: the source's and then the target's; C
decisions whose causes differ.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
import pyarrow as pa

from xnmt_bench.corpora.exchange.exchangeable import EXCHANGED, HEURISTIC, HEURISTIC_NOTE
from xnmt_bench.corpora.planted.natural import FIRST, SECOND
from xnmt_bench.corpora.sentence import SIDES, Sentence
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.vocabulary.subwords import Subwords
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.judges.masked import VERSION as MASKED
from xnmt_bench.measuring.measurement import Evidence, Measurement, PlannedRow, ScoredRow
from xnmt_bench.measuring.metric import (
    Column,
    Further,
    Key,
    SumMetric,
    TableRow,
    count,
    hundredths,
    ratio,
)
from xnmt_bench.measuring.sentence_sums import evidence_of_sentences
from xnmt_bench.measuring.units import Bounds, by_unit
from xnmt_bench.metrics.causes.effects import PREFIX, Halves, Interventions
from xnmt_bench.metrics.causes.erased import Erasure, erase_words
from xnmt_bench.metrics.causes.sentences import tied_sentences
from xnmt_bench.nmt.switched import Removal, allows
from xnmt_bench.options import Count, Part, Seed, Text
from xnmt_bench.parquet import read_table, write_table
from xnmt_bench.pipeline.decision_table import Columns, load_decisions, store_decisions
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.job import Job
from xnmt_bench.rules.table import shards
from xnmt_bench.store import Stage

SHARD = 50  # sentences
MARGINS = (0.1, 0.2, 0.3)  # in total variation
RELIABLE = 0.8  # correlation of both halves; chosen decisions below it are not used
SYSTEMS = (FIRST, SECOND)
HALVES = "chosen", "measured"  # by which an effect is measured
ERASED = {removal: f"erased_{removal}" for removal in get_args(Removal)}
SUMS = [
    f"{name} {margin}"
    for margin in MARGINS
    for name in ("chosen", "measured", "words", "x", "y", "xx", "yy", "xy")
]
FILE = "twins.parquet"
three_digits = "{:.3f}".format


@dataclass(frozen=True)
class Disagreement:
    """How two systems disagree on what causes a decision.

    Attributes:
        a, b: the word of the greatest effect in the first system and in the second one, by the
            half of the substitutes that chooses.
        effect_2H2: effects by system, half, and word (a and b).
    """

    a: int
    b: int
    effect_2H2: np.ndarray

    @property
    def own_less_other_2H(self) -> np.ndarray:
        """The effect of a system's own cause less that of the other's, by system and half."""
        return subtract_other(self.effect_2H2)

    @property
    def margin(self) -> float:
        """The lesser difference of both systems, by the half that chooses."""
        return float(self.own_less_other_2H[:, 0].min())


def subtract_other(effect_2X2: np.ndarray) -> np.ndarray:
    """Return the effect of each system's own cause less that of the other's, (2, X).

    Args:
        effect_2X2: effects by system, half or decision (X), and word (a and b).
    """
    a_less_b_2X = effect_2X2[..., 0] - effect_2X2[..., 1]
    return a_less_b_2X * np.array([[1], [-1]])


def compare_causes(effect_2HW: np.ndarray) -> Disagreement | None:
    """Return how two systems disagree on the cause of one decision; None where they agree.

    Args:
        effect_2HW: effects in both systems by each half, the one that chooses first; NaN where
            unknown. Only words that are known everywhere count.
    """
    known_W = ~np.isnan(effect_2HW).any(axis=(0, 1))
    if not known_W.any():
        return None
    a, b = np.where(known_W, effect_2HW[:, 0], -np.inf).argmax(axis=-1).tolist()
    return None if a == b else Disagreement(a, b, effect_2HW[..., [a, b]])


class NaturalTwins(SumMetric):
    """How many decisions two systems make alike because of different words.

    A unit is a sentence; its sums are over the decisions in which both systems choose the same
    word. The chosen ones become a test set for judges by `corpus.twins`.

    Args:
        other_seed: the second system is trained as the first one, with this `nmt.seed`.
        other_path: the folder of a trained second system, in place of `other_seed`.
        margin: of the effects, in both systems, that decisions of the test set have; one of
            `MARGINS`.
        substitutes: of a word, at most, in each half.
        fewest: decisions that a test set needs.
        sentences: test sentences; null for all that are explained.

    Raises:
        XnmtError: the margin is another one.
    """

    name = "natural_twins"
    setting_options = ("substitutes", "margin")
    needs = "a second system of the same vocabulary: metric.natural_twins.other_seed or other_path"
    title = "Natural twins: the same decision because of different words"
    note = (
        "Of the decisions in which both systems choose the same word: in how many a is the word "
        "whose replacement moves the first system most, and another word, b, moves the second one "
        "most, by a margin in total variation in each. Chosen by half of the substitutes. "
        "Measured: by the other half, how much more its own cause moves a system than the other "
        "system's does, a mean over chosen decisions and both systems. Erased: the same where the "
        "word gets the mean embedding; the CSV has the other removals. Reliability: correlation of "
        "both halves' effects, over all words of the chosen decisions. With 95 % bootstrap "
        "intervals over sentences."
    )
    keys = (Key("other", "second system"),)
    unit_bounds: ClassVar[Mapping[str, Bounds]] = {
        "rows": Bounds(1),
        "chosen *": Bounds(0, 1, of="rows"),
        **{f"{name} *": Bounds(-1, 1, of="chosen *") for name in ("measured", *ERASED.values())},
        "words *": Bounds(0),
        **{f"{name} *": Bounds(0, 1, of="words *") for name in ("x", "y", "xx", "yy", "xy")},
    }
    columns = (
        Column("decisions", "decisions", count).means("both systems choose the same word"),
        *Column("chosen_{}", "chosen, {}", count)
        .means("decisions whose causes differ by a margin of {}")
        .of_each(MARGINS),
        *Column("share_{}", "share %, {}", hundredths, interval=True)
        .means("the same as a share of all decisions")
        .of_each(MARGINS),
        *Column("measured_{}", "measured, {}", three_digits, interval=True)
        .means("effect of the own cause less that of the other's, by the half that chose nothing")
        .of_each(MARGINS),
        *(
            column
            for removal, name in ERASED.items()
            for column in Column(
                f"{name}_{{}}",
                f"erased ({removal}), {{}}",
                three_digits,
                interval=True,
                shown=removal == "mean",
            )
            .means(f"effect of the own cause less that of the other's, by removal={removal}")
            .of_each(MARGINS)
        ),
        *Column("reliability_{}", "reliability, {}", three_digits, interval=True)
        .means("correlation of effects by both halves of the substitutes, margin {}")
        .of_each(MARGINS),
    )
    compared = "nmt"
    reads_details = True  # by `corpus.twins`

    def __init__(
        self,
        other_seed: Seed | None = None,
        other_path: Text | None = None,
        margin: Part = 0.2,
        substitutes: Count = 4,
        fewest: Count = 200,
        sentences: Count | None = None,
    ) -> None:
        if margin not in MARGINS:  # whose reliability is known
            expected = ", ".join(f"{each:g}" for each in MARGINS)
            raise XnmtError(f"metric.{self.name}.margin={margin:g}: should be one of {expected}")
        self.other_seed, self.other_path = other_seed, other_path
        self.margin, self.substitutes = margin, substitutes
        self.fewest, self.sentences = fewest, sentences

    def measure(self, job: Job) -> Iterator[PlannedRow]:
        """Yield the row of the job's system and the second one."""
        other = self._open_other(job)
        # Not the path, since results travel.
        name = f"seed {self.other_seed}" if self.other_path is None else Path(self.other_path).name
        make = partial(self._evidence, job, other)
        yield self.plan(
            job,
            make,
            lambda: self._effects(job, other),
            lambda: Further(content={"other": other.system.fingerprint}),
            other=name,
        )

    def _open_other(self, job: Job) -> Job:
        """Return the job of the second system.

        Raises:
            NotApplicable: none is configured, or two, a seed of a system that is opened, or the
                first system's own.
        """
        option = f"metric.{self.name}.other"
        if (self.other_seed is None) == (self.other_path is None):
            raise NotApplicable(f"{option}_seed or {option}_path names the second system; give one")
        if self.other_path is not None:
            return job.changed({"nmt": {"path": self.other_path}})
        if job.settings.nmt.path:
            raise NotApplicable(f"{option}_seed: nmt.path is not trained here; give {option}_path")
        if self.other_seed == job.settings.nmt.seed:
            raise NotApplicable(f"{option}_seed={self.other_seed} is the first system's seed, too")
        return job.changed({"nmt": {"seed": self.other_seed}})

    def _effects(self, job: Job, other: Job) -> list[Stage]:
        """Return the effects of each word on each system's decisions.

        One system's are the same beside any other, and are made once.

        Raises:
            NotApplicable: their vocabularies differ, or the test set holds chosen decisions.
        """
        if job.corpus.twins:
            raise NotApplicable("corpus.twins holds decisions that were chosen by this metric")
        for side, *both in zip(SIDES, job.system.subwords, other.system.subwords, strict=True):
            if both[0].fingerprint != both[1].fingerprint:
                raise NotApplicable(f"the second system has another {side} vocabulary")
        sentences = job.explained.decisions.count(EVALUATED, self.sentences)
        return [self._effects_of(each, sentences) for each in (job, other)]

    def _effects_of(self, job: Job, sentences: int) -> Stage:
        most = len(HALVES) * self.substitutes

        def interventions() -> Interventions:
            return Interventions(job.system.model, job.exchangeable.categories, most)

        def compute(shard: list[tuple[int, Sentence]]) -> list[Mapping[str, Any]]:
            vocabulary = job.system.model.target_subwords
            return [
                columns_of(vocabulary, number, sentence, halves)
                for (number, sentence), halves in zip(
                    shard, interventions().halves(shard), strict=True
                )
            ]

        return store_decisions(
            job,
            "effects_by_halves",
            "effects by halves of the substitutes",
            lambda: tied_sentences(job, sentences, interventions()),
            compute,
            shard=SHARD,
            sentences=sentences,
            version=2,
            encoded=job.texts.encoded[EVALUATED],
            substitutes=self.substitutes,
            exchangeable=job.exchangeable,
        )

    @property
    def _least(self) -> float:
        """The margin from which on causes differ at all."""
        return min(self.margin, *MARGINS)

    def _erase(
        self, job: Job, differing: Sequence[Mapping[str, Any]], effects: Sequence[Stage]
    ) -> Stage:
        """Return the effects of erasing a and b in one system, by each removal that it allows.

        Args:
            job: of the system.
            differing: decisions whose causes differ, as `_describe` returns them.
            effects: the artefacts of both systems that they were found in.
        """
        split = job.texts.split(EVALUATED)

        def list_erasures() -> Iterator[Erasure]:
            for row in differing:
                words = [(SIDES.index(row[f"{word}_side"]), row[word]) for word in "ab"]
                yield Erasure(split.index_of[row["sentence"]], row["step"], words)

        def compute(erasures: list[Erasure]) -> list[Mapping[str, Any]]:
            model = job.system.model
            removals = [r for r in get_args(Removal) if allows(model, r)]
            columns = {ERASED[r]: erase_words(model, split, erasures, r) for r in removals}
            return [
                {name: [effect_C2[c]] for name, effect_C2 in columns.items()}
                for c in range(len(erasures))
            ]

        return store_decisions(
            job,
            "natural_twins_erased",
            "effects of erasing causes",
            list_erasures,
            compute,
            shard=SHARD,
            sentences=job.explained.decisions.count(EVALUATED, self.sentences),
            version=1,
            masked=MASKED,
            least=self._least,
            first=effects[0],
            second=effects[1],
        )

    def _evidence(self, job: Job, other: Job) -> Evidence:
        """Return sums by sentence, and the chosen decisions in a file if they are enough.

        Raises:
            NotApplicable: as `_effects`; or the systems read unlike sentences, or nowhere choose
                the same word.
        """
        artefacts = self._effects(job, other)
        # Shards have the same sentences then, so that they are compared one by one.
        numbers_of = [each.texts.split(EVALUATED).number for each in (job, other)]
        if not np.array_equal(numbers_of[0], numbers_of[1]):
            raise NotApplicable("one of the two systems cannot read all sentences of the other")
        systems = {
            name: j.system.fingerprint for name, j in zip(SYSTEMS, (job, other), strict=True)
        }
        numbers, places, sums = list[int](), list[int](), list[dict[str, float]]()
        differing: list[dict[str, Any]] = []
        # Sentences have unlike numbers of words, so that their effects do not stack.
        for paths in zip(*(shards(a.path, EVALUATED) for a in artefacts), strict=True):
            for row, effect_2HW in decisions_alike(*(read_table(p).to_pylist() for p in paths)):
                disagreement = compare_causes(effect_2HW)
                if disagreement and disagreement.margin >= self._least:
                    places.append(len(numbers))
                    sums.append(_sum(effect_2HW, disagreement))
                    differing.append(_describe(row, disagreement) | systems)
                numbers.append(row["sentence"])
        if not numbers:
            raise NotApplicable("the two systems nowhere choose the same word")
        stages: dict[str, Any] = dict(zip(("effects", "other_effects"), artefacts, strict=True))
        columns_C = {name: np.array([row[name] for row in sums]) for name in SUMS}
        if differing:
            erased = [self._erase(each, differing, artefacts) for each in (job, other)]
            stages |= zip(("erased", "other_erased"), erased, strict=True)
            columns_C |= _sum_erased(differing, [load_decisions(stage) for stage in erased])
        # Decisions whose causes do not differ have no part in the sums.
        columns = {name: np.zeros(len(numbers)) for name in columns_C}
        for name, column in columns.items():
            column[places] = columns_C[name]
        twins = [row for row in differing if row["margin"] >= self.margin]

        def write(folder: Path) -> None:
            write_table(pa.Table.from_pylist(twins), folder / FILE)

        files = {}
        if len(twins) >= self.fewest:
            file = job.store.stage(
                "natural_twins_chosen", write, version=3, margin=self.margin, **stages
            )
            files[self.name] = file.path / FILE
        evidence = evidence_of_sentences(
            job,
            *by_unit(np.array(numbers), **columns),
            {name: stage.fingerprint for name, stage in stages.items()},
            {EXCHANGED: job.exchangeable.rule},
        )
        return replace(evidence, files=files)

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return counts, shares, effects and correlations at each margin."""
        results = {"decisions": sums_R["rows"]}
        for margin in MARGINS:
            chosen, n, x, y, xx, yy, xy = (
                sums_R[f"{name} {margin}"]
                for name in ("chosen", "words", "x", "y", "xx", "yy", "xy")
            )
            # Rounding may leave a little below 0 where all effects are equal.
            variances = np.maximum(n * xx - x**2, 0) * np.maximum(n * yy - y**2, 0)
            results |= {
                f"chosen_{margin}": chosen,
                f"share_{margin}": ratio(chosen, sums_R["rows"]),
                **{
                    f"{name}_{margin}": ratio(sums_R[f"{name} {margin}"], chosen)
                    for name in ("measured", *ERASED.values())
                    if f"{name} {margin}" in sums_R
                },
                f"reliability_{margin}": ratio(n * xy - x * y, np.sqrt(variances)),
            }
        return results

    def notes(self, scored: Sequence[ScoredRow]) -> list[str]:
        """Return which file has the chosen decisions of each row, and whether they can be used."""
        measured = [s for s in scored if s.measurement.ok]
        by_heuristic = any(s.measurement.settings.get(EXCHANGED) == HEURISTIC for s in measured)
        notes = [HEURISTIC_NOTE] if by_heuristic else []
        for s in measured:
            m, margin = s.measurement, s.measurement.settings["margin"]
            pair = f"{m.identity['nmt']} and {m.identity['other']}"
            if self.name not in m.files:
                counts = f"{s.values[f'chosen_{margin}']:,.0f} of {s.values['decisions']:,.0f}"
                notes.append(
                    f"{pair}: no test set for judges, since {counts} decisions have causes that "
                    f"differ by {margin:g}."
                )
                continue
            rows = len(read_table(m.file(self.name), ["step"]))
            notes.append(f"{pair}: corpus.twins={self._file_name(m)}.csv has {rows:,} decisions.")
            reliability = s.values[f"reliability_{margin}"]
            if reliability < RELIABLE:
                notes.append(
                    f"{pair}: not to be used, since the reliability {reliability:.3f} of its "
                    f"decisions is below {RELIABLE:g}."
                )
        return notes

    def details(self, measurements: Sequence[Measurement]) -> Iterator[tuple[str, list[TableRow]]]:
        """Yield the chosen decisions of each row, as `corpus.twins` reads them."""
        for m in measurements:
            if m.ok and self.name in m.files:
                yield self._file_name(m), read_table(m.file(self.name)).to_pylist()

    def _file_name(self, m: Measurement) -> str:
        margin = f"{m.settings['margin']:g}"
        return f"{self.name}_{m.model[:6]}_{m.content['other'][:6]}_{margin}"


def columns_of(
    vocabulary: Subwords, number: int, sentence: Sentence, halves: Halves
) -> Mapping[str, Any]:
    """Return a system's decisions on a sentence, and the effects of its words, as columns.

    Args:
        vocabulary: the target's.
        number: of the sentence.
        sentence: itself.
        halves: the effects.
    """
    words, clean = split_words(sentence.target), halves.clean
    rows, targets = list[int](), list[str]()
    for n, (step, word, label) in enumerate(
        zip(clean.step_N.tolist(), clean.word_N.tolist(), halves.label_N.tolist(), strict=True)
    ):
        # The decision becomes a sentence of its own, whose last word is the label. That leaves out
        # labels that go on with a word, or end the sentence.
        target = " ".join([*words[:word], vocabulary.decode([label])])
        if vocabulary.encode(target) == [*clean.ids[PREFIX][:step], label]:
            rows.append(n)
            targets.append(target)
    return {
        "sentence": np.full(len(rows), number),
        "step": clean.step_N[rows],
        "label": halves.label_N[rows],
        "source": [sentence.source] * len(rows),
        "target": targets,
        **{half: [*x[rows]] for half, x in zip(HALVES, halves.effect_HNW, strict=True)},
    }


def decisions_alike(
    first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], np.ndarray]]:
    """Yield the decisions in which two systems choose the same word, and the effects (2, H, W).

    Args:
        first: rows of the first system, with the columns of `columns_of`.
        second: rows of the second one.
    """
    decision = itemgetter("sentence", "step", "label")
    of_second = {decision(row): row for row in second}
    for row in first:
        if other := of_second.get(decision(row)):
            yield row, np.array([[r[half] for half in HALVES] for r in (row, other)], dtype=float)


def _sum(effect_2HW: np.ndarray, disagreement: Disagreement) -> dict[str, float]:
    """Return one decision's part in `SUMS`."""
    known_W = ~np.isnan(effect_2HW).any(axis=(0, 1))
    x, y = (effect_2HW[:, half][:, known_W].ravel() for half in (0, 1))
    measured = disagreement.own_less_other_2H[:, 1].mean()
    values = (1, measured, len(x), x.sum(), y.sum(), x @ x, y @ y, x @ y)
    chosen = [disagreement.margin >= margin for margin in MARGINS]
    parts = (float(is_chosen * value) for is_chosen in chosen for value in values)
    return dict(zip(SUMS, parts, strict=True))


def _sum_erased(
    differing: Sequence[dict[str, Any]], tables: Sequence[Columns]
) -> dict[str, np.ndarray]:
    """Return the parts (C,) of decisions in the sums of erased effects, which are added to them.

    Args:
        differing: the decisions, as `_describe` returns them.
        tables: effects by removal in both systems. One that a system lacks is left out.
    """
    sums = {}
    margin_C = np.array([row["margin"] for row in differing])
    for name in (n for n in ERASED.values() if all(n in table for table in tables)):
        effect_2C2 = np.stack([table[name] for table in tables])
        own_less_other_C = subtract_other(effect_2C2).mean(0)
        for margin in MARGINS:
            sums[f"{name} {margin}"] = (margin_C >= margin) * own_less_other_C
        for c, row in enumerate(differing):
            row |= _name_effects(name, effect_2C2[:, c])
    return sums


def _describe(row: Mapping[str, Any], disagreement: Disagreement) -> dict[str, Any]:
    """Return a chosen decision as `corpora.planted.natural` reads it, with its effects."""
    words, described = len(split_words(row["source"])), dict[str, Any]()
    for name, place in (("a", disagreement.a), ("b", disagreement.b)):
        side, start = (SIDES[0], 0) if place < words else (SIDES[1], words)
        described |= {f"{name}_side": side, name: place - start}
    # Drawn, so that a judge that sees nothing prefers neither role.
    role = random.Random(f"{row['sentence']}/{row['step']}/role").choice(SYSTEMS)
    described |= {"link_of": role, "margin": disagreement.margin}
    for h, half in enumerate(HALVES):
        described |= _name_effects(half, disagreement.effect_2H2[:, h])
    return {name: row[name] for name in ("sentence", "step", "source", "target")} | described


def _name_effects(measure: str, effect_22: np.ndarray) -> dict[str, float]:
    """Return effects by system and word (a and b), each with its name in the file."""
    names = (f"{system}_{word}_{measure}" for system in SYSTEMS for word in "ab")
    return dict(zip(names, effect_22.ravel().tolist(), strict=True))
