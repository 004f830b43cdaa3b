"""The stage from a system to its own translations, or the door by which a file of them comes in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from rich.progress import track

from xnmt_bench.corpora.encoded import EncodedSide, EncodedSplit, concatenated
from xnmt_bench.corpora.sentence import Corpus, Sentence, Split
from xnmt_bench.corpora.subwords import EOS, SEPARATOR
from xnmt_bench.nmt.decoding import translate
from xnmt_bench.pipeline.doors import Door
from xnmt_bench.pipeline.system import System
from xnmt_bench.pipeline.texts import Texts, test_set
from xnmt_bench.store import Artefact, Store

TOGETHER = 100  # sentences that are translated at once


@dataclass(frozen=True)
class Outputs:
    """Translations of a test set, as words between blanks, beside what they are translations of.

    Attributes:
        corpus: where the sentences are from.
        test_set: what `number_N` counts in.
        number_N: of each sentence in the corpus.
        sentences: sources and references.
        texts: the translation of each.
        fingerprint: of the translations.
    """

    corpus: Corpus
    test_set: str
    number_N: np.ndarray
    sentences: list[Sentence]
    texts: list[str]
    fingerprint: str

    @classmethod
    def from_file(cls, door: Door, corpus: Corpus) -> Outputs:
        """Reads a file of one translation a line.

        Raises:
            DataError: it has more or fewer lines than the corpus has test sentences.
        """
        texts, sentences = door.read(), list(corpus.sentences("test"))
        door.counted(len(texts), len(sentences), f"test sentences in {corpus.name}")
        number_N = np.arange(len(texts))
        return cls(corpus, test_set(corpus), number_N, sentences, texts, door.fingerprint)

    def raw(self) -> tuple[list[str], list[str], list[str]]:
        """Sources, translations and references as they were before tokenisation."""
        raw, source, target = self.corpus.raw, *self._languages
        return (
            [raw(s.source, source) for s in self.sentences],
            [raw(text, target) for text in self.texts],
            [raw(s.target, target) for s in self.sentences],
        )

    @property
    def _languages(self) -> tuple[str, str]:
        return self.corpus.source_language, self.corpus.target_language


class Translations:
    """What a system makes of texts by itself.

    Args:
        store: where translations go.
        system: the translator.
        texts: what it translates.
        beam: hypotheses kept; 1 is greedy.
        progress: show a bar.
    """

    def __init__(
        self, store: Store, system: System, texts: Texts, beam: int, progress: bool
    ) -> None:
        self._store, self._system, self._texts = store, system, texts
        self._beam, self._progress = beam, progress

    def made(self, name: Split, sentences: int | None = None) -> Artefact:
        """The translations of a split's first sentences; of all, if their number is not given."""
        count = len(self._texts.split(name)) if sentences is None else sentences

        def work(folder: Path) -> None:
            lines = self._translate(name, count)
            (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

        return self._store.make(
            "translation",
            work,
            version=4,
            model=self._system,
            encoded=self._texts.encoded,
            beam=self._beam,
            split=name,
            sentences=count,
        )

    @cached_property
    def outputs(self) -> Outputs:
        """Those of the test set."""
        made, split = self.made("test"), self._texts.split("test")
        return Outputs(
            self._texts.corpus,
            self._texts.test_set,
            split.number,
            self._texts.sentences("test"),
            _lines(made.path / "test.txt"),
            made.fingerprint,
        )

    def split(self, name: Split, sentences: int) -> EncodedSplit:
        """A split's first sentences with the system's translations in the references' place."""
        split, target = self._texts.split(name), self._texts.subwords[1]
        path = self.made(name, None if name == "test" else sentences).path
        ids = [target.encode(text) for text in _lines(path / f"{name}.txt")]
        depths = [self._own_depth(name, i) for i in range(len(ids))]
        rows = [concatenated(ids[i - depths[i] : i], own) for i, own in enumerate(ids)]
        return replace(split, target=EncodedSide.of(rows))

    def _own_depth(self, name: Split, index: int) -> int:
        """How many of its own translations stand before a translation."""
        return self._texts.depth(name, index) if self._texts.context.target else 0

    def _translate(self, name: Split, sentences: int) -> list[str]:
        """Translates a split's first sentences, those of a document one after the other.

        Where the target has a context, it is the system's own translations of it.
        """
        sources, model = self._texts.split(name).source, self._system.model
        places = self._texts.places(name)[:sentences]
        outputs: list[list[int]] = [[] for _ in range(sentences)]
        # A sentence's context has to be translated before it: by place in the document.
        batches = [
            part[start : start + TOGETHER]
            for part in (np.flatnonzero(places == p) for p in range(int(places.max()) + 1))
            for start in range(0, len(part), TOGETHER)
        ]
        for batch in track(batches, "translating", disable=not self._progress):
            prefixes = [
                [t for y in outputs[i - self._own_depth(name, i) : i] for t in (*y, SEPARATOR)]
                for i in batch
            ]
            translated = translate(
                model, [sources[i] for i in batch], self._beam, prefixes=prefixes
            )
            for i, ids in zip(batch, translated, strict=True):
                outputs[i] = [t for t in ids if t != EOS]
        return [model.target_subwords.decode(ids) for ids in outputs]


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]
