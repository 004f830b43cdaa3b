"""The stage from a corpus to its vocabularies, or to those that a system brings."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from xnmt_bench.corpora.sentence import Corpus
from xnmt_bench.corpora.vocabulary.subwords import (
    StoredSubwords,
    draw_sample,
    open_vocabulary,
    train_subwords,
    vocabulary_file,
)
from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.loading import shipped
from xnmt_bench.pipeline.settings import SubwordsSettings, SystemSettings
from xnmt_bench.registry import load
from xnmt_bench.store import Stage, Store


def initial_vocabulary(
    nmt: SystemSettings, subwords: SubwordsSettings, side: str
) -> StoredSubwords:
    """Return the vocabulary of the system that training starts from, or a configured one.

    Raises:
        XnmtError: another one is configured, and the system's first step does not learn.
    """
    configured = getattr(subwords, f"{side}_model")
    initial = str(nmt.initial)
    if not shipped(initial).is_dir():
        raise XnmtError(f"nmt.initial={initial}: neither a folder nor a shipped system")
    vocabulary = open_vocabulary(vocabulary_file(shipped(initial), side))
    if not configured or open_vocabulary(configured).fingerprint == vocabulary.fingerprint:
        return vocabulary
    architecture: type[NMTModel] = load("architectures", str(nmt.architecture))
    if architecture.starts_trained:  # new rows of what does not learn would stay means
        other = f"corpus.subwords.{side}_model={configured}"
        raise XnmtError(f"nmt.initial={initial}: its {side} vocabulary differs from {other}")
    return open_vocabulary(configured)


def vocabulary_stage(
    store: Store, corpus: Corpus, subwords: SubwordsSettings, side: str
) -> Stage | None:
    """Return the stage that learns the vocabulary of a side; None where a file of it is given.

    Args:
        store: where it lies.
        corpus: that it is learnt from.
        subwords: how.
        side: `source` or `target`.
    """
    if getattr(subwords, f"{side}_model"):
        return None
    kind, size, count = subwords.type, getattr(subwords, f"{side}_size"), subwords.sentences
    normalization = subwords.normalization

    def work(folder: Path) -> None:
        # Only of the training split: test words must not shape the vocabulary.
        texts: Iterable[str] = (getattr(s, side) for s in corpus.sentences("train"))
        texts = draw_sample(texts, count) if count else texts
        train_subwords(texts, vocabulary_file(folder, side), kind, size, normalization)

    return store.stage(
        "subwords",
        work,
        version=1,
        corpus=corpus.recipe("train"),
        side=side,
        type=kind,
        size=size,
        normalization=normalization,
        sentences=count,
    )
