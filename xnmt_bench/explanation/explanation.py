"""Explained sentences: as text, as pictures, as tables, and as files of inseq's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np
import pyarrow as pa
import torch
from pyarrow.csv import write_csv
from torch import Tensor

from xnmt_bench.corpora.vocabulary.subwords import WORD_START
from xnmt_bench.dumps.inseq import OF_SOURCE, OF_TARGET, PROBABILITY
from xnmt_bench.dumps.inseq_file import write_file
from xnmt_bench.errors import XnmtError, import_extra
from xnmt_bench.explanation.drawing import Panel, draw, page, picture, show
from xnmt_bench.explanation.spans import (
    By,
    Span,
    cover,
    join_pieces,
    join_scores,
    steps_of,
    word_spans,
)
from xnmt_bench.parquet import write_table
from xnmt_bench.registry import unknown
from xnmt_bench.store import replacing, write_atomically
from xnmt_bench.words.weighed import CONTINUED, EOS_TOKEN, Tokens

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 3  # words of a step in an explanation's text
START = "<s>"  # what a decoder starts with, in a file
OURS = "xnmt_bench"  # the key of a file's info under which stands what inseq has no place for
KEPT = ("labels", "explainer", "source_words", "target_words")  # there
COLUMNS = ("sentence", "step", "label", "probability", "side", "position", "token", "relevance")
COARSE = "CoarseFeatureAttributionSequenceOutput"  # one number a word, in inseq


@dataclass(frozen=True, repr=False)
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

    def take(self, steps: slice) -> Explanation:
        """Return the explanation of some steps; the pieces of both sides stay."""
        return replace(
            self,
            labels=self.labels[steps],
            probabilities=self.probabilities[steps],
            source_TS=self.source_TS[steps],
            prefix_TT=None if self.prefix_TT is None else self.prefix_TT[steps],
        )

    def __str__(self) -> str:
        """Return a line for each step: its label, the probability, and the most relevant words.

        Words of the prefix stand in angle brackets. Relevance has the explainer's own scale.
        """
        prefix = [f"<{token}>" for token in self.readable(self.target_tokens)]
        tokens = [*self.readable(self.source_tokens), *prefix]
        labels = self.readable(self.labels)
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

    def __repr__(self) -> str:
        """Return a line: whose it is, its source, and how many steps it has."""
        return f"<{self.title} of {self.source!r}: {len(self.labels)} steps>"

    @property
    def source(self) -> str:
        """The source as text, with the sentences around it."""
        return _text(self.source_tokens)

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
        columns, parts = self.readable(self.source_tokens), [self.source_TS]
        if self.prefix_TT is not None:
            # The last target word is in no prefix.
            columns += self.readable(self.target_tokens)[:-1]
            parts.append(self.prefix_TT[:, :-1])
        labels = self.readable(self.labels)
        weights_TX = torch.cat([part.double() for part in parts], dim=1).numpy()
        probabilities = self.probabilities.tolist()
        return Panel(title, labels, columns, len(self.source_tokens), weights_TX, probabilities)

    def readable(self, pieces: Sequence[str]) -> list[str]:
        """Return pieces of it without marks; one that goes on with a word begins with a dot."""
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
        frame: pd.DataFrame = Explanations([self]).to_frame().drop(columns="sentence")
        return frame

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of `to_frame`."""
        sides = [("source", self.source_tokens, self.source_TS)]
        if self.prefix_TT is not None:
            sides.append(("prefix", self.target_tokens, self.prefix_TT))
        for step, decision in enumerate(zip(self.labels, self.probabilities.tolist(), strict=True)):
            for side, tokens, scores_TX in sides:
                for place, score in enumerate(scores_TX[step].tolist()):
                    # A word that the step cannot see has no relevance, and no row.
                    if score == score:
                        yield step, *decision, side, place, tokens[place], score

    def in_words(self) -> Explanation:
        """Return it in words: sums over a word's pieces, means over the pieces that are explained.

        The probability of a word is the product of its pieces'.
        """
        return self.over(
            word_spans(self.source_tokens, self.source_words),
            word_spans(self.target_tokens, self.target_words),
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
        columns = cover(source, len(self.source_tokens), "source")
        words = cover(target, len(self.target_tokens), "target")
        before = len(self.target_tokens) - len(self.labels)  # tokens of a context, without steps
        # A span that reaches from a context into the sentence has the steps of the sentence alone.
        steps = [group for start, stop in words if (group := steps_of(start, stop, before))]
        prefix_TT = None
        if self.prefix_TT is not None:
            joined_TT = join_scores(self.prefix_TT, steps, words, by)
            first = len(words) - len(steps)
            # A span's own first words do not belong to its prefix.
            visible = torch.ones(joined_TT.shape, dtype=torch.bool).tril(first - 1)
            prefix_TT = joined_TT.masked_fill(~visible, torch.nan)
        products = [self.probabilities[start:stop].prod() for start, stop in steps]
        return replace(
            self,
            source_tokens=[join_pieces(self.source_tokens[a:b]) for a, b in columns],
            target_tokens=[join_pieces(self.target_tokens[a:b]) for a, b in words],
            labels=[join_pieces(self.labels[a:b]) for a, b in steps],
            probabilities=torch.stack(products),
            source_TS=join_scores(self.source_TS, steps, columns, by),
            prefix_TT=prefix_TT,
            source_words=None,
            target_words=None,
        )

    def save(self, path: str | Path) -> None:
        """Write it to a file, whose suffix says the format.

        `.json` is inseq's: `inseq.FeatureAttributionOutput.load` reads and shows it, and
        `load_explanations` reads it back to the last digit. inseq's columns are the target's words,
        so that labels that are other words stand in `info`. `.csv` and `.parquet` hold the rows
        of `to_frame`, `.html`, `.svg`, `.png` and `.pdf` the matrix.

        Args:
            path: the file.

        Raises:
            XnmtError: the suffix is of no format.
        """
        Explanations([self]).save(path)

    def inseq_fields(self) -> dict[str, Any]:
        """Return what inseq's file holds of it."""
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
        return fields


class Explanations(list[Explanation]):
    """A list of explanations, one a sentence, which prints, shows and saves all of them."""

    @overload
    def __getitem__(self, place: SupportsIndex, /) -> Explanation: ...

    @overload
    def __getitem__(self, place: slice, /) -> Explanations: ...

    def __getitem__(self, place: Any, /) -> Explanation | Explanations:
        """Return one of them, or some of them, which are shown and saved as all are."""
        explanations = super().__getitem__(place)
        return Explanations(explanations) if isinstance(place, slice) else explanations

    def __str__(self) -> str:
        """Return the text of each under its source."""
        return "\n\n".join(f"{each.source}\n{each}" for each in self)

    def _repr_html_(self) -> str:
        """Return their matrices as HTML, which a notebook shows."""
        return draw(each.panel(each.source) for each in self)

    def show(self) -> None:
        """Show the matrices in a notebook, and elsewhere print the texts."""
        show(self)

    def in_words(self) -> Explanations:
        """Return each in words; see `Explanation.in_words`."""
        return Explanations(each.in_words() for each in self)

    def to_frame(self) -> pd.DataFrame:
        """Return the rows of each `Explanation.to_frame`; `sentence` counts them from 0.

        Raises:
            XnmtError: pandas is not installed.
        """
        pandas = import_extra("pandas", "frames")
        frame: pd.DataFrame = pandas.DataFrame(self._columns())
        return frame

    def _columns(self) -> dict[str, list[Any]]:
        rows = [(number, *row) for number, each in enumerate(self) for row in each.rows()]
        columns = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
        return {name: list(column) for name, column in zip(COLUMNS, columns, strict=True)}

    def save(self, path: str | Path) -> None:
        """Write all to one file, whose suffix says the format; see `Explanation.save`.

        A picture (`.svg`, `.png`, `.pdf`) holds one sentence.

        Raises:
            XnmtError: the suffix is of no format, or several sentences are for one picture.
        """
        path = Path(path)
        save = {
            ".json": self._save_inseq,
            ".csv": self._save_table,
            ".parquet": self._save_table,
            ".html": self._save_page,
            ".svg": self._save_picture,
            ".png": self._save_picture,
            ".pdf": self._save_picture,
        }
        if path.suffix.lower() not in save:
            raise XnmtError(f"{path}: the suffix says the format; known are {', '.join(save)}")
        path.parent.mkdir(parents=True, exist_ok=True)
        save[path.suffix.lower()](path)

    def _save_inseq(self, path: Path) -> None:
        info = {
            "attribution_method": ", ".join(
                dict.fromkeys(e.explainer or "relevance" for e in self)
            ),
            "attributed_fn": PROBABILITY,
            "attribute_target": all(each.prefix_TT is not None for each in self),
            "input_texts": [each.source for each in self],
            "generated_texts": [_text(each.target_tokens) for each in self],
            "step_scores": [PROBABILITY],
            OURS: [{name: getattr(each, name) for name in KEPT} for each in self],
        }
        write_file(path, info, [each.inseq_fields() for each in self], COARSE)

    def _save_table(self, path: Path) -> None:
        table = pa.table(self._columns())
        if path.suffix.lower() == ".parquet":
            write_table(table, path)
        else:
            with replacing(path) as temporary:
                write_csv(table, temporary)

    def _save_page(self, path: Path) -> None:
        write_atomically(path, page(each.panel(each.source) for each in self))

    def _save_picture(self, path: Path) -> None:
        if len(self) != 1:
            problem = f"a picture holds one sentence, and there are {len(self)}"
            raise XnmtError(f"{path}: {problem}; save one of them, or all as .html")
        panel = self[0].panel(self[0].title)
        if path.suffix.lower() == ".svg":
            write_atomically(path, picture(panel))
        else:
            from xnmt_bench.explanation.figure import save_panel  # slow to import

            save_panel(panel, path)


def _text(tokens: Sequence[str]) -> str:
    return Tokens.of([token for token in tokens if token != EOS_TOKEN], False).text
