"""What reads a dump of another tool: sentence by sentence, a bad one named and left out."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from xnmt_bench.corpora.sentence import SIDES
from xnmt_bench.corpora.text import lines
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.parsing import parse_number
from xnmt_bench.words.weighed import Tokens, Weighed

Entry = TypeVar("Entry")
ROUNDING = 0.02  # by which printed weights of a step may exceed 1 together
HARD = re.compile(r"\d+-\d+")  # a link between words
DECIMAL_COMMA = re.compile(r"\d+,\d+")


class Dump(ABC, Generic[Entry]):
    """A file of weights; a plug-in declares one in the entry-point group `xnmt_bench.dumps`.

    Args:
        path: the weights.
        source: the source tokens, a sentence a line, where the weights' file lacks them.
        target: the same of the translations.

    Attributes:
        texts: which of the two files it takes.
        attention: its weights are shares of each step, so that none is negative and they sum to 1
            at most.
        method: what explains, where the file says it; its row is named by it.
        unread_eos: the tool behind `definition=softalignments` leaves the target's EOS out.
    """

    texts: ClassVar[Sequence[str]] = ()
    attention: bool = True
    method: str = ""
    unread_eos: ClassVar[bool] = False

    def __init__(self, path: Path, source: Path | None = None, target: Path | None = None) -> None:
        self.path = Path(path)
        for side, path_of_side in (("source", source), ("target", target)):
            if (path_of_side is not None) != (side in self.texts):
                needs = "needs a file of" if path_of_side is None else "takes no file of"
                raise XnmtError(f"{path}: this format {needs} {side} tokens (relevance.{side})")
        self.source, self.target = source or path, target or path

    @abstractmethod
    def entries(self) -> Iterator[Entry]:
        """Yield the raw entry of each sentence in the file."""

    @abstractmethod
    def weighed(self, entry: Entry) -> Weighed:
        """Read one entry; a DataError where that cannot be done."""

    def __iter__(self) -> Iterator[Weighed | DataError]:
        """Yield each sentence, or its error; a file that ends too early is an error as well."""
        count, numbers = 0, set[int]()
        for entry in self.entries():
            count += 1  # of entries, also of those that are refused
            try:
                sentence = self.weighed(entry)
                if sentence.number in numbers:
                    problem = f"sentence {sentence.number} is listed twice"
                    raise DataError(self.path, None, problem)
                numbers.add(sentence.number)
                yield sentence
            except DataError as error:
                yield error
        for side in self.texts:
            expected = len(getattr(self, f"{side}s"))
            if count < expected:
                path = getattr(self, side)
                yield DataError(
                    self.path, None, f"{count} sentences, but {path} has {expected} lines"
                )

    def made(
        self,
        line: int | None,
        number: int,
        source: Sequence[str],
        target: Sequence[str],
        weights_TS: np.ndarray,
        eos: tuple[bool, bool],
        log_probability_T: np.ndarray | None = None,
        prefix_TT: np.ndarray | None = None,
    ) -> Weighed:
        """Return a sentence, if its parts fit.

        Args:
            line: where it stands.
            number: of the sentence, from 0.
            source: its tokens, without EOS.
            target: the translation's, likewise.
            weights_TS: with EOS's row and column, where there are any.
            eos: whether EOS has a column (source), and a row (target).
            log_probability_T: of the target tokens.
            prefix_TT: weights of the prefix.

        Raises:
            DataError: weights that are none, or fewer or more than there are tokens.
        """
        if not weights_TS.size:  # of an empty translation, whose weights are over as much
            weights_TS = np.zeros((0, len(source) + eos[0]))
        sides = [Tokens.of(tokens, e) for tokens, e in zip((source, target), eos, strict=True)]
        if problem := _unfit(sides, weights_TS) or unlikely(weights_TS, self.attention):
            raise DataError(self.path, line, problem)
        if log_probability_T is not None:
            if len(log_probability_T) != len(weights_TS):
                counted = f"{len(log_probability_T)} log-probabilities"
                problem = f"{counted}, but weights of {len(weights_TS)} target tokens"
                raise DataError(self.path, line, problem)
            # Asked this way round, so that NaN is refused too.
            if not (log_probability_T <= ROUNDING).all():
                raise DataError(self.path, line, "a log-probability is above 0 or not a number")
        return Weighed(number, sides[0], sides[1], weights_TS, prefix_TT, log_probability_T)

    @cached_property
    def sources(self) -> list[str]:
        """The lines of the source tokens' file."""
        return list(self.texts_of(self.source))

    @cached_property
    def targets(self) -> list[str]:
        """The same of the translations."""
        return list(self.texts_of(self.target))

    def texts_of(self, path: Path) -> Iterator[str]:
        """Yield the lines of a text file."""
        # Bytes that are not UTF-8 are kept, so that the sentence that has them is refused.
        decoded = (line.decode("utf-8", "surrogateescape") for line in lines(path))
        return (text.removeprefix("\ufeff").rstrip("\r\n") for text in decoded)

    def numbers(self, line: int, text: str, between: str | None = None) -> list[float]:
        """Return the numbers of a line; a DataError names what is none."""
        numbers = list[float]()
        for part in text.split(between):
            try:
                numbers.append(parse_number(part))
            except ValueError:
                raise DataError(self.path, line, f"{part!r} is not a number{_why(part)}") from None
        return numbers

    def matrix(self, rows: Sequence[tuple[int, list[float]]], of: str) -> np.ndarray:
        """Return rows of numbers with their lines as a matrix; a DataError if they are ragged."""
        for line, row in rows:
            if len(row) != len(rows[0][1]):
                problem = f"{len(row)} weights, but the rows above have {len(rows[0][1])}"
                raise DataError(self.path, line, f"{of}: {problem}")
        if not rows:
            return np.zeros((0, 0))
        return np.array([row for _, row in rows], dtype=np.float64).reshape(len(rows), -1)


def number_array(value: Any) -> np.ndarray:
    """Return lists of numbers as an array of float64; a ValueError where they are none."""
    try:
        array = np.array(value)
    except ValueError:
        raise ValueError("ragged lists") from None
    if array.dtype.kind not in "iuf" and array.size:  # numpy would read texts as numbers
        raise ValueError("expected lists of numbers")
    return array.astype(np.float64)


def _why(text: str) -> str:
    if HARD.fullmatch(text):
        return " but a link between words; write weights instead (soft alignment)"
    if DECIMAL_COMMA.fullmatch(text):
        return "; write a decimal point instead of the comma"
    return ""


def _unfit(sides: Sequence[Tokens], weights_TS: np.ndarray) -> str | None:
    """Return why tokens and weights do not belong together; None if they may."""
    for name, tokens, count in zip(SIDES, sides, weights_TS.shape[::-1], strict=True):
        if len(tokens) != count:
            whether = "with EOS" if tokens.eos else "without EOS"
            # Detokenised text is the usual mistake, so the message asks for it.
            problem = f"{len(tokens)} {name} tokens {whether}, but weights of {count}"
            return f"{problem}{_likely_cause(name, count - len(tokens))}: {tokens.text[:60]!r}"
        # Bytes that are not UTF-8 were decoded into this range.
        if any("\ud800" <= letter <= "\udfff" for letter in tokens.text):
            return f"the {name} is not UTF-8"
    return None


def _likely_cause(side: str, surplus: int) -> str:
    """Return why there may be more weights than tokens; fewer have no usual cause."""
    if surplus == 1:
        return " (do the weights include EOS, and the tokens not?)"
    # A word of a text without its subwords' marks is fewer tokens than it had.
    return f" (is the {side} detokenised?)" if surplus > 1 else ""


def unlikely(weights_TS: np.ndarray, attention: bool) -> str | None:
    """Return why weights are implausible; None if they are not.

    Args:
        weights_TS: the weights.
        attention: they are shares.
    """
    if not np.isfinite(weights_TS).all():
        return f"a weight is {weights_TS[~np.isfinite(weights_TS)][0]}"
    if weights_TS.size and not weights_TS.any():
        return "every weight is 0, as Sockeye 1 writes where it has none (a Transformer)"
    if not attention:
        return None
    if (weights_TS < 0).any():
        return f"a weight is negative: {weights_TS.min():g}"
    sums_T = weights_TS.sum(1)
    # Less than 1 is fine: tools leave out EOS or a language code.
    if (sums_T > 1 + ROUNDING).any():
        step = int(sums_T.argmax())
        problem = f"the weights of target token {step + 1} sum to {sums_T[step]:.3f}"
        return (
            f"{problem}, more than 1: these are not attention weights, or source and target are "
            "exchanged"
        )
    return None
