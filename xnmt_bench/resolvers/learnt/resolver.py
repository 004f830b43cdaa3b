"""The resolver that comes with the package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar

from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.corpora.text import present
from xnmt_bench.options import Text
from xnmt_bench.resolvers.base import Clusters, Resolver, character_starts, clusters_of_words
from xnmt_bench.resolvers.learnt.model import WEIGHTS, Model
from xnmt_bench.store import file_hash


class Learnt(Resolver):
    """Names joined by their words, and pronouns assigned by boosted trees; see README.md.

    Args:
        path: other weights, as `python -m benchmarks.resolver.train` writes them; None for
            those of the package.

    Raises:
        DataError: the file is missing, damaged or of another version.
    """

    slow: ClassVar[bool] = True

    def __init__(self, path: Text | Path | None = None) -> None:
        weights = present(Path(path)) if path is not None else WEIGHTS
        self._model, self.fingerprint = Model.load(weights), f"learnt {file_hash(weights)[:16]}"

    def resolve(self, sentences: Iterable[Sentence]) -> Iterator[Clusters | None]:
        """Yield the clusters of each sentence; English is taken for granted."""
        for sentence in sentences:
            # Without its neighbours, since a system reads its sentences one by one.
            passage = self._model.resolve(sentence.source)
            tokens = passage.tokens
            clusters = (
                ((tokens[m.first].start, tokens[m.last].end) for m in entity.mentions)
                for entity in passage.entities
            )
            yield clusters_of_words(character_starts(sentence.source), clusters)
