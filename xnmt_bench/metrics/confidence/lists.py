"""Sentences worth reading first: the recipes of Rikters (2018, section 3), and further ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.options import Chance, Natural, Section, Weight

Columns = Mapping[str, np.ndarray]
PARTS = ("confidence_pct", "cdp_pct", "ap_out_pct", "ap_in_pct")


class Thresholds(Section):
    """Where a sentence becomes worth reading.

    Attributes:
        copied: share of the translation that is a copy, from which a long one is untranslated.
        long: words from which a sentence is long; below it is short.
        unsure: percentage below which a score is low.
        repeated: 4-grams more than in the source.
        ignored: share of ignored source tokens of a hallucination.
        contribution: source contribution below which a translation is one, too.
        chrf: below which a translation is unlike its reference.
        sure: percentage from which a confidence is normal.
        shorter: words of the translation over those of the source, below which it is short; where
            words are unlike, as characters of Chinese and words of English, over the usual ratio.
        longer: the same, above which it is long.
        strong: weight from which a link between words is strong, where translations are compared.
        alike: percentage points by which the scores of synonyms differ at most.
        underlined: share of the translation from which a copy is underlined on the page.
    """

    copied: Chance = 0.5
    long: Natural = 10
    unsure: Weight = 30.0
    repeated: Natural = 2
    ignored: Chance = 0.5
    contribution: Chance = 0.3
    chrf: Weight = 30.0
    sure: Weight = 60.0
    shorter: Weight = 0.5
    longer: Weight = 2.0
    strong: Chance = 0.5
    alike: Weight = 10.0
    underlined: Chance = 0.1


@dataclass(frozen=True)
class Recipe:
    """A list of sentences: its name, what puts a sentence on it, and which of them it holds."""

    name: str
    rule: str
    holds: Callable[[Columns], np.ndarray]


def recipes(at: Thresholds) -> list[Recipe]:
    """Return every list; a number that is not known (NaN) puts no sentence on any."""
    # Each rule is written with the thresholds in force: the page shows what was used.
    low = "any of confidence, CDP, APout, APin"
    return [
        Recipe(
            "untranslated",
            f"{at.copied:.0%} or more of {at.long} words or more copied, or the source's language",
            lambda c: (
                ((c["overlap"] >= at.copied) & (c["target_words"] >= at.long))
                # Short copies are often names and numbers; a detected language needs no length.
                | (c["source_language"] == 1)
            ),
        ),
        Recipe(
            "short and unsure",
            f"fewer than {at.long} source words, {low} below {at.unsure:g} %",
            lambda c: (
                (c["source_words"] < at.long)
                & np.any([c[name] < at.unsure for name in PARTS], axis=0)
            ),
        ),
        Recipe(
            "repetition",
            f"commonest 4-gram {at.repeated} times or more beyond the source's",
            # Beyond the source's own: a refrain of the source has to come again.
            lambda c: c["top_four_gram"] >= at.repeated,
        ),
        Recipe(
            "hallucination",
            f"{at.ignored:.0%} or more of the source ignored, or source contribution below "
            f"{at.contribution:.0%}",
            lambda c: (
                (c["ignored_source"] >= at.ignored) | (c["source_contribution"] < at.contribution)
            ),
        ),
        Recipe(
            # A free translation: unlike the reference, but read with sure attention.
            "other, not wrong",
            f"chrF below {at.chrf:g}, confidence {at.sure:g} % or more",
            lambda c: (c["chrf"] < at.chrf) & (c["confidence_pct"] >= at.sure),
        ),
        Recipe(
            "length",
            f"fewer than {at.shorter:g} or more than {at.longer:g} words a source word, or times "
            "the usual where the words of the languages are unlike",
            lambda c: (_relative_length(c) < at.shorter) | (_relative_length(c) > at.longer),
        ),
        Recipe("digits", "other numbers in digits", lambda c: c["digits_differ"] == 1),
        Recipe(
            "wrong language", "not in the target's language", lambda c: c["wrong_language"] == 1
        ),
        Recipe(
            "strange symbols", "foreign or corrupt symbols", lambda c: c["strange_symbols"] >= 1
        ),
        Recipe("empty", "no words", lambda c: c["target_words"] == 0),
        Recipe(
            "in training data",
            "source and translation stand together in the training data",
            lambda c: c["in_training"] == 1,
        ),
    ]


def listed(columns: Columns, at: Thresholds) -> dict[str, tuple[str, list[int]]]:
    """Return the rule of each list and the places of its sentences, by its name.

    Args:
        columns: of the sentences, by name; one that is missing is not known.
        at: thresholds.
    """
    size = len(next(iter(columns.values())))
    # NaN and not an error: a dump without references has no chrF, and its other lists still stand.
    known = defaultdict(lambda: np.full(size, np.nan), columns)
    # Comparisons with NaN are false, which is what is meant.
    with np.errstate(invalid="ignore"):
        return {
            recipe.name: (recipe.rule, np.flatnonzero(recipe.holds(known)).tolist())
            for recipe in recipes(at)
        }


def _relative_length(columns: Columns) -> np.ndarray:
    """Return words of the translation a source word, over the usual number if there is one."""
    return columns["length_ratio"] / np.nan_to_num(columns["usual_length_ratio"], nan=1.0)


def in_training(pairs: Sequence[tuple[str, str]], train: Iterable[Sentence]) -> list[float]:
    """Return 1 for each pair of texts that stands in the training data, else 0.

    Args:
        pairs: sources and translations.
        train: the training pairs, which stream.
    """
    # The test set is held in memory; the training data streams.
    tested = set(pairs)
    found = {pair for s in train if (pair := (s.source, s.target)) in tested}
    return [float(pair in found) for pair in pairs]


def suspected(
    identity: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], columns: Columns, at: Thresholds
) -> list[dict[str, Any]]:
    """Return a row for each sentence of each list."""
    return [
        {
            **identity,
            "list": name,
            "rule": rule,
            **{key: rows[place][key] for key in ("sentence", "confidence_pct", "source", "target")},
        }
        for name, (rule, places) in listed(columns, at).items()
        for place in places
    ]
