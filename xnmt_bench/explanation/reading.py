"""Explanations from inseq's objects and files, and from files that `Explanation.save` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from xnmt_bench.dumps.inseq import OF_SOURCE, OF_TARGET, PROBABILITY, InMemory, Inseq
from xnmt_bench.dumps.inseq_file import read_output, read_tensor, read_tokens
from xnmt_bench.errors import DataError
from xnmt_bench.explanation.explanation import OURS, Explanation, Explanations
from xnmt_bench.words import Weighed


def load_explanations(path: str | Path) -> Explanations:
    """Return the explanations of an inseq file, one a sentence; see `Explanation.save`.

    Args:
        path: the file; raw scores are aggregated as inseq does by default.

    Raises:
        DataError: the file, or a sentence of it, cannot be read.
    """
    return _read_explanations(Inseq(Path(path)))


def from_inseq(output: Any) -> Explanations:
    """Return the explanations of inseq's output, one a sentence, without a file.

    They are those of `load_explanations` and the file that `output.save` writes.

    Args:
        output: what inseq's `attribute` returned, or a list of its `sequence_attributions`, which
            lack the method's name; raw scores are aggregated as inseq does by default.

    Raises:
        XnmtError: it is something else.
        DataError: a sentence of it cannot be read.
    """
    return _read_explanations(InMemory(read_output(output)))


def _read_explanations(dump: Inseq) -> Explanations:
    content = dump.content
    saved = content.info.get(OURS)
    if isinstance(saved, list):
        sentences = [fields for _, fields in content.sequences]
        try:
            return Explanations(_as_saved(*each) for each in zip(sentences, saved, strict=True))
        except (ValueError, KeyError, TypeError, AttributeError):
            problem = "not as save() writes explanations"
            raise DataError(dump.path, None, problem) from None
    explanations = Explanations()
    for sentence in dump:
        if isinstance(sentence, DataError):
            raise sentence
        explanations.append(_of_weighed(sentence, dump.method))
    return explanations


def _as_saved(fields: dict[str, Any], saved: dict[str, Any]) -> Explanation:
    """Return what `save` wrote, to the last digit; it holds NaN where a step is not explained."""
    prefix = fields[OF_TARGET]
    explanation = Explanation(
        read_tokens(fields["source"]),
        read_tokens(fields["target"])[1:],
        [str(label) for label in saved["labels"]],
        torch.from_numpy(read_tensor(fields["step_scores"][PROBABILITY])).float(),
        torch.from_numpy(read_tensor(fields[OF_SOURCE]).T.copy()).float(),
        None if prefix is None else torch.from_numpy(read_tensor(prefix)[1:].T.copy()).float(),
        str(saved["explainer"]),
        _read_words(saved["source_words"]),
        _read_words(saved["target_words"]),
    )
    steps, prefix_TT = len(explanation.labels), explanation.prefix_TT
    shapes = [explanation.probabilities.shape, explanation.source_TS.shape]
    expected = [(steps,), (steps, len(explanation.source_tokens))]
    if prefix_TT is not None:
        shapes.append(prefix_TT.shape)
        expected.append((steps, len(explanation.target_tokens)))
    sides = (
        (explanation.source_tokens, explanation.source_words),
        (explanation.target_tokens, explanation.target_words),
    )
    tied = all(words is None or len(words) == len(tokens) for tokens, words in sides)
    if not tied or list(map(tuple, shapes)) != expected:
        raise ValueError("other lengths than those of the sentence")
    return explanation


def _read_words(words: list[int] | None) -> list[int] | None:
    """Return the word of each piece as `save` wrote it."""
    return None if words is None else [int(word) for word in words]


def _of_weighed(sentence: Weighed, method: str) -> Explanation:
    target, log_p = list(sentence.target.pieces), sentence.log_probability_T
    prefix = sentence.prefix_TT
    probabilities = np.full(len(target), np.nan) if log_p is None else np.exp(log_p)
    if prefix is not None:
        unseen = np.triu(np.ones(prefix.shape, dtype=bool))
        prefix = np.where(unseen, np.nan, prefix)
    return Explanation(
        list(sentence.source.pieces),
        target,
        target,
        torch.from_numpy(probabilities).float(),
        torch.from_numpy(sentence.weights_TS).float(),
        None if prefix is None else torch.from_numpy(prefix).float(),
        method,
    )
