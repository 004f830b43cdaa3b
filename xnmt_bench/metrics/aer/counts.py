"""Counts of links, all that alignment error rate needs (Och and Ney 2003; Li et al. 2020, 4.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from xnmt_bench.corpora.formats.alignment import Alignment
from xnmt_bench.corpora.sentence import Links
from xnmt_bench.corpora.view import flipped
from xnmt_bench.measuring.metric import ratio
from xnmt_bench.measuring.units import Bounds, Units

SOURCE: Literal[0] = 0  # places in a link
TARGET: Literal[1] = 1
BASES = "metric.aer.gold_base and metric.aer.hypothesis_base"
BOUNDS = {
    "links": Bounds(0),
    "unaligned_links": Bounds(0),
    "sure": Bounds(0),
    "sure_links": Bounds(0, 1, of="sure"),
    "possible_links": Bounds(0, 1, of="links"),
    "target_words": Bounds(0),
    "no_link": Bounds(0, 1, of="target_words"),
    "no_sure_link": Bounds(0, 1, of="target_words"),
}
REVERSES = "metric.aer.gold_reverse and metric.aer.hypothesis_reverse"


def count_links(
    test_set: str,
    numbers: Sequence[int],
    hypotheses: Sequence[Links],
    gold: Sequence[Alignment],
    target_lengths: Sequence[int] | None = None,
    linked: Literal[0, 1] = TARGET,
) -> Units:
    """Compare hypotheses with their gold; a unit is a sentence pair.

    Args:
        test_set: what `numbers` count in.
        numbers: of each pair.
        hypotheses: the links of each.
        gold: of each.
        target_lengths: words of each pair's target side, where they are known.
        linked: the side whose words were each given a link.

    Returns:
        `links` |A|, `unaligned_links` those of them whose word of the side `linked` has no link in
        the gold, `sure` |S|, `sure_links` |A and S|, `possible_links` |A and P|; and, where lengths
        are known, `target_words`, those with `no_link` in the gold and with `no_sure_link`.
    """
    pairs = list(zip(hypotheses, gold, strict=True))
    counts = {
        "links": [len(a) for a, _ in pairs],
        "unaligned_links": [
            sum(link[linked] not in aligned for link in a)
            # Possible links include the sure ones, so a word without a possible link has no link at
            # all.
            for a, aligned in ((a, {link[linked] for link in g.possible}) for a, g in pairs)
        ],
        "sure": [len(g.sure) for g in gold],
        "sure_links": [len(a & g.sure) for a, g in pairs],
        # Counts and no rates: they sum over any sample of pairs.
        "possible_links": [len(a & g.possible) for a, g in pairs],
    }
    if target_lengths is not None:
        words = list(zip(target_lengths, gold, strict=True))
        # Lengths of alignment files are unknown where they come without a text.
        counts |= {
            "target_words": list(target_lengths),
            "no_link": [n - len({j for _, j in g.possible}) for n, g in words],
            "no_sure_link": [n - len({j for _, j in g.sure}) for n, g in words],
        }
    columns = {name: np.array(column, dtype=np.int64) for name, column in counts.items()}
    return Units(test_set, np.asarray(numbers, dtype=np.int64), columns)


def skip_unaligned(units: Units) -> Units:
    """Drop the links of words without a link in the gold (Li et al. 2020, section 4.4).

    All of them are wrong, so they are in none of the other counts.
    """
    links = {"links": units["links"] - units["unaligned_links"]}
    return replace(units, columns={**units.columns, **links})


def alignment_scores(sums_R: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return AER = 1 - (|A&S| + |A&P|) / (|A| + |S|), precision, recall, unaligned shares."""
    # As one quotient, so that a sample without links or without sure links still has a value.
    total_R = sums_R["links"] + sums_R["sure"]
    results = {
        "aer": ratio(total_R - sums_R["sure_links"] - sums_R["possible_links"], total_R),
        "precision": ratio(sums_R["possible_links"], sums_R["links"]),
        "recall": ratio(sums_R["sure_links"], sums_R["sure"]),
        "links": sums_R["links"],
    }
    if "target_words" in sums_R:
        for name in ("no_link", "no_sure_link"):
            results[name] = ratio(sums_R[name], sums_R["target_words"])
    return results


def about_reading(
    hypotheses: Sequence[Links], gold: Sequence[Alignment], threshold: float | None
) -> str | None:
    """Return a doubt about how two files were read, where another reading fits far better.

    Tried are words of the gold counted one less and one more, and the hypothesis's sides exchanged.

    Args:
        hypotheses: a link set of each sentence pair.
        gold: its annotation.
        threshold: how much lower AER has to be then, as a share; None for never.
    """
    # Switched off: three further readings of large files take a while.
    if threshold is None:
        return None
    exchanged = f"with source and target of the hypothesis exchanged; see {REVERSES}"
    aers = [(_total_aer([flipped(links) for links in hypotheses], gold), exchanged)]
    for word, shift in (("less", -1), ("more", 1)):
        shifted = [
            Alignment(*(_counted_from(shift, x) for x in (g.sure, g.possible))) for g in gold
        ]
        name = f"with each word of the gold counted one {word}; see {BASES}"
        aers.append((_total_aer(hypotheses, shifted), name))
    here = _total_aer(hypotheses, gold)
    # The best of the other readings; a good file fits worse under each of them.
    there, reading = min(aers)
    if not here - there > threshold:  # without any link AER is NaN
        return None
    return f"AER is {100 * here:.1f} %, but {100 * there:.1f} % {reading}"


def _counted_from(shift: int, links: Links) -> Links:
    return frozenset((i + shift, j + shift) for i, j in links)


def _total_aer(hypotheses: Sequence[Links], gold: Sequence[Alignment]) -> float:
    """Return AER over all sentence pairs."""
    units = count_links("", range(len(gold)), hypotheses, gold)
    sums = {column: units[column].sum(keepdims=True) for column in units.columns}
    return float(alignment_scores(sums)["aer"][0])


def line(results: Mapping[str, float]) -> str:
    """Return the field's own line: AER (precision/recall/links); n/a for a missing number."""
    aer, precision, recall = (
        f"{100 * results[name]:.1f}%" if name in results else "n/a"
        for name in ("aer", "precision", "recall")
    )
    return f"AER {aer} ({precision}/{recall}/{results['links']:.0f})"
