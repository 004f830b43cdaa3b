"""The trees that score candidates, kept as plain numbers and applied by numpy only."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.errors import DataError
from xnmt_bench.resolvers.learnt.entities import Entity
from xnmt_bench.resolvers.learnt.lexicon import Lexicon
from xnmt_bench.resolvers.learnt.mentions import Mention
from xnmt_bench.resolvers.learnt.passage import FEATURES, Passage

WEIGHTS = Path(__file__).with_name("weights.json.gz")
Scorer = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Trees:
    """Boosted regression trees, their nodes one behind the other.

    Attributes:
        roots: the first node of each tree.
        feature: of each node; -1 for a leaf.
        threshold: values up to it go left.
        left, right: the next node.
        value: of a leaf, in log-odds, the learning rate multiplied in.
        bias: the log-odds that all trees start from.
    """

    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    bias: float

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Return the log-odds of rows of features, (rows,) as float64."""
        rows = np.arange(len(features))[:, None]
        # All trees at once, a level a step: Python then runs as often as a tree is deep.
        node = np.repeat(self.roots[None, :], len(features), axis=0)
        while True:
            feature = self.feature[node]
            if (feature < 0).all():
                return self.bias + self.value[node].sum(axis=1)
            # At a leaf the feature is -1; what is compared there does not matter.
            left = features[rows, feature] <= self.threshold[node]
            # Leaves are their own children.
            node = np.where(left, self.left[node], self.right[node])


@dataclass(frozen=True)
class Model:
    """What was learnt.

    Attributes:
        lexicon: genders of names, nouns of people.
        trees: score a candidate.
        threshold: log-odds below which a pronoun refers to nothing in the text.
    """

    lexicon: Lexicon
    trees: Trees
    threshold: float

    def resolve(self, text: str) -> Passage:
        """Return a text with each of its pronouns assigned to an entity, old or new."""
        passage = Passage(text, self.lexicon)
        assign_pronouns(passage, self.trees, self.threshold)
        return passage

    @classmethod
    def load(cls, path: Path = WEIGHTS) -> Model:
        """Return a model as `benchmarks/resolver/train.py` writes it.

        Raises:
            DataError: the file is damaged, or of other features.
        """
        try:
            content: Mapping[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
            if tuple(content["features"]) != FEATURES:
                raise DataError(
                    path, None, "the resolver was trained with other features; train it again"
                )
            trees = dict(content["trees"])
            bias = float(trees.pop("bias"))
            arrays = {name: np.array(values) for name, values in trees.items()}
            # Features are float32, and so were the thresholds' comparisons in training.
            lexicon = Lexicon(
                {name: tuple(pair) for name, pair in content["given_names"].items()},
                {noun: tuple(pair) for noun, pair in content["nouns"].items()},
            )
            return cls(lexicon, Trees(**arrays, bias=bias), float(content["threshold"]))
        except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
            raise DataError(
                path, None, f"not the weights of the learnt resolver: {error}"
            ) from None


def assign_pronouns(
    passage: Passage, score: Scorer, threshold: float, pronouns: Sequence[Mention] | None = None
) -> None:
    """Assign each pronoun to the entity of the highest score, from left to right.

    Args:
        passage: its pronouns are in no entity yet.
        score: gives a number for each row of features.
        threshold: a pronoun whose candidates all score below it begins an entity of its own.
        pronouns: those that are assigned; None for all of the third person.
    """
    # From the left, since an assigned pronoun changes what its entity offers to later ones.
    for pronoun in passage.pronouns if pronouns is None else pronouns:
        candidates = passage.candidates(pronoun)
        entity: Entity | None = None
        if candidates:
            scores = score(passage.features(pronoun, candidates))
            best = int(np.argmax(scores))
            entity = candidates[best].entity if scores[best] >= threshold else None
        passage.assign(pronoun, entity)
