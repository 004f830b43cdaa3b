"""The stages up to a trained NMT system, or to one that is opened from a path."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from xnmt_bench.code_hash import code_of_plug_in
from xnmt_bench.corpora.languages import require_tokenizers
from xnmt_bench.corpora.passage import ALONE, Context, Passage
from xnmt_bench.corpora.sentence import SPLITS, Corpus, Sentence, Split, languages
from xnmt_bench.corpora.suites.contrastive import as_read, find_sets
from xnmt_bench.corpora.vocabulary.subwords import (
    MARKER,
    SentencePiece,
    Subwords,
    draw_sample,
    train_subwords,
)
from xnmt_bench.device import move
from xnmt_bench.engine import leave_to_first_rank, train_together
from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.context.divided import divided
from xnmt_bench.nmt.loading import (
    build_model,
    save_model,
    shipped,
    start_from,
    system_id,
)
from xnmt_bench.nmt.training_options import NMTTrainingOptions
from xnmt_bench.nmt.validation import ContrastiveAccuracy, ValidationQuality
from xnmt_bench.pipeline.clusters import StoredClusters
from xnmt_bench.pipeline.lineage import STARTED_FROM, read_lineage
from xnmt_bench.pipeline.settings import plain
from xnmt_bench.pipeline.texts import Texts
from xnmt_bench.registry import create, instantiate, load
from xnmt_bench.resolvers.base import Resolver
from xnmt_bench.resolvers.examples import ExamplesCorpus
from xnmt_bench.resolvers.markers import MOST_CLUSTERS, MarkedCorpus, mark
from xnmt_bench.resolvers.options import PREDICTED, CoreferenceOptions
from xnmt_bench.store import Artefact, Store, Work, fingerprint
from xnmt_bench.trainer import TrainerOptions

if TYPE_CHECKING:
    from xnmt_bench.nmt.huggingface import HuggingFaceModel

log = logging.getLogger(__name__)
INLINE, MARIAN = "inline", "marian"
CONTRASTIVE = ("contrastive_sets", "contrastive_data")  # where training finds them


class System:
    """A translation model: trained here as configured, or opened from a path.

    Args:
        config: the job's whole configuration; `nmt` and `corpus` are read.
        store: where it lies.
        corpus: what is translated.
        options: how training runs.
        learnt: what it is trained on, if it is trained here; the same corpus, if not given.
    """

    def __init__(
        self,
        config: DictConfig,
        store: Store,
        corpus: Corpus,
        options: TrainerOptions,
        learnt: Corpus | None = None,
    ) -> None:
        self._config, self._store, self._corpus, self._options = config, store, corpus, options
        self._learnt = learnt or corpus
        context = plain(config.nmt.context)
        self.read_sentences: int | None = context.pop("read")
        self.trained_context = Context(**context)
        if (self.read_sentences or 0) > self.trained_context.sentences:
            raise XnmtError(
                f"nmt.context.read={self.read_sentences}: {config.nmt.name} reads "
                f"{self.trained_context.sentences} sentences of context (nmt.context.sentences)"
            )

    @cached_property
    def name(self) -> str:
        """As in results; with the sentences that it reads, where these are fewer than it could."""
        few = self.context.sentences < self.trained_context.sentences
        read = f" reading {self.context.sentences}" if few else ""
        learnt = self._config.nmt.get("corpus") or {}
        on = "".join(f" on {option}={value}" for option, value in learnt.items())
        return f"{self._config.nmt.name}{on}{read}{self._describe_coreference()}"

    def _describe_coreference(self) -> str:
        """Return how it was fine-tuned for coreference, and which markers it reads."""
        nmt = self._config.nmt
        training = {} if nmt.path else plain(nmt.training)
        # The control learns from all sentences, and differs from the system that it starts from.
        tuned = bool(training.get("max_updates")) or training.get("examples", "all") != "all"
        parts = [f"on {training['examples']}"] if tuned else []
        if training.get("markers") == INLINE:
            parts.append(
                {"none": "with markers, reading none"}.get(
                    self._coreference.read, f"with {self._coreference.read} markers"
                )
            )
        elif nmt.path and self._coreference.read != PREDICTED:
            parts.append(f"reading {self._coreference.read} markers")
        return "".join(f" {part}" for part in parts)

    @cached_property
    def _coreference(self) -> CoreferenceOptions:
        return CoreferenceOptions(**plain(self._config.nmt.get("coreference") or {}))

    @property
    def has_markers(self) -> bool:
        """Whether its source vocabulary has markers of clusters."""
        nmt = self._config.nmt
        if nmt.path:
            return bool(self.model.source_subwords.markers)
        return bool(nmt.get("training")) and nmt.training.markers == INLINE

    def _write(self, corpus: Corpus) -> Corpus:
        """Return a corpus as the system reads it: with markers, if it has them."""
        read = self._coreference.read
        if read == "none" or not self.has_markers:
            return corpus
        gold = read == "gold"
        return MarkedCorpus(corpus, create("resolvers", "gold") if gold else self._resolver)

    def _write_training(self, corpus: Corpus) -> Corpus:
        """Return a corpus as training reads it: its markers are the resolver's, at all times."""
        return MarkedCorpus(corpus, self._resolver) if self.has_markers else corpus

    @cached_property
    def _resolver(self) -> Resolver:
        """The configured resolver; a slow one remembers the training sentences."""
        resolver = self._coreference.create_resolver()
        return StoredClusters(self._store, self._corpus, resolver) if resolver.slow else resolver

    def mark(self, text: str) -> str:
        """Return a source sentence as the system reads it: with markers, if it has them.

        Raises:
            XnmtError: the sentence holds markers already, or is to have gold ones.
        """
        if MARKER.search(text):
            raise XnmtError(f"the text holds a marker: {text}")
        if not self.read_resolver:
            return text
        if self.reads_gold_markers:
            raise XnmtError("nmt.coreference.read=gold: a bare sentence has no annotation")
        return self._mark_all([text])[text]

    def mark_passages(self, passages: Iterable[Passage]) -> list[Passage]:
        """Return passages whose source sentences are as the system reads them; see `mark`."""
        passages = list(passages)
        return self._mark_sources(passages) if self.read_resolver else passages

    @property
    def reads_gold_markers(self) -> bool:
        """Whether it reads the markers of a corpus's annotation, which bare texts lack."""
        return self.has_markers and self._coreference.read == "gold"

    @property
    def read_resolver(self) -> str:
        """The resolver whose markers it reads in bare texts; empty for no markers."""
        reads = self.has_markers and self._coreference.read != "none"
        return self._bare_resolver.fingerprint if reads else ""

    @property
    def reading(self) -> dict[str, str]:
        """What decides its numbers beside what its name and its fingerprint hold.

        Of a system that was trained elsewhere: whose markers it reads, and how many sentences of
        context, if its files do not say how many it was trained with.
        """
        nmt, reading = self._config.nmt, dict[str, str]()
        if not nmt.path:  # its configuration is its recipe
            return reading
        options = self._coreference
        if options.read == PREDICTED and self.read_resolver:
            digest = fingerprint({"resolver": self.read_resolver})
            reading["markers of"] = f"{options.resolver} ({digest[:6]})"
        if self.model.trained_context is None and self.context != ALONE:
            before, after = self.context.sentences, self.context.following
            sides = "both sides" if self.context.target else "the source"
            behind = f", {after} behind" if after else ""
            reading["context"] = f"{before} before on {sides}{behind}"
        return reading

    @cached_property
    def _bare_resolver(self) -> Resolver:
        # Not a stored one: no training sentence is needed for this.
        return self._coreference.create_resolver()

    def _mark_sources(self, passages: Sequence[Passage]) -> list[Passage]:
        """Return passages with the resolver's markers, as in training."""
        marked = self._mark_all(
            text for p in passages for text in (p.source, *p.source_context, *p.following)
        )
        return [
            replace(
                p,
                source=marked[p.source],
                source_context=tuple(marked[text] for text in p.source_context),
                following=tuple(marked[text] for text in p.following),
            )
            for p in passages
        ]

    def _mark_all(self, texts: Iterable[str]) -> dict[str, str]:
        """Return each text with its markers; one that the resolver does not know has no marker."""
        distinct = list(dict.fromkeys(texts))
        if with_marker := next(filter(MARKER.search, distinct), None):
            raise XnmtError(f"the text holds a marker: {with_marker}")
        # Together: a resolver that reads a file refuses texts of which it knows none.
        sentences = [Sentence(text, "", "", n) for n, text in enumerate(distinct)]
        resolved = self._bare_resolver.resolve(sentences)
        pairs = zip(distinct, resolved, strict=True)
        return {text: mark(text, clusters or ()).text for text, clusters in pairs}

    @property
    def context(self) -> Context:
        """Which sentences around the current one it reads when it is used, and on which sides."""
        if self.read_sentences is None:
            return self.trained_context
        return replace(self.trained_context, sentences=self.read_sentences)

    @cached_property
    def subwords(self) -> tuple[Subwords, Subwords]:
        """Both vocabularies: the given system's, given files, or trained on the training split."""
        if self._config.nmt.path:
            return self.model.source_subwords, self.model.target_subwords
        if self._foreign:
            return self._open_initial().vocabularies
        side = self._initial_vocabulary if self._config.nmt.initial else self._vocabulary
        source, target = side("source"), side("target")
        if self.has_markers:
            source = SentencePiece(source.path, MOST_CLUSTERS)
        return source, target

    def _read_longest(self) -> tuple[int | None, int | None]:
        """Return how many subwords of source and target it reads, EOS not counted; None for any."""
        if not (self._config.nmt.path or self._foreign):
            return None, None  # what is trained here computes positions of any number
        model = self.model if self._config.nmt.path else self._open_initial()
        source, target = model.longest_source, model.longest_target
        return source and source - 1, target and target - 1

    @property
    def _foreign(self) -> bool:
        """Whether it is trained further from a model of another toolkit."""
        nmt = self._config.nmt
        return bool(nmt.initial) and not nmt.path and "family" in nmt.reader

    def _open_initial(self, clusters: int | None = None) -> HuggingFaceModel:
        """Open the model of another toolkit that training starts from.

        Args:
            clusters: that have markers; as many as training needs, if not given.

        Raises:
            XnmtError: it cannot be opened.
        """
        nmt = self._config.nmt
        reader = plain(nmt.reader, complete=True)
        if clusters is None:
            clusters = MOST_CLUSTERS if self.has_markers else 0
        try:
            model: HuggingFaceModel = instantiate(
                f"nmt {self.name!r}", reader | {"clusters": clusters}, nmt.initial
            )
        except XnmtError as error:
            raise _name_extra(error) from None
        return model

    def _initial_vocabulary(self, side: str) -> SentencePiece:
        """Return the vocabulary of the system that training starts from, or a configured one.

        Raises:
            XnmtError: another one is configured, and the system's first step does not learn.
        """
        initial, configured = (
            self._config.nmt.initial,
            self._config.corpus.subwords[f"{side}_model"],
        )
        if not shipped(initial).is_dir():
            raise XnmtError(f"nmt.initial={initial}: no such folder, and no shipped system")
        vocabulary = SentencePiece(shipped(initial) / f"{side}.model")
        if not configured or SentencePiece(configured).fingerprint == vocabulary.fingerprint:
            return vocabulary
        architecture: type[NMTModel] = load("architectures", self._config.nmt.architecture)
        if architecture.starts_trained:  # new rows of what does not learn would stay means
            other = f"corpus.subwords.{side}_model={configured}"
            raise XnmtError(f"nmt.initial={initial} has another {side} vocabulary than {other}")
        return SentencePiece(configured)

    def _vocabulary(self, side: str) -> SentencePiece:
        subwords = self._config.corpus.subwords
        # A given file is used where it lies, and known by its bytes.
        if model := subwords[f"{side}_model"]:
            return SentencePiece(model)
        kind, size, count = subwords.type, subwords[f"{side}_size"], subwords.get("sentences")
        normalization = subwords.get("normalization", "nmt_nfkc")
        corpus = self._corpus.vocabulary_corpus()

        def work(folder: Path) -> None:
            # Of the training split alone: test words must not shape the vocabulary.
            texts: Iterable[str] = (getattr(s, side) for s in corpus.sentences("train"))
            texts = draw_sample(texts, count) if count else texts
            train_subwords(texts, folder / "subwords.model", kind, size, normalization)

        artefact = self._store.make(
            "subwords",
            work,
            version=1,
            corpus=corpus.recipe(),
            side=side,
            type=kind,
            size=size,
            normalization=normalization,
            sentences=count,
        )
        return SentencePiece(artefact.path / "subwords.model")

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
        length, seed = self._config.corpus.max_length, self._config.rules.seed
        context = context or self.context
        # Rows are planned with texts in hand, and planning trains no vocabulary.
        write = self._write_training if training else self._write
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
        given = self._config.nmt.path
        return shipped(given) if given else self.trained.path

    @cached_property
    def trained(self) -> Artefact:
        """The system trained as configured."""
        nmt = plain(self._config.nmt)
        self._check_architecture()
        training = NMTTrainingOptions(**nmt["training"])
        if "bleu" in training.stop:  # before vocabularies are learnt, which takes minutes
            require_tokenizers(self._corpus.target_language)
        corpus = divided(self._learnt, nmt.get("divide_and_rule"))
        if training.examples != "all":
            corpus = ExamplesCorpus(corpus, self._resolver, training.examples)
        # In the full context, also where fewer sentences are read later.
        texts = self.read(corpus, SPLITS, self.trained_context, training=True)
        if self._foreign:
            recipe = {
                "reader": plain(nmt["reader"]),
                "initial": self._open_initial().fingerprint,
            }
        else:
            recipe = {
                "architecture": nmt["architecture"],
                "sizes": nmt["sizes"],
                "code": code_of_plug_in(load("architectures", nmt["architecture"])),
                "initial": nmt["initial"] and system_id(shipped(nmt["initial"])),
            }
        looked_at, every = self._looked_at(texts, training), self._options.validate_every
        recipe |= {
            # Contrastive sets are known by what they hold, and not by their paths.
            "training": {k: v for k, v in asdict(training).items() if k not in CONTRASTIVE},
            "seed": nmt["seed"],
            "looked_at": [look.fingerprint for look in looked_at.values()],
            "validate_every": every,
        }

        kind = f"{self.name} on {texts.encoded.fingerprint}"

        def work(folder: Path) -> dict[str, Any]:
            if facts_of_ranks := train_together(folder):
                return facts_of_ranks
            # Lightning takes seconds to import, and most commands train nothing.
            from xnmt_bench.fitting import fit
            from xnmt_bench.nmt.training import NMTTraining

            train, valid = texts.split("train"), texts.split("valid")
            if training.examples != "all":
                log.info("%s: %d %s examples", corpus.name, len(train), training.examples)

            def build() -> NMTTraining:
                return NMTTraining(self._build(), train, valid, training, looked_at, every)

            most = NMTTraining.max_epochs_of(train, training, nmt["seed"], every)
            module, facts = fit(  # goes on where a killed run stood
                build,
                folder,
                nmt["seed"],
                most,
                training.patience,
                self._options,
                f"NMT {nmt['name']}",
                # The last weights are those at the last validation.
                average=training.average or (1 if training.max_updates else None),
                to_the_end=training.max_updates is not None,
            )
            leave_to_first_rank(lambda: self._save(module.model, folder))  # type: ignore[arg-type]
            started = self._describe_initial() if nmt["initial"] else {}
            return {**facts, **started, "name": nmt["name"], "train_sentences": len(train)}

        return self._store.make(
            "nmt",
            work,
            version=1,
            # Where a pass has many validations, each counts as an epoch, and none is as long.
            amount=None if every else training_work(self._config.nmt, kind),
            encoded=texts.encoded,
            precision=self._options.precision,
            **recipe,
        )

    def _describe_initial(self) -> dict[str, Any]:
        """Return the fingerprint of the system that training starts from, and its family."""
        folder = shipped(self._config.nmt.initial)
        # Without further markers, as its own rows have it.
        initial = self._open_initial(0).fingerprint if self._foreign else system_id(folder)
        family = read_lineage(folder).get("family")
        return dict(zip(STARTED_FROM, (initial, family), strict=True))

    @property
    def lineage(self) -> dict[str, Any]:
        """How it was trained, as `read_lineage` has it, and `learnt`: `nmt.corpus`, if given."""
        learnt = plain(self._config.nmt.get("corpus") or {})
        return read_lineage(self.path) | ({"learnt": learnt} if learnt else {})

    def _check_architecture(self) -> None:
        """Raise an XnmtError where this architecture cannot be trained as configured."""
        if self._foreign:
            if (family := self._config.nmt.reader.family) != MARIAN:
                raise XnmtError(
                    f"nmt.initial with nmt={family}: of Hugging Face's families only {MARIAN} is "
                    "trained here"
                )
            return
        architecture: type[NMTModel] = load("architectures", self._config.nmt.architecture)
        if problem := architecture.refuses(self.trained_context):
            raise XnmtError(f"{self.name} {problem}")
        if architecture.starts_trained and not self._config.nmt.initial:
            problem = "starts from a trained system: name its folder as nmt.initial"
            raise XnmtError(f"{self.name} {problem}")

    def _build(self) -> NMTModel:
        """Return the model that training begins with."""
        if self._foreign:
            # An opened model has no dropout, as translating wants it.
            return self._open_initial().train().requires_grad_(True)
        nmt = plain(self._config.nmt)
        model = build_model(nmt["architecture"], nmt["sizes"], *self.subwords)
        if nmt["initial"]:
            initial = start_from(model, nmt["sizes"], nmt["initial"])
            if initial.languages not in (None, languages(self._corpus)):
                read, needed = map(" to ".join, (initial.languages, languages(self._corpus)))
                problem = f"it translates {read}, and the corpus {self._corpus.name} is {needed}"
                raise XnmtError(f"nmt.initial={nmt['initial']}: {problem}")
        return model

    def _save(self, model: NMTModel, folder: Path) -> None:
        """Write a trained model so that its reader opens it."""
        if self._foreign:
            foreign: HuggingFaceModel = model  # type: ignore[assignment]
            foreign.save(folder)
            return
        nmt, pair = plain(self._config.nmt), languages(self._corpus)
        save_model(model, nmt["architecture"], nmt["sizes"], folder, self.trained_context, pair)

    def _looked_at(
        self, texts: Texts, training: NMTTrainingOptions
    ) -> dict[str, ValidationQuality | ContrastiveAccuracy]:
        """Return what training stops by, beside its loss."""
        looked_at: dict[str, ValidationQuality | ContrastiveAccuracy] = {}
        if "bleu" in training.stop:
            language = self._corpus.target_language
            quality = ValidationQuality(texts.split("valid"), language)
            if quality.name != "bleu":
                problem = f"no tokenizer cuts {language} into words"
                log.info("nmt.training.stop=[bleu]: %s, so training stops by chrF", problem)
            looked_at[quality.name] = quality
        if "contrastive" in training.stop:
            corpus, names = self._corpus, training.contrastive_sets
            sets = find_sets(names, corpus, "valid", training.contrastive_data)
            # Tokenised and cased as the training data, or words would be unknown.
            sets = [as_read(contrastive_set, corpus) for contrastive_set in sets]
            batch_tokens, context = training.batch_tokens, self.trained_context
            markers: tuple[Any, ...] = ()
            if self.has_markers:
                # Marked at its first call, since an opened system is not validated.
                markers = self._mark_sources, self._bare_resolver.fingerprint
            looked_at["contrastive"] = ContrastiveAccuracy(sets, context, batch_tokens, *markers)
        return looked_at

    @property
    def capped(self) -> bool:
        """Whether its training ended at its cap of epochs; False for one from a path."""
        return not self._config.nmt.path and bool(self.trained.facts.get("capped"))

    @property
    def curve(self) -> list[dict[str, float]]:
        """What training looked at beside its loss, epoch by epoch; nothing if it did not."""
        return [] if self._config.nmt.path else self.trained.facts.get("curve", [])

    @cached_property
    def model(self) -> NMTModel:
        """The system, open, on the configured device; it reads the corpus's languages."""
        return self.open(self._corpus)

    def open(self, corpus: Corpus | None) -> NMTModel:
        """Open the system on the configured device.

        Args:
            corpus: tells a model of many languages which to read and write, where the configuration
                does not; None if nothing else tells them.

        Raises:
            XnmtError: it cannot be opened, or it reads no concatenation as this project writes it.
        """
        reader = plain(self._config.nmt.reader, complete=True)
        for side in ("source_language", "target_language"):
            if corpus is not None and side in reader and reader[side] is None:
                reader[side] = getattr(corpus, side)
        path = str(self.path)  # outside of the `try`, since it may train, with errors of its own
        try:
            model: NMTModel = instantiate(f"nmt {self.name!r}", reader, path)
        except XnmtError as error:
            raise _name_extra(error) from None
        # A model of many languages has codes of its own for them.
        if corpus is not None and "source_language" not in reader:
            pairs = (model.languages, languages(corpus))
            if pairs[0] not in (None, pairs[1]):
                translated, others = (" to ".join(pair) for pair in pairs if pair)
                there = f"translates {translated}, and the corpus {corpus.name} is {others}"
                raise XnmtError(f"{self.name} {there}")
        problem = unlike(self.trained_context, model.trained_context)
        if problem := problem or model.refuses(self.context):
            raise XnmtError(f"{self.name} {problem}")
        if model.languages:
            log.info("%s reads %s and writes %s: %s", self.name, *model.languages, path)
        # Opened on the host by every reader, and moved once.
        return move(model, self._options.device)

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


def training_work(nmt: DictConfig, kind: str) -> Work | None:
    """Return how much a training has to do at most; None for a system that is not trained here.

    Args:
        nmt: the system's configuration.
        kind: trainings of one kind take alike.
    """
    training = nmt.get("training")
    if not training:
        return None
    if training.max_updates:
        return Work(kind, training.max_updates, "updates")
    return Work(kind, training.max_epochs, "epochs")


def _name_extra(error: XnmtError) -> XnmtError:
    """Return an error that names the extra, where a package of a back-end is missing."""
    if isinstance(error.__cause__, ImportError):  # only Hugging Face's needs one
        return XnmtError(f"{error.__cause__}: install xnmt_bench[huggingface]")
    return error


def unlike(configured: Context, trained: Context | None) -> str | None:
    """Return why a system is not the configured one, by the context that it was trained with.

    With another context its rows would be taken for those of the system as it was trained, whose
    name, weights and test set they share.

    Args:
        configured: the context that it was trained with, as the configuration says.
        trained: the same, as the system says; None if it does not.
    """
    if trained is None:
        return None
    for name in ("sentences", "following"):
        configured_value, trained_value = getattr(configured, name), getattr(trained, name)
        was = f"was trained with nmt.context.{name}={trained_value}"
        if configured_value > trained_value:
            return f"{was}, and cannot read {configured_value}"
        if configured_value < trained_value:
            fewer = f", and nmt.context.read={configured_value} to read fewer"
            return f"{was}: give that{fewer if name == 'sentences' else ''}"
    if configured.sentences and configured.target and not trained.target:
        return "was trained without a context on the target side (nmt.context.target=false)"
    if configured.sentences and trained.target and not configured.target:
        return "was trained with a context on the target side (nmt.context.target=true)"
    return None
