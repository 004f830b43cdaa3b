"""The stages up to a trained NMT system.

A stage asks for the stage before it, which makes what is missing. What decides a result stands in
its recipe; what does not (device, progress bars, loggers) stays out of it.
"""

from __future__ import annotations

import logging
from functools import cached_property
from pathlib import Path
from typing import Any

import hydra
from hydra.errors import InstantiationException
from omegaconf import DictConfig, OmegaConf

from xnmt_bench.corpora.encoded import Context, EncodedSplit, encode
from xnmt_bench.corpora.reversed import ReversedCorpus
from xnmt_bench.corpora.sentence import SPLITS, Corpus, Split
from xnmt_bench.corpora.subwords import SentencePiece, Subwords, train_subwords
from xnmt_bench.errors import XnmtError
from xnmt_bench.fitting import TrainerOptions, clean, fit
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.loading import build_model, save_model, start_from, weights_id
from xnmt_bench.nmt.training import NMTTraining, TrainingOptions
from xnmt_bench.store import Artefact, Store

log = logging.getLogger(__name__)

# Raise a stage's number when its code gives other results from the same recipe.
VERSIONS = {
    "subwords": 1,
    "encoded": 1,
    "nmt": 1,
    "rules": 1,
    "proxy": 1,
    "base": 1,
    "reference": 2,
    "sample": 1,
    "facets": 1,
    "kl": 1,
    "translation": 3,
    "comet": 1,
    "alignment": 1,
    "eflomal": 1,
    "coreference": 2,
}
# Of a corpus's configuration, what its class is not told.
CORPUS_EXTRAS = ("subwords", "max_length", "reversed", "data")


def plain(config: Any, complete: bool = False) -> Any:
    """A configuration node as plain Python values.

    Args:
        config: the node; anything else is given back.
        complete: raise omegaconf's MissingMandatoryValue where a value is yet to be given.
    """
    if not OmegaConf.is_config(config):
        return config
    return OmegaConf.to_container(config, resolve=True, throw_on_missing=complete)


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
        description = plain(self.config.corpus, complete=True)
        corpus: Corpus = hydra.utils.instantiate(
            {key: value for key, value in description.items() if key not in CORPUS_EXTRAS}
        )
        return ReversedCorpus(corpus) if self.config.corpus.reversed else corpus

    @cached_property
    def subwords(self) -> tuple[Subwords, Subwords]:
        """Both vocabularies: the given system's, given files, or trained on the training split."""
        if self.config.nmt.path:
            return self.model.source_subwords, self.model.target_subwords
        if self.config.nmt.initial:
            folder = Path(self.config.nmt.initial)
            return SentencePiece(folder / "source.model"), SentencePiece(folder / "target.model")
        wanted = self.config.corpus.subwords
        return self._vocabulary("source", wanted), self._vocabulary("target", wanted)

    def _vocabulary(self, side: str, wanted: DictConfig) -> Subwords:
        given = wanted[f"{side}_model"]
        if given:
            return SentencePiece(given)
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

        return SentencePiece(self.store.make("subwords", recipe, work).path / "subwords.model")

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
            "subwords": [source.fingerprint, target.fingerprint],
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
            recipe["initial"] = weights_id(Path(config["initial"]))
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
        """The trained system, open.

        Raises:
            XnmtError: it cannot be opened, or it reads no concatenation as this project writes it.
        """
        reader = plain(self.config.nmt.reader, complete=True)
        for side in ("source_language", "target_language"):
            if side in reader and reader[side] is None:
                reader[side] = getattr(self.corpus, side)
        try:
            model: NMTModel = hydra.utils.instantiate(reader, str(self.nmt_path))
        except InstantiationException as error:
            if isinstance(error.__cause__, XnmtError):
                raise error.__cause__ from None
            if isinstance(error.__cause__, ImportError):
                raise XnmtError(f"{error.__cause__}: install xnmt_bench[huggingface]") from None
            raise XnmtError(f"nmt {self.config.nmt.name!r}: {error.__cause__ or error}") from error
        if self.config.nmt.context.sentences and not model.reads_separators:
            raise XnmtError(f"{self.config.nmt.name} knows no separator, so it reads no context")
        return model

    @property
    def model_id(self) -> str:
        """The fingerprint of the system under explanation."""
        return self.model.fingerprint
