"""This project's own form: a JSON object a line, which any tool's weights convert to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.corpora.sentence import SIDES
from xnmt_bench.corpora.text import json_object, packed_text
from xnmt_bench.corpora.vocabulary.subwords import NO_WORD, UNTIED
from xnmt_bench.dumps.base import Dump, number_array
from xnmt_bench.errors import DataError
from xnmt_bench.parsing import parse_json
from xnmt_bench.words.weighed import EOS_TOKEN, Tokens, Weighed

HEADER = {"form": "weights", "version": 1}
ARRAYS = {"weights": 2, "prefix": 2, "log_probabilities": 1}  # their axes


class JsonLines(Dump[tuple[int, int, str]]):
    """`{"form": "weights", "version": 1, "attention": true}`, then a sentence a line.

    A sentence has `source` and `target` (lists of tokens, `</s>` the last where EOS has a row or
    column), `weights` (a row a target token), and may have `prefix` (of target tokens for target
    tokens), `log_probabilities` (natural, a number a target token) and `number` (from 0; else they
    are counted). `source_words` and `target_words` have the number of each token's word, from 0 (-1
    for `</s>`), where marks of pieces do not show it. Without `attention`, weights are relevance
    and may be negative.
    """

    def __init__(self, path: Path, source: Path | None = None, target: Path | None = None) -> None:
        """Read the header; a DataError if the first line is none."""
        super().__init__(path, source, target)
        try:
            # Read when the dump is opened: the pipeline asks for `attention` before any sentence.
            header = parse_json(next(self.texts_of(self.path), ""))
        except ValueError:
            header = None
        if not isinstance(header, dict) or not HEADER.items() <= header.items():
            problem = f"the first line is not the header; expected {json.dumps(HEADER)}"
            raise DataError(self.path, 1, problem)
        # `is True`: 1 or a text is a mistake, and relevance is the careful reading.
        self.attention = header.get("attention") is True

    def entries(self) -> Iterator[tuple[int, int, str]]:
        """Yield line, number and text of each sentence."""
        texts = islice(enumerate(self.texts_of(self.path), start=1), 1, None)
        written = ((line, text) for line, text in texts if text.strip())
        for place, (line, text) in enumerate(written):
            yield line, place, text

    def weighed(self, entry: tuple[int, int, str]) -> Weighed:
        """Return a line, read."""
        line, place, text = entry
        values = json_object(self.path, line, text)
        for side in SIDES:
            tokens = values.get(side)
            if not isinstance(tokens, list) or not all(isinstance(t, str) for t in tokens):
                raise DataError(self.path, line, f"{side}: expected a list of tokens")
        number = values.get("number", place)
        # A bool is an int to Python, and no number of a sentence.
        if type(number) is not int or not 0 <= number < 2**63:
            raise DataError(self.path, line, f"number: {number!r} is not a whole number from 0")
        given = (name for name in ARRAYS if values.get(name) is not None)
        arrays = {name: self._array(line, name, values[name]) for name in given}
        weights, prefix = arrays.get("weights"), arrays.get("prefix")
        if weights is None:
            raise DataError(self.path, line, "no weights")
        if prefix is not None:
            if not len(weights) and not prefix.size:
                prefix = np.zeros((0, 0))  # a list of no rows has lost its second dimension
            if prefix.shape != (len(weights), len(weights)):
                size = " x ".join(map(str, prefix.shape))
                needed = f"{len(weights)} x {len(weights)}, one for each target token"
                raise DataError(self.path, line, f"prefix: {size}; expected {needed}")
            if np.triu(prefix).any():
                problem = (
                    "prefix: a step has a weight for its own word or a later one; write 0 there"
                )
                raise DataError(self.path, line, problem)
        log_p = arrays.get("log_probabilities")
        eos = tuple(values[side][-1:] == [EOS_TOKEN] for side in SIDES)
        source, target = (
            values[side][:-1] if end else values[side] for side, end in zip(SIDES, eos, strict=True)
        )
        sentence = self.made(line, number, source, target, weights, (eos[0], eos[1]), log_p, prefix)
        return replace(
            sentence,
            source=self._words(line, "source", values, sentence.source),
            target=self._words(line, "target", values, sentence.target),
        )

    def _words(self, line: int, side: str, values: dict[str, Any], tokens: Tokens) -> Tokens:
        """Return tokens with the words that the line gives them, if it does."""
        words = values.get(f"{side}_words")
        if words is None:
            return tokens
        if (
            not isinstance(words, list)
            or len(words) != len(tokens)
            or not all(type(word) is int and UNTIED <= word < 2**31 for word in words)
        ):
            problem = f"{side}_words: expected a number for each {side} token, that of its word"
            raise DataError(self.path, line, problem)
        if (words[-1:] == [NO_WORD]) != tokens.eos:
            problem = f"{side}_words: the last number should be -1 for </s> and for nothing else"
            raise DataError(self.path, line, problem)
        return replace(tokens, words=tuple(words))

    def _array(self, line: int, name: str, values: Any) -> np.ndarray:
        try:
            array = number_array(values)
        except (ValueError, TypeError, OverflowError):
            raise DataError(
                self.path, line, f"{name}: expected numbers, in rows of equal length"
            ) from None
        if array.size and array.ndim != ARRAYS[name]:
            raise DataError(self.path, line, f"{name}: {array.ndim} axes; expected {ARRAYS[name]}")
        # JSON as Python reads it may hold NaN and Infinity.
        if not np.isfinite(array).all():
            raise DataError(self.path, line, f"{name}: a number is not finite")
        return array


def written(sentences: Iterable[Weighed], path: Path, attention: bool) -> Iterator[Weighed]:
    """Pass sentences on and write the form, with one of them in memory.

    Args:
        sentences: in any order.
        path: the file, which is packed.
        attention: whether weights are shares of each step.
    """
    with packed_text(path, level=1) as file:
        file.write(json.dumps(HEADER | {"attention": attention}) + "\n")
        for sentence in sentences:
            file.write(json.dumps(_told(sentence), ensure_ascii=False) + "\n")
            # Passed on while it is written, so that the file and what is computed need one pass.
            yield sentence


def _told(sentence: Weighed) -> dict[str, Any]:
    values: dict[str, Any] = {
        "number": sentence.number,
        "source": list(sentence.source.pieces),
        "target": list(sentence.target.pieces),
        "weights": _rounded(sentence.weights_TS),
    }
    for side in SIDES:
        tokens: Tokens = getattr(sentence, side)
        # Marks tell the words of most sentences.
        if tokens.words != Tokens.of(tokens.pieces[: tokens.size], tokens.eos).words:
            values[f"{side}_words"] = list(tokens.words)
    if sentence.prefix_TT is not None:
        values["prefix"] = _rounded(sentence.prefix_TT)
    if sentence.log_probability_T is not None:
        values["log_probabilities"] = _rounded(sentence.log_probability_T)
    return values


def _rounded(array: np.ndarray) -> Any:
    """Return seven significant digits, which float32 has."""
    return (
        [_rounded(row) for row in array]
        if array.ndim > 1
        else [float(f"{x:.7g}") for x in array.tolist()]
    )
