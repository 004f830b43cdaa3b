"""The stage from texts to a system's decisions on them, for all explainers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from proxies.data import VisibleWords
from xnmt_bench.corpora.sentence import Split
from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import SPECIAL, current_span
from xnmt_bench.engine import make_shards
from xnmt_bench.errors import XnmtError
from xnmt_bench.lazy import Lazy
from xnmt_bench.pipeline.outputs import Translations
from xnmt_bench.pipeline.settings import RulesSettings
from xnmt_bench.registry import unknown
from xnmt_bench.rules.extract import (
    LABELLING,
    REAL,
    TEACHER_FORCING,
    Scenario,
    label,
)
from xnmt_bench.rules.table import is_finished, read_columns, shard_paths, shards
from xnmt_bench.store import Stage, Store, Work


class Decisions(Lazy):
    """A system's decisions on texts.

    Args:
        extraction: how decisions are explained, and how many.
        store: where labels go.
        translations: the texts, whose decisions, and what it makes of them in real decoding.
        progress: show a bar.
    """

    def __init__(
        self,
        extraction: RulesSettings,
        store: Store,
        translations: Translations,
        progress: bool,
    ) -> None:
        self.extraction, self._store, self.progress = extraction, store, progress
        self._translations = translations
        self.system, self.texts = translations.system, translations.texts

    def count(self, name: Split, most: int | None = None) -> int:
        """Return how many sentences of a split are explained; `most` at most, if given."""
        configured = getattr(self.extraction, f"{name}_sentences")
        available = len(self.texts.split(name))
        return min(n for n in (configured, available, most) if n is not None)

    def split(self, name: Split, scenario: Scenario, sentences: int | None = None) -> EncodedSplit:
        """Return a split in the order of explanation; its targets' prefixes are the contexts.

        Args:
            name: of the split.
            scenario: where contexts come from.
            sentences: how many are needed; those that are explained, if not given. In real decoding
                those are fewer whose translation cannot be read.
        """
        if scenario == REAL:
            return self._translations.split(name, sentences or self.count(name))
        return self.texts.drawn(name)

    def count_readable(self, name: Split, scenario: Scenario, sentences: int | None = None) -> int:
        """Return how many of a split's first sentences `split` has; its arguments."""
        return min(sentences or self.count(name), len(self.split(name, scenario, sentences)))

    def describe_left_out(self, name: Split, scenario: Scenario) -> list[str]:
        """Return a doubt about explained sentences that were left out; empty if there are none."""
        if scenario != REAL:
            return []
        return self._translations.describe_left_out(name, self.count(name))

    def decided(
        self, name: Split, scenario: Scenario, sentences: int | None = None
    ) -> dict[str, Any]:
        """Return what decides contexts and labels: a part of recipes.

        Raises:
            XnmtError: the scenario is unknown.
        """
        if scenario not in LABELLING:
            raise XnmtError(unknown("scenario", scenario, LABELLING))
        count = sentences or self.count(name)
        recipe: dict[str, Any] = {
            "model": self.system,
            "encoded": self.texts.encoded[name],
            "scenario": scenario,
            f"{name}_sentences": count,
        }
        if name == "train":
            # Training sentences are drawn, test sentences are the first ones.
            recipe["drawn"] = self.texts.seed
        if scenario == REAL:
            recipe[f"{name}_translation"] = self._translations.made(name, count)
        return recipe

    def labels(self, name: Split, scenario: Scenario, sentences: int | None = None) -> Stage:
        """Return the labels of a split's first sentences in the order in which it is explained.

        Args:
            name: of the split.
            scenario: where contexts and labels come from.
            sentences: how many; those that are explained, if not given.
        """
        count, options = sentences or self.count(name), self.extraction

        def work(folder: Path) -> None:
            readable = self.count_readable(name, scenario, count)

            def make(numbers: Sequence[int]) -> Iterator[int]:
                split, model = self.split(name, scenario, count), self.system.model
                return label(model, split, readable, options, folder / name, scenario, numbers)

            paths = shard_paths(folder, name, options.shards(readable))
            title = f"labels, {name}"
            make_shards(folder, name, paths, make, title, self.progress, is_finished)

        return self._store.stage(
            "labels",
            work,
            version=4,
            amount=Work(self.system.name, count, "sentences"),
            split=name,
            **self.decided(name, scenario, count),
            # Part of the recipe, since readers find a sentence by the size of shards.
            shard_sentences=options.shard_sentences,
        )

    @property
    def compared_labels(self) -> Stage:
        """The labels that `agreement` compares with the targets' own words."""
        return self.labels("test", TEACHER_FORCING)

    @cached_property
    def agreement(self) -> dict[str, float]:
        """How often the system says the target's own word, behind the target's earlier words.

        Returns:
            `right`, that share of the explained test decisions; and `constant`, the share that the
            target's most frequent word would have.
        """
        paths = shards(self.compared_labels.path, "test")
        label_N = np.concatenate([read_columns(path, ["label"])["label"] for path in paths])
        targets = self.split("test", TEACHER_FORCING).target
        ids = [targets[i] for i in range(self.count("test"))]
        gold_N = np.concatenate([of[slice(*current_span(of))] for of in ids])
        right, constant = (label_N == gold_N).mean(), np.bincount(gold_N).max() / len(gold_N)
        return {"right": float(right), "constant": float(constant)}

    def visible_words(self, scenario: Scenario, sentences: int) -> VisibleWords:
        """Return the training decisions with all words that each can see, to draw rules from."""
        folder = self.labels("train", scenario, sentences).path
        names = ("sentence", "step", "label")
        # Labels and no relevance: three numbers a decision fit into memory.
        parts = [read_columns(path, names) for path in shards(folder, "train")]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in names}
        split = self.split("train", scenario, sentences)
        # Stored labels name sentences by number; words are kept by row.
        rows_N = np.array([split.index_of[number] for number in columns["sentence"].tolist()])
        # The same words as in rules, or EVAL-X would learn from words that no rule holds.
        admissible = () if self.extraction.admit_special else SPECIAL
        readable = self.count_readable("train", scenario, sentences)
        sides = (_words(side, readable, admissible) for side in (split.source, split.target))
        return VisibleWords(columns["label"], rows_N, columns["step"], *sides)


def _words(
    side: EncodedSide, sentences: int, special: tuple[int, ...]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return ids and positions of the words of each sentence that may be in a rule."""
    words = []
    for i in range(sentences):
        ids = side[i]
        # Positions in the whole sequence, as rules have them.
        positions = np.flatnonzero(~np.isin(ids, special))
        words.append((ids[positions], positions))
    return words
