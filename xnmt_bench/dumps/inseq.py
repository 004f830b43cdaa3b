"""inseq: attributions of a Hugging Face model, as `out.save("x.json")` writes them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from xnmt_bench.corpora.sentence import SIDES
from xnmt_bench.dumps.base import Dump
from xnmt_bench.dumps.inseq_file import InseqOutput, read_file, read_tensor, read_tokens
from xnmt_bench.errors import DataError
from xnmt_bench.words.weighed import EOS_TOKEN, Weighed, joined

log = logging.getLogger(__name__)

# What stands around a sentence and is no word of it; the unknown word is a word. Language codes:
# __de__ (M2M100, Seamless), de_DE and deu_Latn (mBART, NLLB), >>deu<< (Marian), <2de> (MADLAD).
NO_WORD = re.compile(
    r"__[A-Za-z_]+__|[a-z]{2,3}(_[A-Za-z0-9]{2,8})+|▁?>>[^<>\s]+<<|▁?<2[^<>\s]+>|<s>|<pad>|</s>"
)
TASK = re.compile(r"translate \w+ to \w+:")  # T5's prefix
OF_HEADS = "MultiDimensional"  # the beginning of the names of inseq's classes
OF_SOURCE, OF_TARGET, PROBABILITY = "source_attributions", "target_attributions", "probability"
SCALED_TWICE = (
    "%s: inseq scales the embeddings of Marian's decoder twice, and so explains another function "
    "than the one that translates, unless its embed_scale was set to 1 (docs/guide/inseq.md)"
)
Value = TypeVar("Value")
Matrices = tuple[np.ndarray, np.ndarray | None]


class Inseq(Dump[tuple[int, str, dict[str, Any]]]):
    """A sentence is an entry of `sequence_attributions`; sentences are counted as they come.

    Raw scores become one number a word as inseq's `aggregate()` does by default: of an embedding's
    dimensions the Euclidean norm (`vnorm`), of heads and then of layers the mean, and each time
    the absolute scores of a step, source and prefix, are made to sum to 1. Language codes, T5's
    task and what the decoder starts with are dropped, since they are no words. Every step has to be
    there.
    """

    @property
    def content(self) -> InseqOutput:
        """What inseq explained."""
        facts = self.path.stat() if self.path.exists() else None
        # Stages open a dump again and again, and the whole file has to be read for its first entry.
        return _read(self.path, facts and facts.st_size, facts and facts.st_mtime_ns)

    @property
    def _method(self) -> str:
        return str(self.content.info.get("attribution_method", "relevance"))

    @property
    def attention(self) -> bool:  # type: ignore[override]
        """Its weights are attention's."""
        return self._method == "attention"

    @cached_property
    def method(self) -> str:  # type: ignore[override]
        """Inseq's name of the method, with how raw scores became one, and what was explained."""
        aggregated = {_aggregation(name, fields) for name, fields in self.content.sequences}
        changed = sorted(aggregated - {""})
        function = str(self.content.info.get("attributed_fn", PROBABILITY)).removesuffix("_fn")
        if function != PROBABILITY:
            changed.append(function)
        return self._method + (f"[{', '.join(changed)}]" if changed else "")

    def entries(self) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Yield number, class and fields of each sentence."""
        for number, (name, fields) in enumerate(self.content.sequences):
            yield number, name, fields

    def weighed(self, entry: tuple[int, str, dict[str, Any]]) -> Weighed:
        """Return a sentence, aggregated, with only its words and EOS."""
        number, name, fields = entry
        try:
            return self._sentence(number, name, fields)
        except ValueError as error:
            raise DataError(self.path, None, f"sentence {number + 1}: {error}") from None

    def _sentence(self, number: int, name: str, fields: dict[str, Any]) -> Weighed:
        source, target = (_read_field(fields, side, read_tokens) for side in SIDES)
        columns, words = _words(source, self._size_of_task(source)), _words(target, 1)
        first, last = _steps(fields, len(target))
        # A step that lacks scores would make a rule without words.
        if first > words.start or last < words.stop:
            needed = f"all words from target token {words.start + 1} to {words.stop}"
            raise ValueError(
                f"scores for target tokens {first + 1} to {last} only; needed: {needed}"
            )
        if fields.get(OF_SOURCE) is None:
            raise ValueError(f"no {OF_SOURCE}: models without a source cannot be read here")
        scores_ST, scores_TT = _read_field(fields, OF_SOURCE, read_tensor), None
        _check_shape(OF_SOURCE, scores_ST, (len(source), last - first))
        if fields.get(OF_TARGET) is not None:
            scores_TT = _read_field(fields, OF_TARGET, read_tensor)
            _check_shape(OF_TARGET, scores_TT, (len(target), last - first))
            _check_prefix(scores_TT, first)
        scores_ST, scores_TT = _aggregate(scores_ST, scores_TT, name)
        steps = slice(words.start - first, words.stop - first)
        prefix_TT = None
        if scores_TT is not None:
            # NaN is for words that a step cannot see yet, which weigh nothing.
            prefix_TT = np.tril(np.nan_to_num(scores_TT[words, steps].T), -1)
        eos = (source[columns][-1:] == [EOS_TOKEN], target[words][-1:] == [EOS_TOKEN])
        return self.made(
            None,
            number,
            source[columns.start : columns.stop - eos[0]],
            target[words.start : words.stop - eos[1]],
            scores_ST[columns, steps].T,
            eos,
            _log_probability(fields, last - first, steps),
            prefix_TT,
        )

    def _size_of_task(self, source: Sequence[str]) -> int:
        """Return how many of T5's first source tokens are `translate English to German:`."""
        if not str(self.content.info.get("model_class", "")).startswith("T5"):
            return 0
        sizes = range(1, len(source))
        return next((n for n in sizes if TASK.fullmatch(joined(source[:n]))), 0)


class InMemory(Inseq):
    """Sentences that inseq explained in this process.

    Args:
        content: the sentences.
    """

    def __init__(self, content: InseqOutput) -> None:
        super().__init__(Path("inseq's output"))  # which errors name, as they name a file
        self._content = content
        _warn_of_marian(content, self.path)

    @property
    def content(self) -> InseqOutput:
        """What inseq explained."""
        return self._content


@lru_cache(maxsize=1)
def _read(path: Path, size: int | None, changed: int | None) -> InseqOutput:
    """Read a file once, as long as it has the same size and date."""
    content = read_file(path)
    _warn_of_marian(content, path)
    return content


def _warn_of_marian(content: InseqOutput, path: Path) -> None:
    if content.info.get("model_class") == "MarianMTModel":
        log.warning(SCALED_TWICE, path)


def _words(tokens: Sequence[str], start: int) -> slice:
    """Return the places of a side's words and of their EOS; `start` tokens before them are none."""
    stop = len(tokens)
    # mBART has the source's code behind EOS.
    while stop > start and NO_WORD.fullmatch(tokens[stop - 1]) and tokens[stop - 1] != EOS_TOKEN:
        stop -= 1
    # The EOS of an empty translation ends it, and is not the one that the decoder starts with.
    last = stop - (tokens[start:stop][-1:] == [EOS_TOKEN])
    while start < last and NO_WORD.fullmatch(tokens[start]):
        start += 1
    return slice(start, stop)


def _read_field(fields: dict[str, Any], name: str, read: Callable[[Any], Value]) -> Value:
    """Return a field, read; a ValueError names it."""
    try:
        return read(fields.get(name))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _log_probability(fields: dict[str, Any], steps: int, kept: slice) -> np.ndarray | None:
    """Return log-probabilities of the kept steps; None if the file lacks them.

    Raises:
        ValueError: they are none, or of another number of steps.
    """
    scores = fields.get("step_scores") or {}
    if not isinstance(scores, dict):
        raise ValueError("step_scores: expected scores by name")
    if PROBABILITY not in scores:
        return None
    probability_T = _read_field(scores, PROBABILITY, read_tensor)
    if probability_T.shape != (steps,):
        raise ValueError(f"probability: shape {probability_T.shape}, but there are {steps} steps")
    # Asked this way round, so that NaN is refused too; float16 may round above 1.
    if not ((probability_T >= 0) & (probability_T <= 1.001)).all():
        raise ValueError("probability: a value is not between 0 and 1")
    return np.log(np.clip(probability_T[kept], np.finfo(np.float32).tiny, 1))


def _steps(fields: dict[str, Any], length: int) -> tuple[int, int]:
    """Return the first explained target token, and the one behind the last.

    Raises:
        ValueError: the range is not one of this target.
    """
    first, last = fields.get("attr_pos_start", 0), fields.get("attr_pos_end")
    last = length if last is None else last
    if type(first) is not int or type(last) is not int:
        raise ValueError(
            f"attr_pos_start {first!r:.20} and attr_pos_end {last!r:.20} should be whole numbers"
        )
    last = min(last, length)  # as inseq cuts it
    if not 0 <= first < last:
        raise ValueError(
            f"attr_pos_start {first} to attr_pos_end {last} is no range of {length} target tokens"
        )
    return first, last


def _check_shape(name: str, scores: np.ndarray, expected: tuple[int, int]) -> None:
    if scores.ndim < 2 or scores.shape[:2] != expected:
        content = f"{expected[0]} tokens and {expected[1]} steps"
        raise ValueError(f"{name}: shape {scores.shape}, but there are {content}")


def _check_prefix(scores_TT: np.ndarray, first: int) -> None:
    """Check that a step has scores of all words before it and of no others.

    Raises:
        ValueError: it does not.
    """
    by_token = np.abs(scores_TT).reshape(*scores_TT.shape[:2], -1).sum(-1)  # NaN if any is
    tokens, steps = by_token.shape
    visible = np.arange(tokens)[:, None] < first + np.arange(steps)
    if np.isnan(by_token[visible]).any():
        raise ValueError(f"{OF_TARGET}: NaN for a word that its step sees")
    if np.nan_to_num(by_token[~visible]).any():
        raise ValueError(f"{OF_TARGET}: a score for a word that its step cannot see yet")


def _aggregation(name: str, fields: dict[str, Any]) -> str:
    """Return inseq's name of what makes one number of a sentence's scores; empty if they are."""
    try:
        axes = read_tensor(fields.get(OF_SOURCE)).ndim
    except ValueError:  # the sentence is refused where it is read
        return ""
    return "" if axes <= 2 else _function(name)


def _function(name: str) -> str:
    # A class that says neither is read as scores of an embedding, as saved without classes.
    return "mean" if name.startswith(OF_HEADS) else "vnorm"


def _aggregate(scores_ST: np.ndarray, prefix_TT: np.ndarray | None, name: str) -> Matrices:
    """Return one number a word and step, as inseq's default aggregator does.

    Raises:
        ValueError: the two sides have other axes.
    """
    sides = [scores_ST] if prefix_TT is None else [scores_ST, prefix_TT]
    if len({side.shape[2:] for side in sides}) > 1:
        raise ValueError(
            f"source scores have further axes {scores_ST.shape[2:]}, target scores "
            f"{sides[1].shape[2:]}"
        )
    while sides[0].ndim > 2:
        if _function(name) == "mean":
            sides = [side.mean(-1) for side in sides]
        else:
            sides = [np.sqrt((side**2).sum(-1)) for side in sides]
        # Over the words of both sides; a step without any weight keeps its zeros.
        total = sum(np.nansum(np.abs(side), axis=0) for side in sides)
        sides = [side / np.maximum(total, 1e-12) for side in sides]
    return sides[0], sides[1] if len(sides) > 1 else None
