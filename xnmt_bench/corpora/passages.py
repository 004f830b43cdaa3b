"""Passages as the test split of a corpus, so that a system's decisions on them are explained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xnmt_bench.corpora.passage import Context, Passage, nearest
from xnmt_bench.corpora.sentence import Corpus, Sentence, Split
from xnmt_bench.corpora.view import CorpusView
from xnmt_bench.store import fingerprint


class PassageCorpus(CorpusView):
    """A test split of documents: a passage's context sentences, then its current sentence.

    Where source and target have unlike numbers of context sentences, the nearest that both have;
    for a system that reads only the source's, all of these, with empty targets.

    Args:
        corpus: how texts are written, and what else a system reads.
        passages: a document each, named by its number.
        context: that the system reads.
    """

    def __init__(self, corpus: Corpus, passages: Sequence[Passage], context: Context) -> None:
        super().__init__(corpus)
        self.documents = [_list_pairs(passage, context.target) for passage in passages]
        self.translated = context.target

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Yield the documents, one a passage."""
        for number, pairs in enumerate(self.documents):
            for position, (source, target) in enumerate(pairs):
                # A document for each passage, so that no context reaches into another one.
                yield Sentence(source, target, str(number), position)

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the sentences themselves."""
        texts = [(s.source, s.target, s.document) for s in self.sentences("test")]
        return {"kind": "passages", "texts": fingerprint({"sentences": texts})}


def _list_pairs(passage: Passage, target: bool) -> list[tuple[str, str]]:
    """Return source and target of a passage's sentences; targets of a context only if asked."""
    sources, targets = passage.source_context, passage.target_context
    if not target:
        targets = [""] * len(sources)
    count = min(len(sources), len(targets))
    before = zip(nearest(sources, count), nearest(targets, count), strict=True)
    return [*before, (passage.source, passage.target)]
