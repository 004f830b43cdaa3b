"""The true translations of a contrastive set as a corpus, each behind its context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xnmt_bench.corpora.passage import nearest
from xnmt_bench.corpora.sentence import Corpus, Sentence, Split
from xnmt_bench.corpora.suites.contrastive.group import Group
from xnmt_bench.corpora.view import CorpusView
from xnmt_bench.store import fingerprint


class PassageCorpus(CorpusView):
    """A test split of documents: a group's context sentences, then its current sentence.

    Where source and target have unlike numbers of context sentences, the nearest that both have.
    """

    def __init__(self, corpus: Corpus, groups: Sequence[Group]) -> None:
        super().__init__(corpus)
        self._groups = groups

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Yield the documents, one a group."""
        for number, group in enumerate(self._groups):
            true = group.variants[group.true]
            count = min(len(group.source_context), len(true.context))
            sources = (*nearest(group.source_context, count), group.source)
            targets = (*nearest(true.context, count), true.text)
            for position, (source, target) in enumerate(zip(sources, targets, strict=True)):
                # A document for each group, so that no context reaches into another group.
                yield Sentence(source, target, str(number), position)

    def recipe(self) -> dict[str, Any]:
        """Return the sentences themselves."""
        texts = [(s.source, s.target, s.document) for s in self.sentences("test")]
        return {"kind": "passages", "texts": fingerprint({"sentences": texts})}
