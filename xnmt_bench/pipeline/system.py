"""The NMT system of a job: its names, its texts, and the model that is opened or trained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xnmt_bench.corpora.passage import ALONE, Context
from xnmt_bench.corpora.sentence import SIDES, SPLITS, Corpus, Split
from xnmt_bench.corpora.vocabulary.subwords import (
    StoredSubwords,
    Subwords,
    open_vocabulary,
    vocabulary_file,
)
from xnmt_bench.device import move
from xnmt_bench.errors import XnmtError
from xnmt_bench.lazy import Lazy
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.loading import shipped
from xnmt_bench.pipeline.lineage import read_lineage
from xnmt_bench.pipeline.markers import Markers
from xnmt_bench.pipeline.opening import open_initial, open_system
from xnmt_bench.pipeline.settings import Settings
from xnmt_bench.pipeline.texts import Texts
from xnmt_bench.pipeline.training import Training, training_work
from xnmt_bench.pipeline.vocabularies import initial_vocabulary, vocabulary_stage
from xnmt_bench.registry import load
from xnmt_bench.resolvers.markers import MOST_CLUSTERS
from xnmt_bench.resolvers.options import PREDICTED, CoreferenceOptions
from xnmt_bench.store import Stage, Store, Work, fingerprint
from xnmt_bench.trainer import TrainerOptions

if TYPE_CHECKING:
    from xnmt_bench.nmt.huggingface import HuggingFaceModel

INLINE = "inline"
_latest: System | None = None  # in a worker: the system of its latest stage


class System(Lazy):
    """A translation model: trained here as configured, or opened from a path.

    Args:
        settings: the job's; `nmt`, `corpus` and `rules.seed` are read.
        store: where it lies.
        corpus: what is translated.
        options: how training runs.
        learnt: what it is trained on, if it is trained here; the same corpus, if not given.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        corpus: Corpus,
        options: TrainerOptions,
        learnt: Corpus | None = None,
    ) -> None:
        self._settings, self._nmt = settings, settings.nmt
        self._store, self._corpus, self._options = store, corpus, options
        self._learnt = learnt or corpus
        context = self._nmt.context
        self.read_sentences, self.trained_context = context.read, context.trained
        if (self.read_sentences or 0) > self.trained_context.sentences:
            raise XnmtError(
                f"nmt.context.read={self.read_sentences}: {self._nmt.name} reads "
                f"{self.trained_context.sentences} sentences of context (nmt.context.sentences)"
            )
        coreference = self._nmt.coreference or CoreferenceOptions()
        self.markers = Markers(coreference, self._has_markers, store, corpus)

    @cached_property
    def name(self) -> str:
        """As in results; with the sentences that it reads, where these are fewer than it could."""
        few = self.context.sentences < self.trained_context.sentences
        read = f" reading {self.context.sentences}" if few else ""
        learnt = self._nmt.corpus or {}
        # With an option set to null it learns from the plain corpus.
        options = ((option, value) for option, value in learnt.items() if value is not None)
        on = "".join(f" on {option}={value}" for option, value in options)
        return f"{self._nmt.name}{on}{read}{self._describe_coreference()}"

    def _describe_coreference(self) -> str:
        """Return how it was fine-tuned for coreference, and which markers it reads."""
        nmt, parts = self._nmt, list[str]()
        training = None if nmt.path else nmt.training
        # The control learns from all sentences, and differs from the system that it starts from.
        if training and (training.max_updates or training.examples != "all"):
            parts.append(f"on {training.examples}")
        if training and training.markers == INLINE:
            parts.append(
                {"none": "with markers, reading none"}.get(
                    self.markers.options.read, f"with {self.markers.options.read} markers"
                )
            )
        elif nmt.path and self.markers.options.read != PREDICTED:
            parts.append(f"reading {self.markers.options.read} markers")
        return "".join(f" {part}" for part in parts)

    @property
    def joint_attention(self) -> bool:
        """Whether its attention is over source and prefix words at once; see `NMTModel`."""
        architecture = self._nmt.architecture
        if self._nmt.path or not architecture:  # a folder may hold another one than is configured
            return self.model.joint_attention
        return load("architectures", str(architecture)).joint_attention

    def _has_markers(self) -> bool:
        """Return whether its source vocabulary has markers of clusters."""
        if self._nmt.path:
            return bool(self.model.source_subwords.markers)
        return self._nmt.training is not None and self._nmt.training.markers == INLINE

    @property
    def reading(self) -> dict[str, str]:
        """What decides its numbers besides what its name and its fingerprint hold.

        Of a system that was trained elsewhere: whose markers it reads, and how many sentences of
        context, if its files do not say how many it was trained with.
        """
        nmt, reading = self._nmt, dict[str, str]()
        if not nmt.path:  # its configuration is its recipe
            return reading
        options = self.markers.options
        if options.read == PREDICTED and self.markers.resolved_by:
            digest = fingerprint({"resolver": self.markers.resolved_by})
            reading["markers of"] = f"{options.resolver} ({digest[:6]})"
        if self.model.trained_context is None and self.context != ALONE:
            before, after = self.context.sentences, self.context.following
            sides = "both sides" if self.context.target else "the source"
            behind = f", {after} behind" if after else ""
            reading["context"] = f"{before} before on {sides}{behind}"
        return reading

    @property
    def context(self) -> Context:
        """Which sentences around the current one it reads when it is used, and on which sides."""
        if self.read_sentences is None:
            return self.trained_context
        return replace(self.trained_context, sentences=self.read_sentences)

    @cached_property
    def subwords(self) -> tuple[Subwords, Subwords]:
        """Both vocabularies: the given system's, given files, or trained on the training split."""
        if self._nmt.path:
            return self.model.source_subwords, self.model.target_subwords
        if self._nmt.foreign:
            return self._open_initial(self._clusters).vocabularies
        source, target = map(self._vocabulary, SIDES)
        return open_vocabulary(source.path, self._clusters) if self._clusters else source, target

    def _vocabulary(self, side: str) -> StoredSubwords:
        configured = self._settings.corpus.subwords
        if self._nmt.initial:
            return initial_vocabulary(self._nmt, configured, side)
        if stage := self._vocabulary_stages[side]:
            return open_vocabulary(vocabulary_file(stage.path, side))
        # A given file is used where it lies, and known by its bytes.
        return open_vocabulary(getattr(configured, f"{side}_model"))

    @cached_property
    def _vocabulary_stages(self) -> dict[str, Stage | None]:
        configured, corpus = self._settings.corpus.subwords, self._corpus.vocabulary_corpus()
        return {side: vocabulary_stage(self._store, corpus, configured, side) for side in SIDES}

    def stages(self) -> Iterator[Stage]:
        """Yield the stages up to the system's, as far as those before them are made."""
        if not self._nmt.brings_vocabularies:
            learnt = [stage for stage in self._vocabulary_stages.values() if stage]
            yield from learnt
            if not all(stage.is_made for stage in learnt):
                return
        if not self._nmt.path:
            yield self.trained
        yield from self.texts.encoded.values()

    def unnamed(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the names of the stages up to the system's that are not among `names`."""
        learns_subwords, trains = not self._nmt.brings_vocabularies, not self._nmt.path
        needed = {"subwords": learns_subwords, "encoded": True, "nmt": trains}
        named = {*names}
        yield from (name for name, is_needed in needed.items() if is_needed and name not in named)

    def work_of(self, name: str) -> Work | None:
        """Return how much work a stage is that has no recipe yet, where that is known."""
        return training_work(self._nmt, self.name) if name == "nmt" else None

    def _read_longest(self) -> tuple[int | None, int | None]:
        """Return how many subwords of source and target it reads, EOS not counted; None for any."""
        if not (self._nmt.path or self._nmt.foreign):
            return None, None  # what is trained here computes positions of any number
        model = self.model if self._nmt.path else self._open_initial(self._clusters)
        source, target = model.longest_source, model.longest_target
        return source and source - 1, target and target - 1

    @property
    def _clusters(self) -> int:
        """How many clusters have markers in its vocabulary."""
        return MOST_CLUSTERS if self.markers.exist else 0

    def _open_initial(self, clusters: int) -> HuggingFaceModel:
        """Open the model of another toolkit that training starts from; see `open_initial`."""
        self._settings.require("nmt")
        return open_initial(self._nmt, self.name, clusters)

    @cached_property
    def texts(self) -> Texts:
        """Its own corpus as ids."""
        return self.read(self._corpus, SPLITS)

    @cached_property
    def learnt_texts(self) -> Texts:
        """The corpus that it is trained on: `nmt.corpus`, or the one that is measured."""
        return self.texts if self._learnt is self._corpus else self.read(self._learnt, SPLITS)

    def read(
        self,
        corpus: Corpus,
        splits: Sequence[Split],
        context: Context | None = None,
        training: bool = False,
    ) -> Texts:
        """Return a corpus as the ids that this system reads and writes.

        Args:
            corpus: the sentences.
            splits: which.
            context: that stands around each sentence; the one that is read, if not given.
            training: markers are those of training, whichever are read later.
        """
        length, seed = self._settings.corpus.max_length, self._settings.rules.seed
        context = context or self.context
        # Rows are planned with texts in hand, and planning trains no vocabulary.
        write = self.markers.write_training if training else self.markers.write
        return Texts(
            self._store,
            corpus,
            write,
            lambda: self.subwords,
            length,
            self._read_longest,
            context,
            splits,
            seed,
        )

    @cached_property
    def path(self) -> Path:
        """The folder of the system; it is trained first if it is missing."""
        path = self._nmt.path
        return shipped(path) if path else self.trained.path

    @property
    def trained(self) -> Stage:
        """The system trained as configured."""
        return self.training.trained

    @cached_property
    def training(self) -> Training:
        """How it is trained."""
        return Training(
            self._nmt,
            self.name,
            self._store,
            self._corpus,
            self._learnt,
            self._options,
            self.markers,
            # In the full context, also where fewer sentences are read later.
            lambda corpus: self.read(corpus, SPLITS, self.trained_context, training=True),
            lambda: self.subwords,
            self._open_initial,
        )

    @property
    def lineage(self) -> dict[str, Any]:
        """How it was trained, as `read_lineage` has it, and `learnt`: `nmt.corpus`, if given."""
        learnt = self._nmt.corpus
        return read_lineage(self.path) | ({"learnt": learnt} if learnt else {})

    @property
    def opened(self) -> str:
        """The name that it was opened by; empty of one that is trained here.

        A shipped system's, one on the Hugging Face hub, or a file's or folder's own.
        """
        path = Path(self._nmt.path or "")
        # Results travel, so that no row says where a file lay on one machine.
        return path.name if path.is_absolute() or path.exists() else str(path)

    @property
    def capped(self) -> bool:
        """Whether its training ended at its cap of epochs; False for one from a path."""
        return not self._nmt.path and bool(self.trained.facts.get("capped"))

    @property
    def curve(self) -> list[dict[str, float]]:
        """What training looked at besides its loss, epoch by epoch; nothing if it did not."""
        return [] if self._nmt.path else self.trained.facts.get("curve", [])

    @cached_property
    def model(self) -> NMTModel:
        """The system, open, on the configured device; it reads the corpus's languages."""
        return self.open(self._corpus)

    def open(self, corpus: Corpus | None) -> NMTModel:
        """Open the system on the configured device; see `open_system`."""
        self._settings.require("nmt")
        model = open_system(self._nmt, self.name, self.path, corpus, self.context)
        # Opened on the host by every reader, and moved once.
        return move(model, self._options.device)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the model that this process has open, if it is of the same system.

        Each stage brings a worker a system of its own.
        """
        global _latest
        vars(self).update(state)
        if _latest is not None and self._opens_like(_latest):
            self.keep_model(_latest)
        _latest = self

    def _opens_like(self, other: System) -> bool:
        """Return whether another system opens the same weights, on the same device."""
        groups = ("nmt", "corpus", "trainer", "store")  # all that decides which weights these are
        pairs = ((getattr(s, g) for s in (self._settings, other._settings)) for g in groups)
        return all(a == b for a, b in pairs) and self._options.device == other._options.device

    def keep_model(self, other: System) -> None:
        """Take the open model of another System of the same configuration, if it has one."""
        if "model" in vars(other):  # a large model is not opened twice
            self.use(other.model)

    def use(self, model: NMTModel) -> None:
        """Use an open model in place of what would be opened."""
        vars(self)["model"] = model

    @property
    def fingerprint(self) -> str:
        """Of everything that decides the system's numbers."""
        return self.model.fingerprint
