"""The stage from weights over the context to attention over coreference links."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.progress import track

from xnmt_bench.corpora.function_words import function_words
from xnmt_bench.explainers.attention import Attention
from xnmt_bench.metrics.coref_attention import CorefScores, Mention, significant
from xnmt_bench.parquet import write_table
from xnmt_bench.report.coref_heatmap import Example
from xnmt_bench.rules.extract import REAL
from xnmt_bench.stages.context_weights import SIDES, ContextWeights, Side
from xnmt_bench.stages.explained import EVALUATED, code_hash
from xnmt_bench.stages.systems import VERSIONS, plain
from xnmt_bench.store import Artefact, write_atomically

EXAMPLES = "examples.json"


class Coreference(ContextWeights):
    """Weights between the mentions of a sentence and those of its context, and their scores."""

    @cached_property
    def coreference(self) -> Artefact:
        """Every link's weight, on each side."""
        wanted = self.config.metric.coref_attention.heatmaps
        recipe = self._recipe() | {"explained": self._explained_id(), "heatmaps": wanted}

        def work(folder: Path) -> dict[str, Any]:
            scores = {side: CorefScores() for side in SIDES}
            examples: dict[Side, list[Example]] = {side: [] for side in SIDES}
            count = len(self.sentences_explained)
            label = f"{self.config.explainer.name}, coreference"
            hidden = not self.options.progress_bar
            for index, sides in track(self.weights(), label, count, disable=hidden):
                for side, blocks in sides.items():
                    self._score(scores[side], side, index, blocks)
                    left = wanted - len(examples[side])
                    drawn = self._examples(side, index, blocks)
                    examples[side] += list(islice(drawn, left))
            described = {side: [asdict(e) for e in examples[side]] for side in SIDES}
            write_atomically(folder / EXAMPLES, json.dumps(described, ensure_ascii=False))
            return {side: _save(scores[side], folder, side) for side in SIDES}

        return self.store.make("coreference", recipe, work)

    @cached_property
    def uniform(self) -> Artefact:
        """The floor: every word attended to alike."""
        sides = SIDES if self.own_context else SIDES[:1]

        def work(folder: Path) -> dict[str, Any]:
            scores = {side: CorefScores() for side in SIDES}
            for index in range(len(self.sentences_explained)):
                for side in sides:
                    parts = self.spoken[side][index - self.depth(EVALUATED, index) : index + 1]
                    total = max(1, sum(len(part.words) for part in parts))
                    even = [
                        np.full((len(parts[-1].words), len(part.words)), 1 / total)
                        for part in parts[-2::-1]
                    ]
                    self._score(scores[side], side, index, even)
            return {side: _save(scores[side], folder, side) for side in SIDES}

        return self.store.make("coreference", self._recipe() | {"kind": "uniform"}, work)

    @property
    def _options(self) -> dict[str, bool]:
        settings = self.config.metric.coref_attention
        return {key: settings[key] for key in ("nearest", "whole_matrix")}

    @property
    def _said(self) -> str:
        """The options that are not the paper's, as a row's name says them."""
        said = [name.replace("_", " ") for name, value in self._options.items() if value]
        return f" ({', '.join(said)})" if said else ""

    def _explained_id(self) -> Any:
        """What decides the weights: stored relevance, or the attention explainer's own options."""
        if isinstance(self.explainer, Attention):
            return [plain(self.config.explainer), code_hash(Attention)]
        return self.explained(REAL, (EVALUATED,)).id

    def _recipe(self) -> dict[str, Any]:
        return {
            "version": VERSIONS["coreference"],
            "translation": self.translation.id,
            "sentences": len(self.sentences_explained),
            "options": self._options,
        }

    def _score(
        self,
        scores: CorefScores,
        side: Side,
        index: int,
        blocks: list[np.ndarray],
    ) -> None:
        spoken, nearest = self.spoken[side], self._options["nearest"]
        language = self.corpus.source_language if side == "source" else self.corpus.target_language
        seen: set[Mention] = set()
        for distance, raw in enumerate(blocks, start=1):
            current, context = spoken[index], spoken[index - distance]
            links = [
                (m, a)
                for m in current.mentions
                for a in context.mentions
                if m.chain == a.chain and not (nearest and m in seen)
            ]
            if nearest:
                # Of several antecedents in one sentence the last is the nearest.
                links = list({m: (m, a) for m, a in links}.values())
                seen |= {m for m, _ in links}
            scores.add(
                index,
                distance,
                significant(raw, self._options["whole_matrix"]),
                current.mentions,
                context.mentions,
                context.words,
                function_words(language),
                links,
            )

    def _examples(self, side: Side, index: int, blocks: list[np.ndarray]) -> Iterator[Example]:
        """The context sentences that a link leads to, ready to be drawn."""
        current = self.spoken[side][index]
        for distance, raw in enumerate(blocks, start=1):
            context = self.spoken[side][index - distance]
            links = [
                (list(m.words), list(a.words))
                for m in current.mentions
                for a in context.mentions
                if m.chain == a.chain
            ]
            if links:
                title = f"{self.explainer_name}, {side} side, sentence {index}, {distance} back"
                weights = significant(raw, self._options["whole_matrix"]).round(4).tolist()
                yield Example(title, current.words, context.words, weights, links)

    def job(self) -> dict[str, Any]:
        """What this job is about; options other than the paper's stand in the explainer's name."""
        job = super().job()
        return job | {"explainer": job["explainer"] + self._said}


def _save(scores: CorefScores, folder: Path, side: Side) -> dict[str, Any]:
    """Writes the links of a side; gives back what is no property of a single link."""
    rows = [asdict(link) for link in scores.links]
    names = ("sentence", "distance", "weight", "naive", "needed", "hard")
    write_table(pa.table({n: [row[n] for row in rows] for n in names}), folder / f"{side}.parquet")
    content = [a.content for a in scores.spread]
    function = [a.function for a in scores.spread]
    return {
        "precision": float(np.mean(scores.precise)) if scores.precise else None,
        "dispersion": float(np.mean(content)) if content else None,
        "dispersion_function": float(np.mean(function)) if function else None,
    }
