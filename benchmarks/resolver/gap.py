"""F1 on GAP (Webster et al. 2018) of ways to resolve a pronoun.

    python -m benchmarks.resolver.gap DIR

DIR holds `gap-test.tsv.gz`. A row's pronoun is taken to stand for a name where the entity that it
is assigned to has a mention that overlaps the name. The last three rows are given the two names.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.resolver.data import GapRow, Stretch, read_gap
from xnmt_bench.errors import XnmtError
from xnmt_bench.resolvers.learnt.entities import Entity
from xnmt_bench.resolvers.learnt.mentions import Mention
from xnmt_bench.resolvers.learnt.model import Model, assign_pronouns
from xnmt_bench.resolvers.learnt.passage import FEATURES, Passage

Answer = tuple[bool, bool]  # whether the pronoun stands for A, and for B
Answerer = Callable[[GapRow], Answer]
DISTANCE, AFTER, FIT = (FEATURES.index(name) for name in ("tokens_away", "after", "gender_fit"))
SEEDS = 3  # of each random baseline, whose F1 is their mean
IS_NAME = FEATURES.index("is_name")


@dataclass(frozen=True)
class F1:
    """Micro F1 over A and B, as percent.

    Attributes:
        overall: of all rows.
        feminine, masculine: of those with `she` or `her`, and with `he`, `him` or `his`.
    """

    overall: float
    feminine: float
    masculine: float

    @property
    def bias(self) -> float:
        """Feminine F1 over masculine F1; NaN where the masculine F1 is 0."""
        return self.feminine / self.masculine if self.masculine else math.nan


def score(rows: Sequence[GapRow], answers: Sequence[Answer]) -> F1:
    """Return F1 of answers to rows of GAP (Webster et al. 2018, section 4)."""

    def f1(chosen: Iterable[int]) -> float:
        pairs = [pair for n in chosen for pair in zip(rows[n].labels, answers[n], strict=True)]
        right = sum(label and answer for label, answer in pairs)
        total = sum(label for label, _ in pairs) + sum(answer for _, answer in pairs)
        return 200.0 * right / total if total else 0.0

    feminine = [n for n, row in enumerate(rows) if row.feminine]
    masculine = [n for n, row in enumerate(rows) if not row.feminine]
    return F1(f1(range(len(rows))), f1(feminine), f1(masculine))


def mention_at(passage: Passage, stretch: Stretch) -> Mention | None:
    """Return the pronoun that begins at a character."""
    return next((m for m in passage.pronouns if passage.tokens[m.first].start == stretch[0]), None)


def holds(passage: Passage, entity: Entity, stretch: Stretch) -> bool:
    """Return whether a name or noun of an entity overlaps some characters."""
    return any(
        passage.tokens[m.first].start < stretch[1] and stretch[0] < passage.tokens[m.last].end
        for m in entity.mentions
        if m.kind != "pronoun"
    )


def answer(passage: Passage, row: GapRow) -> Answer:
    """Return the answer to a row that follows from the entities of its text."""
    pronoun = mention_at(passage, row.pronoun)
    entity = next((e for e in passage.entities if pronoun in e.mentions), None)
    if entity is None:
        return False, False
    # The names were not given to the model: whether it found them is part of the score.
    first, second = (holds(passage, entity, name) for name in row.names)
    return first, second


def answer_by_model(model: Model) -> Answerer:
    """Return an answerer by a learnt model."""
    return lambda row: answer(model.resolve(row.text), row)


def answer_nearest(model: Model) -> Answerer:
    """Return an answerer that assigns each pronoun to the nearest name before it.

    Names whose title or pronouns have another gender are left out, as for the model.
    """

    def distance(features: np.ndarray) -> np.ndarray:
        # Scores in three tiers: any name beats any noun, and before beats after.
        return -features[:, DISTANCE] - 1e4 * features[:, AFTER] - 1e6 * (1 - features[:, IS_NAME])

    return _answer_by_scores(model, distance)


def answer_at_random(model: Model, seed: int) -> Answerer:
    """Return an answerer that assigns each pronoun to a random entity that has a name."""
    rng = np.random.default_rng(seed)

    def draw(features: np.ndarray) -> np.ndarray:
        # An entity without a name scores below every entity with one.
        return rng.random(len(features)) - (1 - features[:, IS_NAME])

    return _answer_by_scores(model, draw)


def answer_between_names(model: Model) -> Answerer:
    """Return an answerer that is given the two names, and takes that of the higher score."""

    def resolve(row: GapRow) -> Answer:
        passage = Passage(row.text, model.lexicon)
        pronoun = mention_at(passage, row.pronoun)
        if pronoun is None:
            return False, False
        # Those behind it are not read: the model goes from left to right.
        before = [m for m in passage.pronouns if m.first < pronoun.first]
        assign_pronouns(passage, model.trees, model.threshold, before)
        candidates = passage.candidates(pronoun)
        held = [[holds(passage, c.entity, name) for name in row.names] for c in candidates]
        scores = model.trees(passage.features(pronoun, candidates))
        named = [n for n, names in enumerate(held) if any(names)]
        if not named:
            return False, False
        first, second = held[max(named, key=lambda n: scores[n])]
        return first, second

    return resolve


def answer_nearer_name(row: GapRow) -> Answer:
    """Return the answer that the pronoun stands for the name with fewer characters in between."""
    between = [max(name[0] - row.pronoun[1], row.pronoun[0] - name[1]) for name in row.names]
    # A tie goes to A, so that one name is always chosen.
    return between[0] <= between[1], between[1] < between[0]


def answer_random_name(seed: int) -> Answerer:
    """Return an answerer that takes one of the two names at random."""
    rng = np.random.default_rng(seed)

    def draw(row: GapRow) -> Answer:
        first = bool(rng.random() < 0.5)
        return first, not first

    return draw


def _answer_by_scores(model: Model, scores: Callable[[np.ndarray], np.ndarray]) -> Answerer:
    def resolve(row: GapRow) -> Answer:
        passage = Passage(row.text, model.lexicon)
        # No threshold: a baseline assigns every pronoun that has a candidate.
        assign_pronouns(passage, scores, -np.inf)
        return answer(passage, row)

    return resolve


def make_table(rows: Sequence[GapRow], model: Model) -> list[tuple[str, F1]]:
    """Return F1 of the model and of baselines, without and with the two names given."""

    def of(answerer: Answerer) -> F1:
        return score(rows, list(map(answerer, rows)))

    seeds = range(SEEDS)
    return [
        ("learnt", of(answer_by_model(model))),
        ("nearest candidate", of(answer_nearest(model))),
        ("random candidate", _mean([of(answer_at_random(model, seed)) for seed in seeds])),
        ("learnt, given the two names", of(answer_between_names(model))),
        ("the nearer of the two names", of(answer_nearer_name)),
        ("one of the two names at random", _mean([of(answer_random_name(seed)) for seed in seeds])),
    ]


def _mean(scores: Sequence[F1]) -> F1:
    overall, feminine, masculine = (
        float(np.mean([getattr(f1, name) for f1 in scores]))
        for name in ("overall", "feminine", "masculine")
    )
    return F1(overall, feminine, masculine)


def main(arguments: list[str] | None = None) -> int:
    """Print the table of the card; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.resolver.gap",
        description="F1 on GAP of the resolver that comes with the package, and of baselines.",
    )
    parser.add_argument("folder", type=Path, help="holds gap-test.tsv.gz")
    folder = parser.parse_args(arguments).folder
    try:
        rows = read_gap(folder / "gap-test.tsv.gz")
    except (XnmtError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"| {len(rows):,} rows of GAP's test set | F1 | feminine | masculine | bias |")
    print("|---|---|---|---|---|")
    for name, f1 in make_table(rows, Model.load()):
        values = f"{f1.overall:.1f} | {f1.feminine:.1f} | {f1.masculine:.1f} | {f1.bias:.2f}"
        print(f"| {name} | {values} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
