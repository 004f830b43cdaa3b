"""Sentences worth reading first: the recipes of Rikters (2018, section 3), and further ones."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
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


# Comparisons with NaN are false, which is what is meant.
@np.errstate(invalid="ignore")
def listed(columns: Columns, at: Thresholds) -> dict[str, tuple[str, list[int]]]:
    """Return the rule of each list and the places of its sentences, by its name.

    A number that is not known (NaN) puts no sentence on any.

    Args:
        columns: of the sentences, by name; one that is missing is not known.
        at: thresholds.
    """
    size = len(next(iter(columns.values())))
    # NaN and not an error: a dump without references has no chrF, and its other lists still stand.
    c = defaultdict(lambda: np.full(size, np.nan), columns)
    # Each rule is written with the thresholds in force: the page shows what was used.
    low = "any of confidence, CDP, APout, APin"
    # Words of the translation a source word, over the usual number if there is one.
    relative_length = c["length_ratio"] / np.nan_to_num(c["usual_length_ratio"], nan=1.0)
    lists = {
        "untranslated": (
            f"{at.copied:.0%} or more of {at.long} words or more copied, or the source's language",
            (
                ((c["overlap"] >= at.copied) & (c["target_words"] >= at.long))
                # Short copies are often names and numbers; a detected language needs no length.
                | (c["source_language"] == 1)
            ),
        ),
        "short and unsure": (
            f"fewer than {at.long} source words, {low} below {at.unsure:g} %",
            (
                (c["source_words"] < at.long)
                & np.any([c[name] < at.unsure for name in PARTS], axis=0)
            ),
        ),
        "repetition": (
            f"commonest 4-gram {at.repeated} times or more beyond the source's",
            # Beyond the source's own: a refrain of the source has to come again.
            c["top_four_gram"] >= at.repeated,
        ),
        "hallucination": (
            f"{at.ignored:.0%} or more of the source ignored, or source contribution below "
            f"{at.contribution:.0%}",
            ((c["ignored_source"] >= at.ignored) | (c["source_contribution"] < at.contribution)),
        ),
        # A free translation: unlike the reference, but read with sure attention.
        "other, not wrong": (
            f"chrF below {at.chrf:g}, confidence {at.sure:g} % or more",
            (c["chrf"] < at.chrf) & (c["confidence_pct"] >= at.sure),
        ),
        "length": (
            f"fewer than {at.shorter:g} or more than {at.longer:g} words a source word, or times "
            "the usual where the words of the languages are unlike",
            (relative_length < at.shorter) | (relative_length > at.longer),
        ),
        "digits": ("other numbers in digits", c["digits_differ"] == 1),
        "wrong language": ("not in the target's language", c["wrong_language"] == 1),
        "strange symbols": ("foreign or corrupt symbols", c["strange_symbols"] >= 1),
        "empty": ("no words", c["target_words"] == 0),
        "in training data": (
            "source and translation stand together in the training data",
            c["in_training"] == 1,
        ),
    }
    return {name: (rule, np.flatnonzero(held).tolist()) for name, (rule, held) in lists.items()}


def in_training(pairs: Sequence[tuple[str, str]], train: Iterable[Sentence]) -> list[float]:
    """Return 1 for each pair of texts that is in the training data, else 0.

    Compared in one normal form, since vocabularies normalise what they read (NFKC, blanks).

    Args:
        pairs: sources and translations.
        train: the training pairs, which stream.
    """
    # The test set is held in memory; the training data streams.
    tested = [_normalize(*pair) for pair in pairs]
    known = set(tested)
    trained = {pair for s in train if (pair := _normalize(s.source, s.target)) in known}
    return [float(pair in trained) for pair in tested]


def _normalize(*texts: str) -> tuple[str, ...]:
    return tuple(" ".join(unicodedata.normalize("NFKC", text).split()) for text in texts)


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
