"""Neural Monkey: an array of all sentences, and both files of tokens."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import ClassVar
from zipfile import BadZipFile

import numpy as np

from xnmt_bench.corpora.text import present
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.dumps.base import Dump
from xnmt_bench.errors import DataError
from xnmt_bench.words.weighed import Weighed

log = logging.getLogger(__name__)


class NeuralMonkey(Dump[tuple[int, str, str]]):
    """`.npy` (N, S, T): a row a *source* token, padded to the longest sentence, without EOS.

    What is beyond a translation's tokens is rubbish and left out. Of a sentence that is longer than
    the array, tokens beyond it are left out, and a warning counts such sentences.
    """

    texts: ClassVar = ("source", "target")

    def entries(self) -> Iterator[tuple[int, str, str]]:
        """Yield number and both sides of each sentence.

        Raises:
            DataError: no array of three axes, one of pickled objects, or of another number of
                sentences than the files.
        """
        try:
            # Mapped: a padded array may be larger than memory.
            loaded = np.load(present(self.path), mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, OSError, BadZipFile) as error:
            why = (
                "pickled objects, which are never read"
                if "bject" in str(error)
                else "not a .npy file"
            )
            raise DataError(self.path, None, why) from None
        # An archive of several arrays is of another type.
        if not isinstance(loaded, np.ndarray) or loaded.dtype.kind not in "fiu":
            content = loaded.dtype if isinstance(loaded, np.ndarray) else "several arrays"
            raise DataError(self.path, None, f"{content}; expected one array of real numbers")
        self._weights_NST, sides = loaded, (self.sources, self.targets)
        shape: tuple[int, ...] = loaded.shape
        for path, texts in zip((self.source, self.target), sides, strict=True):
            if len(shape) != 3 or shape[0] != len(texts):
                content = f"an array of shape {shape}, but {path} has {len(texts)} lines"
                raise DataError(
                    self.path, None, f"{content}; expected axes (sentences, source, target)"
                )
        pairs = list(zip(*sides, strict=True))
        cut = sum(
            len(split_words(s)) > shape[1] or len(split_words(t)) > shape[2] for s, t in pairs
        )
        if cut:
            longest = f"{shape[1]} source and {shape[2]} target tokens"
            log.warning("%s: %d sentences are cut off after %s", self.path, cut, longest)
        for number, (source, target) in enumerate(pairs):
            yield number, source, target

    def weighed(self, entry: tuple[int, str, str]) -> Weighed:
        """Return a sentence of the array."""
        number, source, target = entry
        rows, columns = self._weights_NST.shape[-2:]
        tokens = split_words(source)[:rows], split_words(target)[:columns]
        weights_ST = self._weights_NST[number, : len(tokens[0]), : len(tokens[1])]
        # A copy of one sentence, turned into a row a target token.
        weights_TS = np.asarray(weights_ST.T, dtype=np.float64)
        return self.made(None, number, *tokens, weights_TS, (False, False))
