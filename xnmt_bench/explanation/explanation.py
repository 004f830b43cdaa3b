"""One explained sentence pair: as text, as a picture, as a table, and as a file of inseq's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.corpora.vocabulary.subwords import NO_WORD, WORD_START
from xnmt_bench.dumps.inseq import OF_SOURCE, OF_TARGET, PROBABILITY
from xnmt_bench.dumps.inseq_file import write_file
from xnmt_bench.errors import XnmtError, import_extra
from xnmt_bench.explanation.drawing import Panel, draw, show
from xnmt_bench.registry import unknown
from xnmt_bench.words.pieces import tokens_of_pieces
from xnmt_bench.words.weighed import CONTINUED, EOS_TOKEN, Tokens

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 3  # words of a step in an explanation's text
FORMATS = ("inseq",)
START = "<s>"  # what a decoder starts with, in a file
OURS = "xnmt_bench"  # the key of a file's info under which stands what inseq has no place for
COARSE = "CoarseFeatureAttributionSequenceOutput"  # one number a word, in inseq
By = Literal["sum", "mean", "max"]
Span = tuple[int, int]


@dataclass(frozen=True)
class Explanation:
    """One explained sentence pair, on the model's subwords.

    Attributes:
        source_tokens: S source pieces, EOS last, those of context sentences first.
        target_tokens: T target pieces whose prefixes are the contexts, EOS last.
        labels: what is explained, f(c_t), of each step; in a context of the current sentence's.
        probabilities: the model's probability of each label; as many.
        source_TS: relevance of source words, a row for each label; NaN where the explainer says
            nothing of a step.
        prefix_TT: relevance of prefix words, NaN unless j < t; None where there is none.
        explainer: whose relevance it is; a title.
        source_words: the word of its text that each source piece belongs to, -1 for none, as
            `Subwords.tie` has it; None where only the marks of pieces tell, as of a file.
        target_words: the same of target pieces.
    """

    source_tokens: list[str]
    target_tokens: list[str]
    labels: list[str]
    probabilities: Tensor
    source_TS: Tensor
    prefix_TT: Tensor | None
    explainer: str = ""
    source_words: list[int] | None = None
    target_words: list[int] | None = None

    def __str__(self) -> str:
        """Return a line for each step: its label, the probability, and the most relevant words.

        Words of the prefix stand in angle brackets. Relevance has the explainer's own scale.
        """
        prefix = [f"<{token}>" for token in self._readable(self.target_tokens)]
        tokens = [*self._readable(self.source_tokens), *prefix]
        labels = self._readable(self.labels)
        width = max(map(len, labels), default=0)
        parts = [self.source_TS] if self.prefix_TT is None else [self.source_TS, self.prefix_TT]
        rows = zip(labels, self.probabilities.tolist(), torch.cat(parts, dim=1), strict=True)
        lines = []
        for label, probability, relevance_X in rows:
            best = torch.argsort(relevance_X.nan_to_num(-torch.inf), descending=True, stable=True)
            words = [
                f"{tokens[i]} {relevance_X[i]:.3g}"
                for i in best[:SHOWN].tolist()
                if not relevance_X[i].isnan()
            ] or ["not explained"]
            lines.append(f"{label:<{width}}  {probability:.2f}  {', '.join(words)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the matrix as HTML, which a notebook shows."""
        return draw([self.panel(self.title)])

    @property
    def title(self) -> str:
        """What stands above its picture."""
        return (self.explainer or "relevance").replace("_", " ")

    def show(self) -> None:
        """Show the matrix in a notebook, and elsewhere print the text."""
        show(self)

    def panel(self, title: str) -> Panel:
        """Return its matrix, to be drawn under a title."""
        columns, parts = self._readable(self.source_tokens), [self.source_TS]
        if self.prefix_TT is not None:
            # The last target word is in no prefix.
            columns += self._readable(self.target_tokens)[:-1]
            parts.append(self.prefix_TT[:, :-1])
        labels = self._readable(self.labels)
        weights_TX = torch.cat([part.double() for part in parts], dim=1).numpy()
        return Panel(title, labels, columns, len(self.source_tokens), weights_TX)

    def _readable(self, pieces: Sequence[str]) -> list[str]:
        """Return pieces without marks; one that goes on with a word begins with a dot."""
        # One mark anywhere settles the tool, also for a single label.
        tokens = (*self.source_tokens, *self.target_tokens)
        marked = any(token.startswith(WORD_START) for token in tokens)
        words = Tokens.of(pieces, False).words
        readable = []
        for n, piece in enumerate(pieces):
            goes_on = marked or (n > 0 and words[n] == words[n - 1])
            if piece.startswith(WORD_START):
                readable.append(piece[len(WORD_START) :].replace(WORD_START, " ") or "␣")
            elif piece.startswith("<"):
                readable.append(piece)
            else:
                readable.append("·" * goes_on + piece.removesuffix(CONTINUED))
        return readable

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each step and word that it sees, as a pandas frame.

        Its columns: `step` (from 0), `label`, `probability`, `side` (`source` or `prefix`),
        `position` (of the word, from 0), `token` and `relevance`.

        Raises:
            XnmtError: pandas is not installed.
        """
        pandas = import_extra("pandas", "frames")
        sides = [("source", self.source_tokens, self.source_TS)]
        if self.prefix_TT is not None:
            sides.append(("prefix", self.target_tokens, self.prefix_TT))
        steps = enumerate(zip(self.labels, self.probabilities.tolist(), strict=True))
        rows = [
            (step, label, probability, side, place, tokens[place], score)
            for step, (label, probability) in steps
            for side, tokens, scores_TX in sides
            for place, score in enumerate(scores_TX[step].tolist())
            # A word that the step cannot see has no relevance, and no row.
            if score == score
        ]
        columns = ["step", "label", "probability", "side", "position", "token", "relevance"]
        frame: pd.DataFrame = pandas.DataFrame(rows, columns=columns)
        return frame

    def in_words(self) -> Explanation:
        """Return it in words: sums over a word's pieces, means over the pieces that are explained.

        The probability of a word is the product of its pieces'.
        """
        return self.over(
            _word_spans(self.source_tokens, self.source_words),
            _word_spans(self.target_tokens, self.target_words),
        )

    def over(
        self, source: Sequence[Span] = (), target: Sequence[Span] = (), by: By = "sum"
    ) -> Explanation:
        """Return it with spans of tokens as one word each; other tokens do not change.

        Args:
            source: the first place of each span, from 0, and the one behind its last.
            target: the same of target tokens, both as words of prefixes and as steps. Steps of a
                span are averaged, and their probabilities multiplied.
            by: what is made of the relevance of a span's words: their `sum`, `mean` or `max`.

        Raises:
            XnmtError: a span is empty, beyond the sentence, or overlaps another one.
        """
        if by not in ("sum", "mean", "max"):
            raise XnmtError(unknown("way to join relevance", by, ("sum", "mean", "max")))
        columns = _groups(source, len(self.source_tokens), "source")
        words = _groups(target, len(self.target_tokens), "target")
        before = len(self.target_tokens) - len(self.labels)  # tokens of a context, without steps
        # A span that reaches from a context into the sentence has the steps of the sentence alone.
        steps = [group for start, stop in words if (group := _steps(start, stop, before))]
        prefix_TT = None
        if self.prefix_TT is not None:
            joined_TT = _joined(self.prefix_TT, steps, words, by)
            first = len(words) - len(steps)
            # A span's own first words do not belong to its prefix.
            visible = torch.ones(joined_TT.shape, dtype=torch.bool).tril(first - 1)
            prefix_TT = joined_TT.masked_fill(~visible, torch.nan)
        products = [self.probabilities[start:stop].prod() for start, stop in steps]
        return replace(
            self,
            source_tokens=[_join(self.source_tokens[a:b]) for a, b in columns],
            target_tokens=[_join(self.target_tokens[a:b]) for a, b in words],
            labels=[_join(self.labels[a:b]) for a, b in steps],
            probabilities=torch.stack(products),
            source_TS=_joined(self.source_TS, steps, columns, by),
            prefix_TT=prefix_TT,
            source_words=None,
            target_words=None,
        )

    def save(self, path: str | Path, format: str = "inseq") -> None:
        """Write it as another tool's file.

        Args:
            path: the file.
            format: `inseq`: JSON that `inseq.FeatureAttributionOutput.load` reads and shows, and
                `load_explanations` reads back to the last digit. inseq's columns are the target's
                words, so that labels that are other words stand in `info` alone.

        Raises:
            XnmtError: the format is unknown.
        """
        if format not in FORMATS:
            raise XnmtError(unknown("format", format, FORMATS))
        length, steps = len(self.target_tokens), len(self.labels)
        fields: dict[str, Any] = {
            "source": self.source_tokens,
            "target": [START, *self.target_tokens],
            OF_SOURCE: self.source_TS.numpy().T,
            OF_TARGET: None,
            "step_scores": {PROBABILITY: self.probabilities.numpy()},
            "sequence_scores": {},
            "attr_pos_start": 1 + length - steps,
            "attr_pos_end": 1 + length,
        }
        if self.prefix_TT is not None:
            # The decoder's start is seen by every step, and has no relevance.
            fields[OF_TARGET] = np.vstack([np.zeros((1, steps)), self.prefix_TT.numpy().T])
        texts = [Tokens.of([t for t in tokens if t != EOS_TOKEN], False).text
                 for tokens in (self.source_tokens, self.target_tokens)]  # fmt: skip
        info = {
            "attribution_method": self.explainer or "relevance",
            "attributed_fn": PROBABILITY,
            "attribute_target": self.prefix_TT is not None,
            "input_texts": texts[:1],
            "generated_texts": texts[1:],
            "step_scores": [PROBABILITY],
            OURS: {"labels": self.labels},
        }
        write_file(Path(path), info, [fields], COARSE)


def _groups(spans: Sequence[Span], length: int, side: str) -> list[Span]:
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


def _steps(start: int, stop: int, before: int) -> Span | None:
    """Return the rows of a target span; None where it is of a context alone."""
    return (max(start - before, 0), stop - before) if stop > before else None


def _joined(scores_TX: Tensor, steps: Sequence[Span], words: Sequence[Span], by: By) -> Tensor:
    """Return scores of spans of words, averaged over the explained ones of spans of steps."""
    joins: dict[By, Callable[..., Tensor]] = {"sum": torch.sum, "mean": torch.mean}
    join = joins.get(by, torch.amax)
    columns = torch.stack([join(scores_TX[:, a:b], dim=1) for a, b in words], dim=1)
    return torch.stack([columns[a:b].nanmean(0) for a, b in steps])


def _word_spans(pieces: Sequence[str], words: Sequence[int] | None) -> list[Span]:
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


def _join(pieces: Sequence[str]) -> str:
    """Return pieces as one token; the last keeps its mark, since a span may end within a word."""
    return "".join([*(piece.removesuffix(CONTINUED) for piece in pieces[:-1]), *pieces[-1:]])
