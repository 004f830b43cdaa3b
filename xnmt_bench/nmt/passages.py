"""Texts that a user gives: read as a model reads them, and translated in batches."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from xnmt_bench.corpora.passage import Context, Passage
from xnmt_bench.corpora.vocabulary.subwords import Tied
from xnmt_bench.device import Room, device_of
from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt import decoding
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batching import buckets
from xnmt_bench.progress import bar
from xnmt_bench.sweep import log_once

log = logging.getLogger(__name__)

# What a search reads at once: source ids on a CPU, and the bytes of each on a GPU.
SEARCHED = {"cpu": 3000, "each": 2**20}
Text = str | tuple[str, str] | Passage


def require_model(model: Any) -> NMTModel:
    """Return the model.

    Raises:
        XnmtError: it is a name, or a model of another library.
    """
    if isinstance(model, NMTModel):
        return model
    if isinstance(model, str | Path):
        raise XnmtError(
            f"model: {str(model)!r} is a name; open it with xnmt_bench.load({str(model)!r})"
        )
    advice = "open one with xnmt_bench.load"
    # As transformers keeps what its model was opened by.
    if name := getattr(model, "name_or_path", ""):
        advice = f"open it with xnmt_bench.load({name!r})"
    raise XnmtError(f"model: a {type(model).__name__} is no model of this package; {advice}")


def read_passages(texts: Iterable[Text], targets: Iterable[str] | None = None) -> list[Passage]:
    """Return texts as passages; the target of a source without one is empty.

    Args:
        texts: sources, (source, target) pairs, or passages.
        targets: of sources, one each.

    Raises:
        XnmtError: a text stands in the place of a list, one of them is of another kind, or there
            are more or fewer targets than sources.
    """
    # A text is a sequence of letters, and one pair a sequence of two sources.
    if isinstance(texts, str | Passage) or _is_pair(texts, tuple):
        raise XnmtError(f"give a list of sentences: [{texts!r}]")
    if isinstance(targets, str):
        raise XnmtError(f"give a list of targets: [{targets!r}]")
    # Of a frame or a mapping, a list has the names of its columns.
    if any(isinstance(side, Mapping) or hasattr(side, "columns") for side in (texts, targets)):
        raise XnmtError("give a list of sentences, such as zip(frame['source'], frame['target'])")
    # Read to the end first: an error in the last one shows before the first is explained.
    texts = list(texts)
    passages = [_read_passage(number, text) for number, text in enumerate(texts, start=1)]
    return passages if targets is None else _with_targets(passages, list(targets))


def _is_pair(text: object, kinds: Any) -> bool:
    return isinstance(text, kinds) and [*map(type, text)] == [str, str]


def _read_passage(number: int, text: Any) -> Passage:
    if isinstance(text, Passage):
        passage = text
    elif isinstance(text, str):
        passage = Passage(text, "")
    elif _is_pair(text, tuple | list):
        passage = Passage(*text)
        # A source without a target is translated; a pair says what is explained.
        _require_words(f"target {number}", passage.target)
    else:
        kinds = "not a source or a (source, target) pair of texts"
        raise XnmtError(f"sentence {number} is {text!r}, {kinds}")
    _require_words(f"sentence {number}", passage.source)
    return passage


def _require_words(name: str, text: Any) -> None:
    if not isinstance(text, str):
        raise XnmtError(f"{name} is {text!r}, not a text")
    if not text.strip():
        raise XnmtError(f"{name} is empty")


def _with_targets(passages: Sequence[Passage], targets: Sequence[str]) -> list[Passage]:
    """Return passages with their targets, which come as a list of their own."""
    if len(targets) != len(passages):
        counts = f"{len(targets)} targets for {len(passages)} sources"
        raise XnmtError(f"{counts}; give one for each")
    for number, (passage, target) in enumerate(zip(passages, targets, strict=True), start=1):
        _require_words(f"target {number}", target)
        if passage.target:
            raise XnmtError(f"sentence {number} has two targets: its own and one of targets")
    return [replace(p, target=target) for p, target in zip(passages, targets, strict=True)]


def tie_passages(model: NMTModel, passages: Sequence[Passage]) -> list[tuple[Tied, Tied]]:
    """Return source and target ids of each passage with their words, in the context that is read.

    A context that is longer than the model reads loses its farthest sentences.

    Raises:
        XnmtError: a sentence is longer than the model reads, or has another context than it reads.
    """
    tied = [_tie(model, passage, context_of(model, passage)) for passage in passages]
    limits = (model.longest_source, model.longest_target)
    for number, sides in enumerate(tied, start=1):
        for side, of_side, most in zip(("source", "target"), sides, limits, strict=True):
            if most is not None and len(of_side.ids) > most:
                count = f"{len(of_side.ids)} {side} tokens"
                raise XnmtError(f"sentence {number} has {count}; the model reads at most {most}")
    return tied


def _tie(model: NMTModel, passage: Passage, context: Context) -> tuple[Tied, Tied]:
    """Return the ids of a passage with the nearest sentences before it that the model reads."""
    limits = (model.longest_source, model.longest_target)
    for sentences in range(context.sentences, -1, -1):
        tied = passage.read(replace(context, sentences=sentences)).tie(*model.vocabularies)
        if all(most is None or len(x.ids) <= most for x, most in zip(tied, limits, strict=True)):
            break
        if sentences:
            log_once(
                log,
                logging.WARNING,
                "a context is longer than the model reads: its farthest sentences are left out",
            )
    return tied


def translate(model: NMTModel, sources: Iterable[str | Passage], beam: int = 4) -> list[str]:
    """Translate sentences in batches; a bar shows from two seconds on.

    Args:
        model: an open model, from `xnmt_bench.load`.
        sources: the sentences; passages, of a system that reads the sentences around each.
        beam: hypotheses that are kept; 1 is greedy.

    Returns:
        Their translations, in their order.

    Raises:
        XnmtError: the model is not open, or a sentence is not a text or is longer than the model
            reads.
    """
    passages = translate_passages(require_model(model), read_passages(sources), beam)
    return [passage.target for passage in passages]


def translate_passages(
    model: NMTModel, passages: Sequence[Passage], beam: int = 4
) -> list[Passage]:
    """Return passages with the model's own translations as their targets.

    Args:
        model: the system.
        passages: their targets are not read; those of their contexts are.
        beam: hypotheses that are kept; 1 is greedy.

    Raises:
        XnmtError: as `tie_passages`.
    """
    tied = tie_passages(model, [replace(passage, target="") for passage in passages])
    # Sorted by length in batches, so that little is padding.
    lengths = np.array([len(source.ids) for source, _ in tied])

    def search(tokens: int) -> list[str]:
        translations: list[list[int]] = [[]] * len(tied)
        with bar(len(tied), "translating", "sentences") as progress:
            for group in buckets(lengths, np.arange(len(tied)), tokens):
                sources = [tied[i][0].ids for i in group]
                # The target is yet to come, so its EOS is left out of the prefix.
                prefixes = [tied[i][1].ids[:-1] for i in group]
                for i, ids in zip(
                    group, decoding.translate(model, sources, beam, prefixes), strict=True
                ):
                    translations[i] = ids
                progress.update(len(group))
        decoding.warn_of_unended(translations)
        return [model.target_subwords.decode(ids) for ids in translations]

    targets = Room(None, **SEARCHED).tried(device_of(model), search) if tied else []
    return [replace(p, target=target) for p, target in zip(passages, targets, strict=True)]


def context_of(model: NMTModel, passage: Passage) -> Context:
    """Return the sentences around each that a model reads: as trained, or all if unknown.

    Raises:
        XnmtError: the passage has a context that the model does not read, or lacks the target side
            of one that it reads.
    """
    before, behind = len(passage.source_context), len(passage.following)
    context = Context(before, target=bool(passage.target_context), following=behind)
    trained = model.trained_context
    problem = model.refuses(context) if trained is None else None
    if trained and before and not trained.sentences:
        problem = "was trained without a context"
    if problem:
        raise XnmtError(f"a sentence has others before it, but the system {problem}")
    if trained and behind and not trained.following:
        raise XnmtError("a sentence has others behind it, but the system was trained without")
    # Without it the sentence would be read alone, in silence.
    if trained and trained.target and before and not passage.target_context:
        raise XnmtError(
            "the system reads translations of the sentences before; give target_context"
        )
    return trained or context
