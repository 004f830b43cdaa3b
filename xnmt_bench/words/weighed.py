"""A translation with the weight of each source token for each of its tokens.

Shapes: S source tokens, T target tokens, EOS among them where the file or model has it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from xnmt_bench.corpora.vocabulary.subwords import NO_WORD, UNTIED, WORD_START
from xnmt_bench.words.pieces import membership, tokens_of_pieces

EOS_TOKEN = "</s>"
CONTINUED = "@@"  # ends a piece that goes on (subword-nmt)
JOINED = "￭"  # of a piece at the side where no blank is (OpenNMT's tokenizer)
ESCAPED = re.compile(r"&(amp|#124|lt|gt|apos|quot|#91|#93);")  # by Moses
HYPHEN = "@-@"  # Moses's, between the parts of a word


@dataclass(frozen=True)
class Tokens:
    """One side of a sentence, in tokens.

    Attributes:
        pieces: its tokens; EOS is the last where it has a row or column.
        words: the number of the word that each is a piece of, from 0; -1 for EOS and markers, -2
            for a piece that several words may have.
        text: the sentence with its pieces joined.
    """

    pieces: tuple[str, ...]
    words: tuple[int, ...]
    text: str

    @classmethod
    def of(cls, pieces: Sequence[str], eos: bool) -> Tokens:
        """Find words and text by the marks that tools leave on pieces.

        Args:
            pieces: without EOS.
            eos: whether EOS stands behind them.
        """
        # One mark anywhere settles the tool; without any, a piece that is not glued begins a word.
        spaced = any(piece.startswith(WORD_START) for piece in pieces)
        words, current = list[int](), -1
        for place, piece in enumerate(pieces):
            before = pieces[place - 1] if place else ""
            glued = before.endswith((CONTINUED, JOINED)) or piece.startswith(JOINED)
            begins = piece.startswith(WORD_START) if spaced else not glued
            # The first piece begins a word even where its mark is missing.
            current += begins or current < 0
            words.append(current)
        return cls((*pieces, *[EOS_TOKEN] * eos), (*words, *[NO_WORD] * eos), joined(pieces))

    def __len__(self) -> int:
        return len(self.pieces)

    @property
    def tied(self) -> bool:
        """Whether it is known of each piece which word it is a piece of."""
        return UNTIED not in self.words

    @property
    def eos(self) -> bool:
        """Whether EOS is the last token."""
        return bool(self.words) and self.words[-1] == NO_WORD

    @cached_property
    def size(self) -> int:
        """The number of tokens without EOS."""
        return len(self.pieces) - self.eos

    @property
    def bare(self) -> list[str]:
        """The pieces without the marks of tools."""
        return [piece.removesuffix(CONTINUED).strip(WORD_START + JOINED) for piece in self.pieces]

    def without_eos(self) -> Tokens:
        """Return the side without EOS."""
        return Tokens(self.pieces[: self.size], self.words[: self.size], self.text)

    def whole(self) -> Tokens:
        """Return the side in words; EOS and markers are tokens of their own."""
        token_of = tokens_of_pieces(self.words)
        joined_pieces = [""] * (max(token_of, default=-1) + 1)
        words = [-1] * len(joined_pieces)
        for piece, token, word in zip(self.bare, token_of, self.words, strict=True):
            joined_pieces[token] += piece
            words[token] = word
        text = [piece for piece, word in zip(joined_pieces, words, strict=True) if word >= 0]
        return Tokens(tuple(joined_pieces), tuple(words), joined(text))


def joined(pieces: Sequence[str]) -> str:
    """Return the text that was cut into pieces; Moses's escapes are undone."""
    if any(piece.startswith(WORD_START) for piece in pieces):
        text = "".join(pieces).replace(WORD_START, " ").strip()
    else:
        text = " ".join(pieces).replace(f"{CONTINUED} ", "").removesuffix(CONTINUED)
        text = text.replace(f" {JOINED}", "").replace(f"{JOINED} ", "").strip(JOINED)
    return unescaped(text)


def unescaped(text: str) -> str:
    """Return a text of Moses as it was before: it escapes what its files use as marks."""
    # Such as & and |. HTML's others are text.
    return ESCAPED.sub(lambda match: html.unescape(match.group()), text).replace(HYPHEN, "-")


@dataclass(frozen=True)
class Weighed:
    """A sentence pair, and the weight of each source token for each target token.

    Attributes:
        number: of the sentence, from 0.
        source, target: the tokens.
        weights_TS: of source tokens for target tokens.
        prefix_TT: of earlier target tokens, 0 elsewhere; None where they are unknown.
        log_probability_T: natural logarithms; None where they are unknown.
        blind: whether the weights are of an explainer that never asks the model.
    """

    number: int
    source: Tokens
    target: Tokens
    weights_TS: np.ndarray
    prefix_TT: np.ndarray | None = None
    log_probability_T: np.ndarray | None = None
    blind: bool = False

    def without_eos(self) -> Weighed:
        """Return the pair without EOS's row and column; nothing is normalised again."""
        rows, columns = slice(self.target.size), slice(self.source.size)
        prefix, log_p = self.prefix_TT, self.log_probability_T
        return replace(
            self,
            source=self.source.without_eos(),
            target=self.target.without_eos(),
            weights_TS=self.weights_TS[rows, columns],
            prefix_TT=None if prefix is None else prefix[rows, rows],
            log_probability_T=None if log_p is None else log_p[rows],
        )

    def whole(self) -> Weighed:
        """Return the pair in words: sums over a source word's pieces, means over a target word's.

        A word's own first pieces are dropped from its prefix. The log-probability of a word is the
        sum of its pieces'.
        """
        rows, columns = (membership(tokens_of_pieces(s.words)) for s in (self.target, self.source))
        # Mean over rows and sum over columns, so that rows of shares still sum to 1.
        mean = rows / rows.sum(0)
        prefix, log_p = self.prefix_TT, self.log_probability_T
        return replace(
            self,
            source=self.source.whole(),
            target=self.target.whole(),
            weights_TS=mean.T @ self.weights_TS @ columns,
            prefix_TT=None if prefix is None else np.tril(mean.T @ prefix @ rows, -1),
            log_probability_T=None if log_p is None else log_p @ rows,
        )
