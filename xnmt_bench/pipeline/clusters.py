"""The stage from source sentences to their clusters: a corpus's training split is resolved once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from xnmt_bench.corpora.sentence import Corpus, Sentence
from xnmt_bench.parquet import read_table, write_table
from xnmt_bench.resolvers.base import Clusters, Resolver
from xnmt_bench.resolvers.examples import pair_with_clusters
from xnmt_bench.store import Store

FILE = "clusters.parquet"
TOGETHER = 1000  # sentences that a resolver is given at once


class StoredClusters(Resolver):
    """A resolver that remembers the training sentences of a corpus.

    Fine-tuning in six ways reads them a dozen times. Clusters are found by their text, so that a
    part of the split is known too; other sentences are resolved as they come.

    Args:
        store: where the clusters lie.
        corpus: whose training split is resolved; its source is English.
        resolver: decides only by the text.
    """

    def __init__(self, store: Store, corpus: Corpus, resolver: Resolver) -> None:
        self._store, self._corpus, self._resolver = store, corpus, resolver
        self.fingerprint = resolver.fingerprint

    @cached_property
    def _by_text(self) -> dict[int, Clusters]:
        """The clusters of each training sentence, by a hash of its text."""
        artefact = self._store.stage(
            "clusters",
            self._write,
            version=1,
            corpus=self._corpus.recipe("train"),
            resolver=self.fingerprint,
        )
        table = read_table(artefact.path / FILE)
        # By a hash: the texts themselves lie in the corpus already.
        keys, texts = table["text"].to_numpy(), table["clusters"].to_pylist()
        return {
            int(key): _parse(text)
            for key, text in zip(keys, texts, strict=True)
            if text is not None
        }

    def _write(self, folder: Path) -> None:
        keys, texts = list[int](), list[str | None]()
        pairs = pair_with_clusters(self._corpus.sentences("train"), self._resolver)
        for sentence, clusters in pairs:
            keys.append(_key(sentence.source))
            # None is kept: a sentence without clusters and an unknown one are two things.
            texts.append(None if clusters is None else json.dumps(clusters))
        columns = {"text": np.array(keys, dtype=np.int64), "clusters": pa.array(texts, pa.string())}
        write_table(pa.table(columns), folder / FILE)

    def resolve(self, sentences: Iterable[Sentence]) -> Iterator[Clusters | None]:
        """Yield stored clusters, and those of the resolver for sentences that are not stored."""
        stream = iter(sentences)
        while part := list(islice(stream, TOGETHER)):
            stored = [self._by_text.get(_key(sentence.source)) for sentence in part]
            pairs = list(zip(part, stored, strict=True))
            # All that are missing at once, since a resolver may resolve many together.
            resolved = iter(
                self._resolver.resolve([s for s, clusters in pairs if clusters is None])
            )
            for clusters in stored:
                yield next(resolved) if clusters is None else clusters


def _key(text: str) -> int:
    """Return 63 bits of a text's hash, which is the same in every process."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def _parse(text: str) -> Clusters:
    return tuple(tuple((first, last) for first, last in cluster) for cluster in json.loads(text))
