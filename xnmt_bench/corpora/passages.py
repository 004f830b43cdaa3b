"""Passages as the test split of a corpus, so that a system's decisions on them are explained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xnmt_bench.corpora.passage import Passage, nearest
from xnmt_bench.corpora.sentence import Corpus, Sentence, Split
from xnmt_bench.corpora.view import CorpusView
from xnmt_bench.store import fingerprint


class PassageCorpus(CorpusView):
    """A test split of documents: a passage's context sentences, then its current sentence.

    Where source and target have unlike numbers of context sentences, the nearest that both have.

    Args:
        corpus: how texts are written, and what else a system reads.
        passages: a document each, named by its number.
    """

    def __init__(self, corpus: Corpus, passages: Sequence[Passage]) -> None:
        super().__init__(corpus)
        self._passages = passages

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Yield the documents, one a passage."""
        for number, passage in enumerate(self._passages):
            count = min(len(passage.source_context), len(passage.target_context))
            sources = (*nearest(passage.source_context, count), passage.source)
            targets = (*nearest(passage.target_context, count), passage.target)
            for position, (source, target) in enumerate(zip(sources, targets, strict=True)):
                # A document for each passage, so that no context reaches into another one.
                yield Sentence(source, target, str(number), position)

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the sentences themselves."""
        texts = [(s.source, s.target, s.document) for s in self.sentences("test")]
        return {"kind": "passages", "texts": fingerprint({"sentences": texts})}
