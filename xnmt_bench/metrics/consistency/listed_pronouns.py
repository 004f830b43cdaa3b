"""The judged translations on the page: mentions, links, genders, and the words that show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from xnmt_bench.corpora.formats.alignment import to_pharaoh
from xnmt_bench.corpora.sentence import Links
from xnmt_bench.corpora.suites.consistency.suite import Item, Suite
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.measuring.listing import Listing, Matrix
from xnmt_bench.metrics.consistency.judge import (
    CAUSES,
    CLUSTERS,
    JudgedPronoun,
    TranslatedMention,
    Translation,
)
from xnmt_bench.metrics.consistency.mention_links import from_pharaoh
from xnmt_bench.morphology import stripped
from xnmt_bench.parquet import read_table, write_table
from xnmt_bench.words import Tokens

FILE = "judged.parquet"
NOTE = (
    "Rows: the translation's words. Columns: the source's. Filled: linked words; framed: those of "
    "the entity and of the pronoun, whose genders are compared. An entity of an earlier sentence "
    "stands in it, before the mark."
)
UNKNOWN, UNLINKED, MARK = "?", "not linked", "¶"
SHOWN = ("source", "translation", "why", "genders")


def write_judged(
    suite: Suite,
    items: Sequence[Item],
    translations: Mapping[int, Translation],
    judged: Sequence[JudgedPronoun],
    folder: Path,
) -> None:
    """Write what was judged of each pronoun."""
    rows = [_row(suite, *pair, translations) for pair in zip(items, judged, strict=True)]
    write_table(pa.Table.from_pylist(rows), folder / FILE)


def _row(
    suite: Suite, item: Item, judged: JudgedPronoun, translations: Mapping[int, Translation]
) -> dict[str, Any]:
    # An entity may be in an earlier sentence, which the reader then has to see.
    sentences = sorted({item.sentence - item.entity.back, item.sentence})
    sources = [split_words(suite.sentences[n].source) for n in sentences]
    targets = [translations[n].words for n in sentences]
    # Where each sentence's words stand when an earlier one is before it, with a mark between.
    starts = {item.entity.back: (0, 0), 0: (0, 0)}
    if item.entity.back:
        starts[0] = len(sources[0]) + 1, len(targets[0]) + 1
    links_of = {back: translations[item.sentence - back].links for back in starts}

    def shift(back: int, links: Links) -> Links:
        """Return links of the sentence so far back at their places in both texts."""
        return frozenset((s + starts[back][0], t + starts[back][1]) for s, t in links)

    links = [shift(back, links_of[back]) for back in starts]
    mentions = [
        # An article has links of its own; not every pair of a mention is a link.
        shift(m.back, links_of[m.back] & frozenset(product(m.source, m.target)))
        for m in (judged.entity, judged.pronoun)
    ]
    return {
        # The suite's own number, by which people find the sentence in its file.
        "number": item.sentence,
        "source": f" {MARK} ".join(map(" ".join, sources)),
        "translation": f" {MARK} ".join(map(" ".join, targets)),
        "why": _why(suite, item, judged, translations),
        "genders": _genders(suite, item, judged),
        "links": to_pharaoh(frozenset().union(*links)),
        "mentions": to_pharaoh(frozenset().union(*mentions)),
        # A pronoun that is left out is neither right nor wrong.
        "consistent": float(judged.consistent) if not judged.cause else np.nan,
        "left_out": judged.cause,
        "cluster": judged.cluster,
        **_placed("entity", judged.entity, starts[judged.entity.back]),
        **_placed("pronoun", judged.pronoun, starts[0]),
    }


def _placed(name: str, mention: TranslatedMention, start: Sequence[int]) -> dict[str, Any]:
    """Return a mention's words and gender, for a sheet that asks people for them.

    Args:
        name: `entity` or `pronoun`.
        mention: in the translation.
        start: the places of its sentences' first words in `source` and `translation`.
    """
    return {
        f"{name}_source": [s + start[0] for s in mention.source],
        f"{name}_target": [t + start[1] for t in mention.target],
        f"{name}_gender": mention.gender or "",
        f"{name}_back": mention.back,
    }


def _mentions(
    suite: Suite, item: Item, judged: JudgedPronoun
) -> Iterator[tuple[str, TranslatedMention]]:
    """Yield the name of each mention in the source, in reading order."""
    yield suite.named(item, item.entity), judged.entity
    yield suite.pronoun(item), judged.pronoun
    if item.other is not None and judged.other is not None:
        yield suite.named(item, item.other), judged.other


def _genders(suite: Suite, item: Item, judged: JudgedPronoun) -> str:
    """Return a line such as `developer f (gold f), she f, designer m`."""
    mentions = _mentions(suite, item, judged)
    genders = [f"{name} {mention.gender or UNKNOWN}" for name, mention in mentions]
    genders[0] += f" (gold {item.gender})" if item.gender else ""
    return ", ".join(genders)


def _why(
    suite: Suite, item: Item, judged: JudgedPronoun, translations: Mapping[int, Translation]
) -> str:
    """Return a line such as `developer: die Entwicklerin, f by Entwicklerin; she: er, m by er`."""
    reasons = []
    for name, mention in _mentions(suite, item, judged):
        words = translations[item.sentence - mention.back].words
        linked = " ".join(stripped(words[n]) or words[n] for n in mention.target) or UNLINKED
        by = UNKNOWN
        if mention.gender and mention.evidence:
            by = f"{mention.gender} by {mention.evidence.by}"
        reasons.append(f"{name}: {linked}, {by}")
    return "; ".join(reasons)


def listing(name: str, path: Path) -> Listing:
    """Return the judged translations of one suite, system and way to link.

    Args:
        name: whose translations.
        path: the file of `write_judged`.
    """
    columns = read_table(path).to_pydict()
    names = ("consistent", "left_out", "cluster")
    consistent, left_out, cluster = (np.array(columns[name]) for name in names)
    kinds = {"inconsistent": ("the genders differ", consistent == 0)}
    kinds |= {cause.replace("_", " "): ("left out", left_out == cause) for cause in CAUSES}
    kinds |= {f"goes with {c}": ("of two entities", cluster == c) for c in CLUSTERS}
    # Every cause and cluster has a list, empty ones too, so that two systems' lists compare.
    lists = {kind: (rule, np.flatnonzero(of).tolist()) for kind, (rule, of) in kinds.items()}
    texts = {key: columns[key] for key in SHOWN}
    return Listing(
        "consistency",
        name,
        NOTE,
        # By row and not by sentence, since a sentence may have several pronouns.
        range(len(consistent)),
        texts,
        {"consistent": consistent},
        lists=lists,
        matrices=partial(_matrices, columns),
    )


def _matrices(columns: Mapping[str, list[Any]]) -> Iterator[tuple[int, Matrix]]:
    for number, (links, mentions) in enumerate(
        zip(columns["links"], columns["mentions"], strict=True)
    ):
        source, target = (split_words(columns[side][number]) for side in ("source", "translation"))
        weights = np.zeros((len(target), len(source)))
        for s, t in from_pharaoh(links):
            # A link is there or not; only relevance has degrees.
            weights[t, s] = 1
        framed = sorted((t, s) for s, t in from_pharaoh(mentions))
        # Words between blanks, which carry no marks of pieces.
        rows, source_tokens = Tokens.of(target, eos=False), Tokens.of(source, eos=False)
        yield number, Matrix(rows, source_tokens, weights, framed=framed)
