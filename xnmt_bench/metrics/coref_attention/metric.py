"""Attention over coreference links as a metric (Dinarelli et al. 2024)."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.progress import track

from xnmt_bench.corpora.function_words import function_words
from xnmt_bench.corpora.sentence import SIDES
from xnmt_bench.errors import NotApplicable, StoreError
from xnmt_bench.metrics.coref_attention.context import ContextWeights
from xnmt_bench.metrics.coref_attention.examples import Example, heatmap_figure, page_section
from xnmt_bench.metrics.coref_attention.links import (
    SUBSETS,
    CorefScores,
    PlacedMention,
    coref_scores,
    significant,
)
from xnmt_bench.metrics.measurement import Evidence, Measurement, Planned, Scored
from xnmt_bench.metrics.metric import Column, Key, Section, SumMetric, count, hundredths, percent
from xnmt_bench.metrics.units import Units
from xnmt_bench.pipeline.job import Job
from xnmt_bench.store import Artefact, verified, write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)
EXAMPLES = "examples.json"
Weights = Iterator[tuple[int, dict[str, list[np.ndarray]]]]


def three_digits(value: float) -> str:
    """A mean weight."""
    return f"{value:.3f}"


class CorefAttention(SumMetric):
    """Weights between a sentence's mentions and those of their chain in a context sentence.

    A unit is a sentence; its sums are over its links, its mentions and its words.

    Args:
        nearest: of a chain's mentions, only the one nearest before.
        whole_matrix: scale by the greatest weight of the matrix, not of each current word.
        heatmaps: of each side: the first context sentences that a link leads to.
    """

    name = "coref_attention"
    title = "Attention over coreference links"
    note = (
        "Of links between a mention and one of its chain in a context sentence: the share with the "
        "greatest weight of that sentence, the share with a significant weight, the mean weight; "
        "with 95 % bootstrap intervals over sentences; higher is better. Precision: of mentions "
        "with an antecedent in the context and any significant attention there, how many look at a "
        "right one. Dispersion: attended words a word; beside it function words and punctuation. "
        "Context needed: as annotated; elsewhere a heuristic, the current sentence names no "
        "antecedent. Hard: a content word of the mention is none of the antecedent's."
    )
    keys = (
        Key("side", "side", "{} side"),
        Key("links_of", "links of", "{} links", order=tuple(SUBSETS)),
        Key("explainer", "explainer"),
        Key("seed", "seed"),
    )
    columns = (
        Column("nonzero", "non-zero %", hundredths, "higher", interval=True),
        Column("max_weight", "max-weight %", hundredths, "higher", interval=True),
        Column("average", "average", three_digits, "higher", interval=True),
        Column("naive", "naive %", hundredths),
        Column("precision", "precision %", hundredths, "higher", interval=True),
        Column("dispersion", "dispersion"),
        Column("dispersion_function", "function words"),
        Column("links", "links", count),
    )

    def __init__(
        self, nearest: bool = False, whole_matrix: bool = False, heatmaps: int = 3
    ) -> None:
        self.nearest, self.whole_matrix, self.heatmaps = nearest, whole_matrix, heatmaps

    def measure(self, job: Job) -> Iterator[Planned]:
        """Weights of the explainer, and uniform ones as a floor, by side and kind of link."""
        for line in job.corpus.counts():
            log.info("%s", line)
        context = ContextWeights(job)
        # Options that are not the paper's stand in the explainer's name.
        options = {"nearest": self.nearest, "whole matrix": self.whole_matrix}
        changed = ", ".join(name for name, value in options.items() if value)
        suffix = f" ({changed})" if changed else ""
        explainer = job.explained_identity()["explainer"]
        kinds: tuple[tuple[str, dict[str, Any], Callable[[], Artefact]], ...] = (
            (explainer, {}, partial(self.weighed, job, context)),
            ("uniform", {"seed": ""}, partial(self.uniform, job, context)),
        )
        applies = True
        for name, keys, made in kinds:
            if not applies:  # a floor alone says nothing
                return
            for side in SIDES:
                row = keys | {"side": side, "explainer": name + suffix}
                make = partial(self._evidence, context, made, side)
                yield self.plan(job, partial(make, "all"), explained=True, **row, links_of="all")
                try:
                    subsets = made().facts["subsets"][side]
                except NotApplicable:
                    subsets, applies = [], False
                for subset in subsets:
                    yield self.plan(
                        job, partial(make, subset), explained=True, **row, links_of=subset
                    )

    def _evidence(
        self, context: ContextWeights, made: Callable[[], Artefact], side: str, subset: str
    ) -> Evidence:
        artefact = made()
        units = Units.load(artefact.path / f"{side} {subset}.parquet")
        facts = {"match_rate": context.match_rate}
        files = {}
        if subset == "all" and (artefact.path / EXAMPLES).exists():
            files["examples"] = str(artefact.path / EXAMPLES)
        return Evidence(units, {"coreference": artefact.fingerprint}, facts, files)

    def weighed(self, job: Job, context: ContextWeights) -> Artefact:
        """Every link's weight by the explainer, on each side."""
        _ = context.sentences  # says first what does not apply
        return self._made(job, context, context.weights, context.fingerprint, self.heatmaps)

    def uniform(self, job: Job, context: ContextWeights) -> Artefact:
        """The same with every word attended to alike."""
        _ = context.sentences
        return self._made(job, context, context.uniform, "uniform", 0)

    def _made(
        self,
        job: Job,
        context: ContextWeights,
        weights: Callable[[], Weights],
        kind: str,
        heatmaps: int,
    ) -> Artefact:
        def work(folder: Path) -> dict[str, Any]:
            scores = {side: CorefScores() for side in SIDES}
            examples: dict[str, list[Example]] = {side: [] for side in SIDES}
            name = "uniform" if kind == "uniform" else job.explained_identity()["explainer"]
            for index, sides in track(
                weights(), f"{name}, coreference", len(context.sentences), disable=not job.progress
            ):
                for side, blocks in sides.items():
                    self._score(scores[side], job, context, side, index, blocks)
                    drawn = self._examples(context, side, index, blocks, name)
                    examples[side] += islice(drawn, heatmaps - len(examples[side]))
            if heatmaps:
                described = {side: [asdict(e) for e in examples[side]] for side in SIDES}
                write_atomically(folder / EXAMPLES, json.dumps(described, ensure_ascii=False))
            return {"subsets": {side: self._save(scores[side], folder, side, context, job)
                                for side in SIDES}}  # fmt: skip

        return job.store.make(
            "coreference",
            work,
            version=3,
            kind=kind,
            translation=job.translations().made("test"),
            sentences=len(context.sentences),
            nearest=self.nearest,
            whole_matrix=self.whole_matrix,
            heatmaps=heatmaps,
        )

    def _save(
        self, scores: CorefScores, folder: Path, side: str, context: ContextWeights, job: Job
    ) -> list[str]:
        """Writes the units of each kind of link; names those that there are, `all` apart."""
        there = []
        for subset, chosen in SUBSETS.items():
            if subset == "all" or any(map(chosen, scores.links)):
                units = scores.units(job.texts.test_set, context.numbers, subset)
                units.save(folder / f"{side} {subset}.parquet")
                there.append(subset)
        return there[1:]

    def _score(
        self,
        scores: CorefScores,
        job: Job,
        context: ContextWeights,
        side: str,
        index: int,
        blocks: list[np.ndarray],
    ) -> None:
        spoken = context.spoken[side]
        language = getattr(job.corpus, f"{side}_language")
        linked: set[PlacedMention] = set()
        for distance, raw_IN in enumerate(blocks, start=1):
            current, earlier = spoken[index], spoken[index - distance]
            links = [
                (m, a)
                for m in current.mentions
                for a in earlier.mentions
                if m.chain == a.chain and not (self.nearest and m in linked)
            ]
            if self.nearest:
                # Of several antecedents in one sentence the last is the nearest.
                links = list({m: (m, a) for m, a in links}.values())
                linked |= {m for m, _ in links}
            scores.add(
                index,
                distance,
                significant(raw_IN, self.whole_matrix),
                current.mentions,
                earlier.mentions,
                earlier.words,
                function_words(language),
                links,
            )

    def _examples(
        self, context: ContextWeights, side: str, index: int, blocks: list[np.ndarray], name: str
    ) -> Iterator[Example]:
        """The context sentences that a link leads to, ready to be drawn."""
        current = context.spoken[side][index]
        for distance, raw_IN in enumerate(blocks, start=1):
            earlier = context.spoken[side][index - distance]
            links = [
                (list(m.words), list(a.words))
                for m in current.mentions
                for a in earlier.mentions
                if m.chain == a.chain
            ]
            if links:
                title = f"{name}, {side} side, sentence {index}, {distance} back"
                weights = significant(raw_IN, self.whole_matrix).round(4).tolist()
                yield Example(title, current.words, earlier.words, weights, links)

    def of_sums(self, sums_R: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """See `links.coref_scores`."""
        return coref_scores(sums_R)

    def notes(self, scored: Sequence[Scored]) -> list[str]:
        """How much of the annotation the systems' own translations carry."""
        rates = {}
        for m in (s.measurement for s in scored if s.measurement.ok):
            where = " ".join(m.identity[c] for c in ("corpus", "lang_pair", "nmt"))
            rates[where, m.model] = m.facts["match_rate"]
        return [
            f"{where}: its translations have {percent(rate)} of the words of the reference's "
            "mentions."
            for (where, _), rate in rates.items()
        ]

    def sections(self, measurements: Sequence[Measurement]) -> list[Section]:
        """Heatmaps of each explainer's first links."""
        examples = [example for _, example in _stored_examples(measurements)]
        return [page_section(examples)] if examples else []

    def figures(self, measurements: Sequence[Measurement]) -> Iterator[tuple[str, Figure]]:
        """The same as files."""
        for name, example in _stored_examples(measurements):
            yield name, heatmap_figure(example)


def _stored_examples(measurements: Sequence[Measurement]) -> Iterator[tuple[str, Example]]:
    """Every example that is in the store, with a name for its file."""
    for m in (m for m in measurements if "examples" in m.files):
        try:
            text = verified(Path(m.files["examples"])).read_text(encoding="utf-8")
        except (OSError, StoreError) as error:
            log.warning("no heatmaps: %s", error)
            continue
        who = [str(m.identity[c]) for c in ("corpus", "nmt", "explainer", "seed", "side")]
        name = re.sub(r"\W+", "_", "_".join(part for part in (*who, m.model[:6]) if part))
        for number, described in enumerate(json.loads(text)[m.identity["side"]]):
            yield f"{name}_{number}", Example(**described)
