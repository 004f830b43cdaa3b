"""The stage from a corpus as ids to a trained NMT system."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xnmt_bench.code_hash import code_of_plug_in
from xnmt_bench.corpora.languages import require_tokenizers
from xnmt_bench.corpora.sentence import Corpus, languages
from xnmt_bench.corpora.suites.contrastive.reading import as_read, find_sets
from xnmt_bench.corpora.vocabulary.subwords import Subwords
from xnmt_bench.engine import leave_to_first_rank, train_together
from xnmt_bench.errors import XnmtError
from xnmt_bench.lazy import Lazy
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.context.divided import divided
from xnmt_bench.nmt.loading import build_model, save_model, shipped, start_from, system_id
from xnmt_bench.nmt.training_options import NMTTrainingOptions
from xnmt_bench.nmt.validation import ContrastiveAccuracy, ValidationQuality
from xnmt_bench.pipeline.lineage import STARTED_FROM, read_lineage
from xnmt_bench.pipeline.markers import Markers
from xnmt_bench.pipeline.settings import SystemSettings
from xnmt_bench.pipeline.texts import Texts
from xnmt_bench.registry import load
from xnmt_bench.resolvers.examples import ExamplesCorpus
from xnmt_bench.resolvers.markers import MOST_CLUSTERS
from xnmt_bench.store import Stage, Store, Work
from xnmt_bench.trainer import TrainerOptions

if TYPE_CHECKING:
    from xnmt_bench.nmt.huggingface import HuggingFaceModel

log = logging.getLogger(__name__)
MARIAN = "marian"
CONTRASTIVE = ("contrastive_sets", "contrastive_data")  # where training finds them


@dataclass(frozen=True)
class Training(Lazy):
    """How a system is trained as configured.

    Attributes:
        nmt: what is configured.
        name: the system's.
        store: where it lies.
        corpus: what it will translate.
        learnt: what it is trained on.
        trainer: how training runs.
        markers: of its source sentences.
        read: returns a corpus as ids, as training reads it.
        subwords: returns both vocabularies.
        open_initial: opens the model of another toolkit that training starts from, with markers of
            so many clusters.
    """

    nmt: SystemSettings
    name: str
    store: Store
    corpus: Corpus
    learnt: Corpus
    trainer: TrainerOptions
    markers: Markers
    read: Callable[[Corpus], Texts]
    subwords: Callable[[], tuple[Subwords, Subwords]]
    open_initial: Callable[[int], HuggingFaceModel]

    @cached_property
    def trained(self) -> Stage:
        """The system trained as configured."""
        self._check_architecture()
        nmt, training = self.nmt, self.nmt.training
        assert training is not None, "the schema refuses a system without a path or a training"
        if "bleu" in training.stop:  # before vocabularies are learnt, which takes minutes
            require_tokenizers(self.corpus.target_language)
        corpus = divided(self.learnt, nmt.divide_and_rule)
        if training.examples != "all":
            corpus = ExamplesCorpus(corpus, self.markers.resolver, training.examples)
        # In the full context, also where fewer sentences are read later.
        texts = self.read(corpus)
        if self.nmt.foreign:
            recipe: dict[str, Any] = {
                "reader": nmt.reader,
                "initial": self._open_marked().fingerprint,
            }
        else:
            recipe = {
                "architecture": nmt.architecture,
                "sizes": nmt.sizes,
                "code": code_of_plug_in(load("architectures", str(nmt.architecture))),
                "initial": nmt.initial and system_id(shipped(nmt.initial)),
            }
        looked_at, every = self._looked_at(texts, training), self.trainer.validate_every
        recipe |= {
            # Contrastive sets are known by what they hold, and not by their paths.
            "training": {k: v for k, v in asdict(training).items() if k not in CONTRASTIVE},
            "seed": nmt.seed,
            "looked_at": [look.fingerprint for look in looked_at.values()],
            "validate_every": every,
        }

        kind = f"{self.name} on {texts.encoded['train'].fingerprint}"

        def train(folder: Path) -> dict[str, Any]:
            # Lightning takes seconds to import, and most commands train nothing.
            from xnmt_bench.fitting import fit
            from xnmt_bench.nmt.training import NMTTraining

            learnt, valid = texts.split("train"), texts.split("valid")
            if training.examples != "all":
                log.info("%s: %d %s examples", corpus.name, len(learnt), training.examples)

            def build() -> NMTTraining:
                return NMTTraining(self.build(), learnt, valid, training, looked_at, every)

            most = NMTTraining.max_epochs_of(learnt, training, nmt.seed, every)
            module, facts = fit(  # goes on where a killed run stood
                build,
                folder,
                nmt.seed,
                most,
                training.patience,
                self.trainer,
                f"NMT {nmt.name}",
                # The last weights are those at the last validation.
                average=training.average or (1 if training.max_updates else None),
                to_the_end=training.max_updates is not None,
            )
            leave_to_first_rank(lambda: self._save(module.model, folder))  # type: ignore[arg-type]
            started = self._describe_initial() if nmt.initial else {}
            return {**facts, **started, "name": nmt.name, "train_sentences": len(learnt)}

        return self.store.stage(
            "nmt",
            partial(train_together, train),
            version=2,
            # Where a pass has many validations, each counts as an epoch, and none is as long.
            amount=None if every else training_work(self.nmt, kind),
            learnt=texts.encoded["train"],
            valid=texts.encoded["valid"],
            precision=self.trainer.precision,
            **recipe,
        )

    def _describe_initial(self) -> dict[str, Any]:
        """Return the fingerprint of the system that training starts from, and its family."""
        folder = shipped(str(self.nmt.initial))
        # Without further markers, as its own rows have it.
        initial = self.open_initial(0).fingerprint if self.nmt.foreign else system_id(folder)
        family = read_lineage(folder).get("family")
        return dict(zip(STARTED_FROM, (initial, family), strict=True))

    def _check_architecture(self) -> None:
        """Raise an XnmtError where this architecture cannot be trained as configured."""
        if self.nmt.foreign:
            if (family := self.nmt.reader["family"]) != MARIAN:
                raise XnmtError(
                    f"nmt.initial with nmt={family}: {MARIAN} is the only Hugging Face family that "
                    "can be trained here"
                )
            return
        architecture: type[NMTModel] = load("architectures", str(self.nmt.architecture))
        if problem := architecture.refuses(self.nmt.context.trained):
            raise XnmtError(f"{self.name} {problem}")
        if architecture.starts_trained and not self.nmt.initial:
            problem = "starts from a trained system: give its folder as nmt.initial=..."
            raise XnmtError(f"{self.name} {problem}")

    def _open_marked(self) -> HuggingFaceModel:
        return self.open_initial(MOST_CLUSTERS if self.markers.exist else 0)

    def build(self) -> NMTModel:
        """Return the model that training begins with."""
        if self.nmt.foreign:
            # An opened model has no dropout, as translating wants it.
            return self._open_marked().train().requires_grad_(True)
        nmt = self.nmt
        model = build_model(str(nmt.architecture), nmt.sizes, *self.subwords())
        if nmt.initial:
            initial = start_from(model, nmt.sizes, nmt.initial)
            if initial.languages not in (None, languages(self.corpus)):
                read, needed = map(" to ".join, (initial.languages, languages(self.corpus)))
                problem = f"it translates {read}, but the corpus {self.corpus.name} is {needed}"
                raise XnmtError(f"nmt.initial={nmt.initial}: {problem}")
        return model

    def _save(self, model: NMTModel, folder: Path) -> None:
        """Write a trained model so that its reader opens it."""
        if self.nmt.foreign:
            foreign: HuggingFaceModel = model  # type: ignore[assignment]
            foreign.save(folder)
            return
        nmt, pair = self.nmt, languages(self.corpus)
        save_model(model, str(nmt.architecture), nmt.sizes, folder, self.nmt.context.trained, pair)

    def _looked_at(
        self, texts: Texts, training: NMTTrainingOptions
    ) -> dict[str, ValidationQuality | ContrastiveAccuracy]:
        """Return what training stops by, besides its loss."""
        looked_at: dict[str, ValidationQuality | ContrastiveAccuracy] = {}
        if "bleu" in training.stop:
            language = self.corpus.target_language
            quality = ValidationQuality(texts.split("valid"), language)
            if quality.name != "bleu":
                problem = f"no tokenizer cuts {language} into words"
                log.info("nmt.training.stop=[bleu]: %s, so training stops by chrF", problem)
            looked_at[quality.name] = quality
        if "contrastive" in training.stop:
            corpus, names = self.corpus, training.contrastive_sets
            sets = find_sets(names, corpus, "valid", training.contrastive_data)
            # Tokenised and cased as the training data, or words would be unknown.
            sets = [as_read(contrastive_set, corpus) for contrastive_set in sets]
            batch_tokens, context = training.batch_tokens, self.nmt.context.trained
            markers: tuple[Any, ...] = ()
            if self.markers.exist:
                # Marked at its first call, since an opened system is not validated.
                markers = self.markers.mark_sources, self.markers.bare_resolver.fingerprint
            looked_at["contrastive"] = ContrastiveAccuracy(sets, context, batch_tokens, *markers)
        return looked_at


def training_work(nmt: SystemSettings, kind: str) -> Work | None:
    """Return how much a training has to do at most; None for a system that is not trained here.

    Args:
        nmt: the system's configuration.
        kind: trainings of one kind take alike.
    """
    training = nmt.training
    if not training:
        return None
    if training.max_updates:
        return Work(kind, training.max_updates, "updates")
    return Work(kind, training.max_epochs, "epochs")
