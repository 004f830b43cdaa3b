"""Opens translation models: a trained one, or the one that training starts from."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from xnmt_bench.corpora.passage import Context
from xnmt_bench.corpora.sentence import Corpus, languages
from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.pipeline.settings import SystemSettings
from xnmt_bench.registry import instantiate
from xnmt_bench.sweep import log_once

if TYPE_CHECKING:
    from xnmt_bench.nmt.huggingface import HuggingFaceModel

log = logging.getLogger(__name__)


def open_initial(settings: SystemSettings, name: str, clusters: int) -> HuggingFaceModel:
    """Open the model of another toolkit that training starts from.

    Args:
        settings: the system's.
        name: the system's, for errors.
        clusters: that have markers.

    Raises:
        XnmtError: it cannot be opened.
    """
    try:
        model: HuggingFaceModel = instantiate(
            f"nmt {name!r}", settings.reader | {"clusters": clusters}, settings.initial
        )
    except XnmtError as error:
        raise _name_extra(error) from None
    return model


def open_system(
    settings: SystemSettings, name: str, path: Path, corpus: Corpus | None, context: Context
) -> NMTModel:
    """Open a trained system, on the host.

    Args:
        settings: the system's.
        name: the system's, for errors.
        path: its folder.
        corpus: tells a model of many languages which to read and write, where the configuration
            does not; None without a corpus.
        context: that it is to read.

    Raises:
        XnmtError: it cannot be opened, or it reads no concatenation as this project writes it.
    """
    reader = dict(settings.reader)
    for side in ("source_language", "target_language"):
        if corpus is not None and side in reader and reader[side] is None:
            reader[side] = getattr(corpus, side)
    try:
        model: NMTModel = instantiate(f"nmt {name!r}", reader, str(path))
    except XnmtError as error:
        raise _name_extra(error) from None
    # A model of many languages has codes of its own for them.
    if corpus is not None and "source_language" not in reader:
        pairs = (model.languages, languages(corpus))
        if pairs[0] not in (None, pairs[1]):
            translated, others = (" to ".join(pair) for pair in pairs if pair)
            there = f"translates {translated}, but the corpus {corpus.name} is {others}"
            raise XnmtError(f"{name} {there}")
    problem = unlike(settings.context.trained, model.trained_context)
    if problem := problem or model.refuses(context):
        raise XnmtError(f"{name} {problem}")
    if model.languages:
        source, target = model.languages
        log_once(log, logging.INFO, f"{name} reads {source} and writes {target}: {path}")
    return model


def _name_extra(error: XnmtError) -> XnmtError:
    """Return an error that names the extra, where a package of a back-end is missing."""
    if isinstance(error.__cause__, ImportError):  # only Hugging Face's needs one
        return XnmtError(f"{error.__cause__}: install xnmt_bench[huggingface]")
    return error


def unlike(configured: Context, trained: Context | None) -> str | None:
    """Return why a system is not the configured one, by the context that it was trained with.

    With another context its rows would be taken for those of the system as it was trained, whose
    name, weights and test set they share.

    Args:
        configured: the context that it was trained with, as the configuration says.
        trained: the same, as the system says; None if it does not.
    """
    if trained is None:
        return None
    for name in ("sentences", "following"):
        configured_value, trained_value = getattr(configured, name), getattr(trained, name)
        was = f"was trained with nmt.context.{name}={trained_value}"
        if configured_value > trained_value:
            return f"{was}, so it cannot read {configured_value}"
        if configured_value < trained_value:
            fewer = f", and nmt.context.read={configured_value} to read fewer"
            return f"{was}: give that{fewer if name == 'sentences' else ''}"
    if configured.sentences and configured.target and not trained.target:
        return "was trained without a context on the target side (nmt.context.target=false)"
    if configured.sentences and trained.target and not configured.target:
        return "was trained with a context on the target side (nmt.context.target=true)"
    return None
