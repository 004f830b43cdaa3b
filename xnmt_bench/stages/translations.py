"""The stage from a trained NMT system to its own translations, and how good they are."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from xnmt_bench.corpora.encoded import EncodedSide, EncodedSplit, concatenated
from xnmt_bench.corpora.sentence import Split
from xnmt_bench.corpora.subwords import EOS, SEPARATOR
from xnmt_bench.corpora.tokens import detokenizer
from xnmt_bench.metrics.comet import comet
from xnmt_bench.metrics.translation import quality
from xnmt_bench.nmt.decoding import translate
from xnmt_bench.stages.systems import VERSIONS, Systems, plain
from xnmt_bench.store import Artefact, file_hash

TOGETHER = 100  # sentences that are translated at once


class Translations(Systems):
    """What a system makes of a corpus by itself."""

    @cached_property
    def translation(self) -> Artefact:
        """The system's own translations of the test set, with BLEU, chrF and TER."""
        return self.translated("test", len(self.split("test")))

    def translated(self, name: Split, sentences: int) -> Artefact:
        """The system's own translations of a split's first sentences."""
        recipe = {
            "version": VERSIONS["translation"],
            "model": self.model_id,
            "encoded": self.encoded.id,
            "beam": self.config.nmt.beam,
        }
        if name != "test":
            recipe |= {"split": name, "sentences": sentences}

        def work(folder: Path) -> dict[str, Any] | None:
            hypotheses = self._translate(name, sentences)
            (folder / f"{name}.txt").write_text("\n".join(hypotheses) + "\n", encoding="utf-8")
            if name != "test":
                return None
            _, references = self._raw_test()
            return quality(self._raw(hypotheses, self.corpus.target_language), references)

        return self.store.make("translation", recipe, work)

    @cached_property
    def outputs(self) -> list[str]:
        """The translation of each test sentence."""
        return _lines(self.translation.path / "test.txt")

    def real(self, name: Split, sentences: int) -> EncodedSplit:
        """A split's first sentences with the system's translations in the references' place."""
        split, target = self.split(name), self.subwords[1]
        path = self.translated(name, sentences if name != "test" else len(split)).path
        ids = [target.encode(text) for text in _lines(path / f"{name}.txt")]
        rows = [
            concatenated(ids[i - (self.depth(name, i) if self.own_context else 0) : i], own)
            for i, own in enumerate(ids)
        ]
        return replace(split, target=EncodedSide.of(rows))

    def depth(self, name: Split, index: int) -> int:
        """How many sentences stand before a sentence of a split in its concatenation."""
        return int((self.split(name).source[index] == SEPARATOR).sum())

    @property
    def own_context(self) -> bool:
        """Whether the system's own translations of the context stand before its translation."""
        return bool(self.config.nmt.context.target)

    @cached_property
    def quality(self) -> dict[str, Any]:
        """BLEU, chrF and TER of the translation, and COMET where its program is configured."""
        settings = plain(self.config.comet)
        if settings["command"] is None:
            return self.translation.facts
        recipe = {
            "version": VERSIONS["comet"],
            "translation": self.translation.id,
            "model": settings["model"],
        }
        if (checkpoint := Path(settings["model"])).is_file():
            recipe["checkpoint"] = file_hash(checkpoint)

        def work(folder: Path) -> dict[str, Any]:
            sources, references = self._raw_test()
            hypotheses = self._raw(self.outputs, self.corpus.target_language)
            return comet(**settings, sources=sources, hypotheses=hypotheses,
                         references=references, folder=folder)  # fmt: skip

        return self.translation.facts | self.store.make("comet", recipe, work).facts

    def _raw_test(self) -> tuple[list[str], list[str]]:
        """Both sides of the test set, in order, as they were before tokenisation."""
        numbers = set(self.split("test").number.tolist())
        kept = [s for n, s in enumerate(self.corpus.sentences("test")) if n in numbers]
        return (
            self._raw([s.source for s in kept], self.corpus.source_language),
            self._raw([s.target for s in kept], self.corpus.target_language),
        )

    def _raw(self, texts: list[str], language: str) -> list[str]:
        """Texts as they were before tokenisation: scores of tokens compare with nothing."""
        if whole := getattr(self.corpus, "join", None):
            texts = [whole(text) for text in texts]
        if not getattr(self.corpus, "tokenizer", None):
            return texts
        join = detokenizer(language)
        return [join(text.split()) for text in texts]

    def _translate(self, name: Split, sentences: int) -> list[str]:
        """Translates a split's first sentences, those of a document one after the other.

        Where the target has a context, it is the system's own translations of it.
        """
        sources, beam = self.split(name).source, self.config.nmt.beam
        places = self._places(name)[:sentences]
        outputs: list[list[int]] = [[] for _ in range(sentences)]
        batches = [
            part[start : start + TOGETHER]
            for part in (np.flatnonzero(places == p) for p in range(int(places.max()) + 1))
            for start in range(0, len(part), TOGETHER)
        ]
        for batch in track(batches, "translating", disable=not self.options.progress_bar):
            chosen = [sources[i] for i in batch]
            depths = [self.depth(name, i) if self.own_context else 0 for i in batch]
            prefixes = [
                [t for y in outputs[i - depth : i] for t in (*y, SEPARATOR)]
                for i, depth in zip(batch, depths, strict=True)
            ]
            for i, ids in zip(
                batch, translate(self.model, chosen, beam, prefixes=prefixes), strict=True
            ):
                outputs[i] = [t for t in ids if t != EOS]
        return [self.model.target_subwords.decode(ids) for ids in outputs]

    def _places(self, name: Split) -> np.ndarray:
        """Each sentence's place in its document; 0 for all where nothing precedes them."""
        split = self.split(name)
        if not self.config.nmt.context.sentences:
            return np.zeros(len(split), dtype=np.int64)
        kept, places, last = set(split.number.tolist()), [], None
        for number, sentence in enumerate(self.corpus.sentences(name)):
            if number in kept:
                places.append(places[-1] + 1 if sentence.document == last else 0)
                last = sentence.document
        return np.asarray(places)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]
