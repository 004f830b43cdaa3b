"""The stage from a system to its own translations; outputs are those, or what a file holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from xnmt_bench.corpora.encoded import EncodedSide, EncodedSplit, concatenated
from xnmt_bench.corpora.sentence import Corpus, Sentence, Split, languages
from xnmt_bench.corpora.subwords import EOS, SEPARATOR
from xnmt_bench.nmt.decoding import translate
from xnmt_bench.pipeline.system import System
from xnmt_bench.pipeline.texts import Texts
from xnmt_bench.progress import track
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

    def raw(self) -> tuple[list[str], list[str], list[str]]:
        """Sources, translations and references as they were before tokenisation."""
        raw, (source, target) = self.corpus.raw, languages(self.corpus)
        return (
            [raw(s.source, source) for s in self.sentences],
            [raw(text, target) for text in self.texts],
            [raw(s.target, target) for s in self.sentences],
        )


class Translations:
    """What a system makes of texts by itself, with `beam` hypotheses kept; 1 is greedy."""

    def __init__(
        self, store: Store, system: System, texts: Texts, beam: int, progress: bool
    ) -> None:
        self.system, self.texts = system, texts
        self._store, self._beam, self._progress = store, beam, progress

    def made(self, name: Split, sentences: int | None = None) -> Artefact:
        """The translations of a split's first sentences; of the test set always of all."""
        # Some metrics want the whole test set, and it shall not be translated a second time.
        count = len(self.texts.split(name)) if name == "test" or sentences is None else sentences

        def work(folder: Path) -> None:
            lines = self._translate(name, count)
            (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

        return self._store.make(
            "translation", work, version=5, model=self.system, encoded=self.texts.encoded,
            beam=self._beam, split=name, sentences=count,
            drawn=self.texts.seed if name == "train" else None,
        )  # fmt: skip

    def outputs(self) -> Outputs:
        """Those of the test set."""
        made, texts = self.made("test"), self.texts
        translations, number_N = _lines(made.path / "test.txt"), texts.split("test").number
        return Outputs(
            texts.corpus, texts.test_set, number_N, texts.sentences("test"), translations,
            made.fingerprint,
        )  # fmt: skip

    def split(self, name: Split, sentences: int) -> EncodedSplit:
        """A split's first sentences with the system's translations in the references' place."""
        split, target = self.texts.drawn(name), self.texts.subwords[1]
        texts = _lines(self.made(name, sentences).path / f"{name}.txt")
        ids = [target.encode(text) for text in texts]
        depths = [self._own_depth(name, i) for i in range(len(ids))]
        rows = [concatenated(ids[i - depths[i] : i], own) for i, own in enumerate(ids)]
        return replace(split, target=EncodedSide.of(rows))

    def _own_depth(self, name: Split, index: int) -> int:
        """How many of its own translations stand before a translation."""
        return self.texts.depth(name, index) if self.texts.context.target else 0

    def _translate(self, name: Split, sentences: int) -> list[str]:
        """Translates a split's first sentences, those of a document one after the other.

        Where the target has a context, it is the system's own translations of it.
        """
        split, model = self.texts.drawn(name), self.system.model
        places = self.texts.places(name)[self.texts.order(name)[:sentences]]
        outputs: list[list[int]] = [[] for _ in range(sentences)]
        # A sentence's context has to be translated before it: by place in the document.
        batches = [
            members[start : start + TOGETHER]
            for members in (np.flatnonzero(places == p) for p in range(int(places.max()) + 1))
            for start in range(0, len(members), TOGETHER)
        ]
        for batch in track(batches, "translating", len(batches), "batches", self._progress):
            before = (outputs[i - self._own_depth(name, i) : i] for i in batch)
            prefixes = [[t for ids in context for t in (*ids, SEPARATOR)] for context in before]
            sources = [split.source[i] for i in batch]
            translated = translate(model, sources, self._beam, prefixes=prefixes)
            for i, ids in zip(batch, translated, strict=True):
                outputs[i] = [t for t in ids if t != EOS]  # what was cut off has none
        return [model.target_subwords.decode(ids) for ids in outputs]


def _lines(path: Path) -> list[str]:
    # Not `splitlines`, which also cuts at characters that a translation may hold.
    return path.read_text(encoding="utf-8").split("\n")[:-1]
