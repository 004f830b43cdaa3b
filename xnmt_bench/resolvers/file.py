"""Clusters that another tool wrote to a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from xnmt_bench.corpora.formats.clusters import ClustersOfTexts, letter_starts, read_clusters
from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.corpora.text import present
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.errors import DataError
from xnmt_bench.options import Text
from xnmt_bench.resolvers.base import Clusters, Resolver, clusters_of_words
from xnmt_bench.store import file_hash


class File(Resolver):
    """JSON lines of `tokens` (or `document`) and `clusters`, as s2e and AllenNLP write them.

    Args:
        path: the file. Sentences are found by their letters, in any order.

    Raises (when sentences are resolved):
        DataError: a line is not in this form, or no line is of the sentences.
    """

    def __init__(self, path: Text | Path) -> None:
        self._path = Path(path)
        self.fingerprint = file_hash(present(self._path))[:16]

    @cached_property
    def _clusters(self) -> ClustersOfTexts:
        clusters = ClustersOfTexts()
        for line in read_clusters(self._path):
            clusters.add(line.text, line.clusters)
        return clusters

    def resolve(self, sentences: Iterable[Sentence]) -> Iterator[Clusters | None]:
        """Yield the file's clusters of each sentence; None for one that it lacks."""
        found_count = missing_count = 0
        for sentence in sentences:
            clusters = self._clusters.find(sentence.source)
            if clusters is None:
                missing_count += 1
                yield None
                continue
            found_count += 1
            # Stretches count letters too, so they hold for words that are cut otherwise.
            starts = letter_starts(split_words(sentence.source))
            yield clusters_of_words(starts, clusters)
        # Some unknown sentences are usual; if all are, the file is of another text.
        if missing_count and not found_count:
            problem = f"the file has none of the {missing_count:,} sentences to resolve"
            raise DataError(self._path, None, problem)
