"""The stages up to a trained NMT system.

A stage asks for the stage before it, which makes what is missing. What decides a result stands in
its recipe; what does not (device, progress bars, loggers) stays out of it.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import hydra
import numpy as np
from omegaconf import DictConfig, OmegaConf
from rich.progress import track

from xnmt_bench.corpora.encoded import Context, EncodedSide, EncodedSplit, concatenated, encode
from xnmt_bench.corpora.reversed import ReversedCorpus
from xnmt_bench.corpora.sentence import SPLITS, Corpus, Split
from xnmt_bench.corpora.subwords import EOS, SEPARATOR, Subwords, train_subwords
from xnmt_bench.corpora.tokens import detokenizer
from xnmt_bench.errors import StoreError, XnmtError
from xnmt_bench.fitting import TrainerOptions, clean, fit
from xnmt_bench.metrics.comet import comet
from xnmt_bench.metrics.translation import quality
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.decoding import translate
from xnmt_bench.nmt.loading import build_model, load_model, save_model, start_from
from xnmt_bench.nmt.training import NMTTraining, TrainingOptions
from xnmt_bench.store import Artefact, Store, file_hash

log = logging.getLogger(__name__)

# Raise a stage's number when its code gives other results from the same recipe.
VERSIONS = {
    "subwords": 1,
    "encoded": 1,
    "nmt": 1,
    "rules": 1,
    "proxy": 1,
    "base": 1,
    "reference": 1,
    "translation": 3,
    "comet": 1,
    "alignment": 1,
    "eflomal": 1,
    "coreference": 2,
}
TRANSLATED = 100  # sentences at once
# Of a corpus's configuration, what its class is not told.
CORPUS_EXTRAS = ("subwords", "max_length", "reversed", "data")


def plain(config: Any) -> Any:
    """A configuration node as plain Python values."""
    return OmegaConf.to_container(config, resolve=True) if OmegaConf.is_config(config) else config


class Systems:
    """The stages up to a trained NMT system."""

    def __init__(
        self, config: DictConfig, options: TrainerOptions | None = None, may_make: bool = True
    ) -> None:
        self.config = config
        self.store = Store(config.store, may_make)
        self.options = options or TrainerOptions(**plain(config.trainer))

    @cached_property
    def corpus(self) -> Corpus:
        """The corpus, streaming."""
        description = plain(self.config.corpus)
        corpus: Corpus = hydra.utils.instantiate(
            {key: value for key, value in description.items() if key not in CORPUS_EXTRAS}
        )
        return ReversedCorpus(corpus) if self.config.corpus.reversed else corpus

    @cached_property
    def subwords(self) -> tuple[Subwords, Subwords]:
        """Both vocabularies: the given system's, given files, or trained on the training split."""
        if given := self.config.nmt.path or self.config.nmt.initial:
            folder = Path(given)
            return Subwords(folder / "source.model"), Subwords(folder / "target.model")
        wanted = self.config.corpus.subwords
        return self._vocabulary("source", wanted), self._vocabulary("target", wanted)

    def _vocabulary(self, side: str, wanted: DictConfig) -> Subwords:
        given = wanted[f"{side}_model"]
        if given:
            return Subwords(given)
        size, kind = wanted[f"{side}_size"], wanted.type
        recipe = {
            "version": VERSIONS["subwords"],
            "corpus": self.corpus.recipe(),
            "side": side,
            "type": kind,
            "size": size,
        }

        def work(folder: Path) -> None:
            texts = (getattr(sentence, side) for sentence in self.corpus.sentences("train"))
            train_subwords(texts, folder / "subwords.model", kind, size)

        return Subwords(self.store.make("subwords", recipe, work).path / "subwords.model")

    @cached_property
    def encoded(self) -> Artefact:
        """The corpus as ids."""
        source, target = self.subwords
        max_length, context = (
            self.config.corpus.max_length,
            Context(**plain(self.config.nmt.context)),
        )
        recipe = {
            "version": VERSIONS["encoded"],
            "corpus": self.corpus.recipe(),
            "subwords": [file_hash(source.path), file_hash(target.path)],
            "max_length": max_length,
        }
        if context.sentences:
            recipe["context"] = plain(self.config.nmt.context)
        artefact = self.store.make(
            "encoded",
            recipe,
            lambda folder: encode(self.corpus, source, target, max_length, folder, context),
        )
        for split in SPLITS:
            if not artefact.facts[split]["kept"]:
                raise XnmtError(f"{self.corpus.name}: the {split} split has no sentence pair")
            if left_out := artefact.facts[split]["too_long"]:
                log.warning(
                    "%s: %d of %d pairs have more than %d subwords and are left out",
                    split,
                    left_out,
                    left_out + artefact.facts[split]["kept"],
                    max_length,
                )
        return artefact

    def split(self, name: Split) -> EncodedSplit:
        """A split of the encoded corpus."""
        return EncodedSplit.open(self.encoded.path, name)

    @cached_property
    def nmt_path(self) -> Path:
        """The folder of the trained system; training it first if nobody has."""
        if not self.config.nmt.path:
            return self.nmt.path
        return Path(self.config.nmt.path)

    def _nmt_recipe(self) -> dict[str, Any]:
        config = plain(self.config.nmt)
        recipe = {
            "version": VERSIONS["nmt"],
            "encoded": self.encoded.id,
            **{key: config[key] for key in ("architecture", "sizes", "training", "seed")},
            "precision": self.options.precision,
        }
        if config["initial"]:
            recipe["initial"] = _weights_id(Path(config["initial"]))
        return recipe

    @cached_property
    def nmt(self) -> Artefact:
        """The trained system."""
        config = plain(self.config.nmt)
        training = TrainingOptions(**config["training"])

        def work(folder: Path) -> dict[str, Any]:
            train, valid = self.split("train"), self.split("valid")

            def build() -> NMTTraining:
                model = build_model(config["architecture"], config["sizes"], *self.subwords)
                if config["initial"]:
                    start_from(model, config["initial"])
                return NMTTraining(model, train, valid, training)

            module, facts = fit(
                build,
                folder,
                config["seed"],
                training.max_epochs,
                training.patience,
                self.options,
                f"NMT {config['name']}",
            )
            save_model(module.model, config["architecture"], config["sizes"], folder)  # type: ignore[arg-type]
            clean(folder)
            return {**facts, "name": config["name"], "train_sentences": len(train)}

        return self.store.make("nmt", self._nmt_recipe(), work)

    @cached_property
    def model(self) -> NMTModel:
        """The trained system, open."""
        return load_model(self.nmt_path)

    @cached_property
    def translation(self) -> Artefact:
        """The system's own translations of the test set, with BLEU and chrF."""
        beam = self.config.nmt.beam
        recipe = {
            "version": VERSIONS["translation"],
            "model": self.model_id,
            "encoded": self.encoded.id,
            "beam": beam,
        }

        def work(folder: Path) -> dict[str, Any]:
            hypotheses = self._translate(beam)
            (folder / "test.txt").write_text("\n".join(hypotheses) + "\n", encoding="utf-8")
            _, references = self._raw_test()
            return quality(self._raw(hypotheses, self.corpus.target_language), references)

        return self.store.make("translation", recipe, work)

    @cached_property
    def outputs(self) -> list[str]:
        """The translation of each test sentence."""
        return (self.translation.path / "test.txt").read_text(encoding="utf-8").split("\n")[:-1]

    @cached_property
    def real(self) -> EncodedSplit:
        """The test set with the system's own translations in the place of the references."""
        split, target = self.split("test"), self.subwords[1]
        ids = [target.encode(output) for output in self.outputs]
        rows = [
            concatenated(ids[i - (self.depth(i) if self.own_context else 0) : i], ids[i])
            for i in range(len(split))
        ]
        return replace(split, target=EncodedSide.of(rows))

    def depth(self, index: int) -> int:
        """How many sentences stand before a test sentence in its concatenation."""
        return int((self.split("test").source[index] == SEPARATOR).sum())

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
        if not getattr(self.corpus, "tokenizer", None):
            return texts
        join = detokenizer(language)
        return [join(text.split()) for text in texts]

    def _translate(self, beam: int) -> list[str]:
        """Translates the test set, sentences of a document one after the other.

        Where the target has a context, it is the system's own translations of it.
        """
        sources = self.split("test").source
        places, outputs = self._places(), [[] for _ in range(len(sources))]  # type: ignore[var-annotated]
        batches = [
            part[start : start + TRANSLATED]
            for part in (np.flatnonzero(places == p) for p in range(int(places.max()) + 1))
            for start in range(0, len(part), TRANSLATED)
        ]
        for batch in track(batches, "translating", disable=not self.options.progress_bar):
            chosen = [sources[i] for i in batch]
            depths = [self.depth(i) if self.own_context else 0 for i in batch]
            prefixes = [
                [t for y in outputs[i - depth : i] for t in (*y, SEPARATOR)]
                for i, depth in zip(batch, depths, strict=True)
            ]
            for i, ids in zip(
                batch, translate(self.model, chosen, beam, prefixes=prefixes), strict=True
            ):
                outputs[i] = [t for t in ids if t != EOS]
        return [self.model.target_subwords.decode(ids) for ids in outputs]

    def _places(self) -> np.ndarray:
        """Each test sentence's place in its document; 0 for all where nothing precedes them."""
        split = self.split("test")
        if not self.config.nmt.context.sentences:
            return np.zeros(len(split), dtype=np.int64)
        kept, places, last = set(split.number.tolist()), [], None
        for number, sentence in enumerate(self.corpus.sentences("test")):
            if number in kept:
                places.append(places[-1] + 1 if sentence.document == last else 0)
                last = sentence.document
        return np.asarray(places)

    @cached_property
    def model_id(self) -> str:
        """The fingerprint of the system's weights."""
        return _weights_id(self.nmt_path)


def _weights_id(folder: Path) -> str:
    path = folder / "model.safetensors"
    if not path.exists():
        raise StoreError(f"{folder}: no NMT model is here")
    return file_hash(path)[:16]
