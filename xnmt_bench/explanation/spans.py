"""Spans of tokens made one word each: of sentences that are explained in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from xnmt_bench.corpora.vocabulary.subwords import NO_WORD
from xnmt_bench.errors import XnmtError
from xnmt_bench.words.pieces import tokens_of_pieces
from xnmt_bench.words.weighed import CONTINUED, Tokens

By = Literal["sum", "mean", "max"]
Span = tuple[int, int]


def cover(spans: Sequence[Span], length: int, side: str) -> list[Span]:
    """Return spans and the tokens between them, in order, which cover all places.

    Raises:
        XnmtError: a span lies outside of this side, or overlaps another one.
    """
    spans = sorted((int(start), int(stop)) for start, stop in spans)
    for start, stop in spans:
        if not 0 <= start < stop <= length:
            raise XnmtError(f"{side} span ({start}, {stop}): there are tokens 0 to {length}")
    for (_, stop), (start, other) in pairwise(spans):
        if start < stop:
            raise XnmtError(f"{side} span ({start}, {other}): overlaps the one before it")
    inside = {place for start, stop in spans for place in range(start, stop)}
    single = [(place, place + 1) for place in range(length) if place not in inside]
    return sorted([*spans, *single])


def steps_of(start: int, stop: int, before: int) -> Span | None:
    """Return the rows of a target span; None where it is of a context alone."""
    return (max(start - before, 0), stop - before) if stop > before else None


def join_scores(scores_TX: Tensor, steps: Sequence[Span], words: Sequence[Span], by: By) -> Tensor:
    """Return scores of spans of words, averaged over the explained ones of spans of steps."""
    joins: dict[By, Callable[..., Tensor]] = {"sum": torch.sum, "mean": torch.mean}
    join = joins.get(by, torch.amax)
    columns = torch.stack([join(scores_TX[:, a:b], dim=1) for a, b in words], dim=1)
    return torch.stack([columns[a:b].nanmean(0) for a, b in steps])


def word_spans(pieces: Sequence[str], words: Sequence[int] | None) -> list[Span]:
    """Return the pieces of each word of more than one; by their marks where words are unknown."""
    if words is None:
        # EOS and markers are words of their own, also behind a piece that may go on.
        special = [piece.startswith("<") for piece in pieces]
        by_marks = zip(Tokens.of(pieces, False).words, special, strict=True)
        words = [NO_WORD if is_special else word for word, is_special in by_marks]
    tokens = tokens_of_pieces(words)
    starts = [n for n, token in enumerate(tokens) if not n or token != tokens[n - 1]]
    spans = pairwise([*starts, len(words)])
    return [(start, stop) for start, stop in spans if stop - start > 1]


def join_pieces(pieces: Sequence[str]) -> str:
    """Return pieces as one token; the last keeps its mark, since a span may end within a word."""
    return "".join([*(piece.removesuffix(CONTINUED) for piece in pieces[:-1]), *pieces[-1:]])
