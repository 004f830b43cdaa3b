"""The resolvers F-coref and LingMess, by the package fastcoref (Otmazgin et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from typing import ClassVar, Literal

from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.errors import XnmtError, import_extra
from xnmt_bench.options import Count, Text
from xnmt_bench.resolvers.base import Clusters, Resolver, character_starts, clusters_of_words

CLASSES = {"f-coref": "FCoref", "lingmess": "LingMessCoref"}


class FastCoref(Resolver):
    """A model of fastcoref; its weights come from a hub on first use.

    Args:
        model: which of its two models.
        device: of torch, such as `cuda:0`.
        sentences: how many are resolved together.

    Raises:
        XnmtError: the package is missing, or its model cannot be loaded.
    """

    slow: ClassVar[bool] = True

    def __init__(
        self,
        model: Literal["f-coref", "lingmess"] = "f-coref",
        device: Text = "cpu",
        sentences: Count = 1000,
    ) -> None:
        package = import_extra("fastcoref", "fastcoref")
        try:
            self._model = getattr(package, CLASSES[model])(device=device)
        except (OSError, RuntimeError, ValueError) as error:  # no network, no such device
            first = str(error).partition("\n")[0]
            raise XnmtError(f"resolver 'fastcoref': {model} cannot be loaded: {first}") from error
        self._sentences = sentences
        try:
            # Another version may have other weights under the same name.
            self.fingerprint = f"fastcoref {version('fastcoref')} {model}"
        except PackageNotFoundError:
            self.fingerprint = f"fastcoref {model}"

    def resolve(self, sentences: Iterable[Sentence]) -> Iterator[Clusters | None]:
        """Yield the model's clusters of each sentence."""
        stream = iter(sentences)
        # Many at once: the model makes batches of its own from them.
        while texts := [sentence.source for sentence in islice(stream, self._sentences)]:
            for text, prediction in zip(texts, self._model.predict(texts=texts), strict=True):
                clusters = prediction.get_clusters(as_strings=False)
                yield clusters_of_words(character_starts(text), clusters)
