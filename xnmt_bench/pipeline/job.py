"""One job of a sweep: everything that a metric may need, made at its first use and once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from functools import cached_property, partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pyarrow as pa
from omegaconf import DictConfig

from xnmt_bench.corpora.exchange.exchangeable import ExchangeableWords
from xnmt_bench.corpora.passage import Passage
from xnmt_bench.corpora.planted.natural import NaturalTwins
from xnmt_bench.corpora.sentence import Corpus, Sentence, Split, lang_pair
from xnmt_bench.corpora.view import CorpusView, ReversedCorpus
from xnmt_bench.device import Room, check_precision, find_device
from xnmt_bench.engine import make_shards
from xnmt_bench.errors import NotApplicable
from xnmt_bench.lazy import Lazy
from xnmt_bench.nmt.scoring import log_probability
from xnmt_bench.parquet import read_table, write_table
from xnmt_bench.pipeline.decisions import Decisions
from xnmt_bench.pipeline.doubts import about_pairs, about_texts
from xnmt_bench.pipeline.explained import EVALUATED, Explained, Relevances
from xnmt_bench.pipeline.inputs import PECORE, READERS, InputFile
from xnmt_bench.pipeline.off_words import shares_off_words
from xnmt_bench.pipeline.outputs import Outputs, Translations
from xnmt_bench.pipeline.settings import Settings, read_settings
from xnmt_bench.pipeline.system import System
from xnmt_bench.pipeline.texts import Texts, name_sentences, test_set
from xnmt_bench.pipeline.weighed_sentences import WeighedSentences, weigh_sentences
from xnmt_bench.registry import instantiate
from xnmt_bench.rules.extract import GOLDEN, REAL, Scenario
from xnmt_bench.rules.table import is_finished, read_columns, shard_paths, write_shard
from xnmt_bench.store import Stage, Store, fingerprint
from xnmt_bench.sweep import log_once
from xnmt_bench.trainer import TrainerOptions

log = logging.getLogger(__name__)
SCORED = 4096  # passages a shard
FROM_FILE = "xnmt_bench.explainers.from_file.FromFile"


def trainer_options(settings: Settings, logger: Callable[[], Any] | None = None) -> TrainerOptions:
    """Return how training runs; a ConfigError where the device, or its precision, is missing."""
    device, trainer = find_device(settings.device), settings.trainer
    check_precision(settings.rules.precision, device)
    # In how many processes training runs is the engine's business.
    how = trainer.precision, trainer.validate_every, trainer.progress_bar
    return TrainerOptions(device, *how, logger=logger)


class Job(Lazy):
    """A configuration, and what can be made from it. Nothing is made before its first use.

    Args:
        settings: the job's whole configuration, read or as Hydra composes it.
        options: how training runs; the configured trainer, if not given.
        may_make: False for a reader, such as evaluate.py: then what is missing is an error.
        store: an open store, where another job of this process has one.
    """

    def __init__(
        self,
        settings: Settings | DictConfig,
        options: TrainerOptions | None = None,
        may_make: bool = True,
        store: Store | None = None,
    ) -> None:
        self.settings = settings if isinstance(settings, Settings) else read_settings(settings)
        self.store = store or Store(self.settings.store, may_make)
        self.options = options or trainer_options(self.settings)
        self.progress = self.options.progress_bar

    def changed(self, changes: dict[str, Any]) -> Job:
        """Return another job that differs in some configuration and shares the store."""
        return Job(self.settings.changed(changes), self.options, store=self.store)

    def input_file(self, kind: str) -> InputFile | None:
        """Return the file of a kind (`outputs`, `scores`, `relevance`) that is given, or None."""
        return InputFile.configured(kind, self.settings)

    @cached_property
    def explained_by_file(self) -> Job:
        """The job with another tool's relevance as its explainer's; itself where none is given."""
        input_file = self.input_file("relevance")
        if input_file is None or input_file.dump is None:
            return self
        sides = {side: str(path) for side, path in input_file.beside.items()}
        phi = {
            "path": str(input_file.path),
            "format": input_file.format,
            "content": input_file.fingerprint,
            **sides,
        }
        explainer = {"name": input_file.explainer, "phi": {"_target_": FROM_FILE, **phi}}
        changed = self.changed({"relevance": {"path": None}, "explainer": explainer})
        changed.system = self.system  # opened once for all metrics
        return changed

    @property
    def file_relevance(self) -> dict[str, str]:
        """The fingerprint of the file whose relevance is the explainer's; empty for others."""
        phi = self.settings.explainer.phi
        return {"relevance": phi["content"]} if phi.get("_target_") == FROM_FILE else {}

    @property
    def from_files(self) -> bool:
        """Whether a file of another tool is given, so that it can be measured without training."""
        return any(map(self.input_file, READERS))

    @cached_property
    def corpus(self) -> Corpus:
        """The configured corpus, streaming."""
        return self._open_corpus({})

    def _open_corpus(self, changes: Mapping[str, Any]) -> Corpus:
        self.settings.require("corpus")
        settings, changes = self.settings.corpus, dict(changes)
        reverse = changes.pop("reversed", settings.reversed)
        corpus: Corpus = instantiate(
            f"corpus {settings.name!r}", {"name": settings.name} | settings.node | changes
        )
        if not reverse:
            return corpus
        # Chosen decisions stand in the direction of the systems that chose them.
        if isinstance(corpus, NaturalTwins):
            return corpus.over(ReversedCorpus(corpus.corpus))
        # Wrapped last, so that the corpus itself knows nothing of directions.
        return ReversedCorpus(corpus)

    @cached_property
    def exchangeable(self) -> ExchangeableWords:
        """Which words of the corpus may replace each other."""
        return ExchangeableWords(self.corpus, self.store)

    @cached_property
    def system(self) -> System:
        """The NMT system."""
        changes = self.settings.nmt.corpus
        learnt = self._open_corpus(changes) if changes else self.corpus
        return System(self.settings, self.store, self.corpus, self.options, learnt)

    @cached_property
    def texts(self) -> Texts:
        """The corpus as the system's ids."""
        return self.system.texts

    @cached_property
    def doubts(self) -> list[str]:
        """Why numbers on the corpus mean little, if they do; nothing where files replace it."""
        if self.from_files:
            return []
        learnt = self.system.learnt_texts
        doubts = list(about_texts(self.texts, learnt, self.store, self.settings.doubts))
        for doubt in doubts:
            # At once: what comes behind may take hours.
            log_once(log, logging.WARNING, f"caution: {self.corpus.name}: {doubt}")
        return doubts

    def doubts_of(self, pairs: Sequence[tuple[str, str]]) -> list[str]:
        """Return the same of a metric's own test pairs, as the corpus is written."""
        if self.from_files:
            return []
        learnt = self.system.learnt_texts
        return list(about_pairs(pairs, self.texts, learnt, self.store, self.settings.doubts))

    def translations(
        self, corpus: Corpus | None = None, splits: Sequence[Split] = (EVALUATED,)
    ) -> Translations:
        """Return the system's own translations of the corpus, or of splits of another one."""
        texts = self.texts if corpus is None else self.system.read(corpus, splits)
        return Translations(self.store, self.system, texts, self.settings.nmt.beam, self.progress)

    def outputs(self, corpus: Corpus | None = None) -> Outputs:
        """Return translations of the test set: a file's, where one is given, else the system's own.

        Args:
            corpus: a test set of the metric's own in the configured corpus's place.

        Raises:
            DataError: the file has not one line a test sentence.
        """
        input_file = self.input_file("outputs")
        if input_file is None:
            return self.translations(corpus).outputs()
        corpus, texts = corpus or self.corpus, input_file.read()
        sentences = list(corpus.sentences(EVALUATED))
        input_file.counted(len(texts), len(sentences), f"test sentences in {corpus.name}")
        # As people and other tools write; references are tokenised and cased as configured.
        texts = [corpus.words(text, corpus.target_language) for text in texts]
        # A file has a line for every sentence, also for those that are too long for ids.
        number_N = np.arange(len(texts))
        return Outputs(corpus, test_set(corpus), number_N, sentences, texts, input_file.fingerprint)

    def output_stages(self, corpus: Corpus | None = None) -> list[Stage]:
        """Return the stages behind `outputs`: none of a file's."""
        if self.input_file("outputs") is not None:
            return []
        return [self.translations(corpus).made(EVALUATED)]

    @property
    def search_settings(self) -> dict[str, int]:
        """What decides the system's own translations; empty where translations are from a file."""
        return {} if self.input_file("outputs") is not None else {"beam": self.settings.nmt.beam}

    def log_probability(
        self, pairs: Sequence[Passage | tuple[str, str]], normalise: bool = False
    ) -> np.ndarray:
        """Return log P of each target given its source, EOS included, in its context.

        A file's numbers, if one is given, are taken unchanged. A pair that is longer than the
        system reads gets NaN.

        Args:
            pairs: N sources and targets as words between blanks, or passages, which have a context.
            normalise: the mean over its ids, not the sum.

        Returns:
            Natural logarithms, (N,).

        Raises:
            DataError: the file has not one number a pair.
        """
        if input_file := self.input_file("scores"):
            if input_file.format == PECORE:
                raise NotApplicable("scores.format=pecore has scores of tokens, not of targets")
            numbers: np.ndarray = input_file.read()
            input_file.counted(len(numbers), len(pairs), "pairs to be scored")
            return numbers if self.settings.scores.higher_is_better else -numbers
        scores = read_table(self.scored(pairs).path / "scores.parquet")
        # Sums and lengths are stored, so that both normalisations are one artefact.
        log_p_N = scores["log_probability"].to_numpy()
        return log_p_N / scores["ids"].to_numpy() if normalise else log_p_N

    def scored(self, pairs: Sequence[Passage | tuple[str, str]]) -> Stage:
        """Return the stored scores that the system gives to pairs; see `log_probability`.

        Raises:
            NotApplicable: the system is to read gold markers, which these texts lack.
        """
        system, room = self.system, Room(self.settings.rules.batch_tokens, cpu=1024, each=2**20)
        if system.markers.are_gold:
            raise NotApplicable(
                "nmt.coreference.read=gold: these texts have no annotated coreference"
            )
        passages = (p if isinstance(p, Passage) else Passage(*p) for p in pairs)
        read = [passage.read(system.context) for passage in passages]

        # What reads the same is scored once, so that it ties to the last digit.
        row_of = {passage: row for row, passage in enumerate(dict.fromkeys(read))}
        distinct, count = list(row_of), -(-len(row_of) // SCORED)

        def work(folder: Path) -> None:
            paths = shard_paths(folder, "shards", count)
            # Marked here, so that scores from the store need no resolver.
            marked = system.markers.mark_passages(distinct)

            def make(numbers: Sequence[int]) -> Iterator[int]:
                for number in numbers:
                    part = marked[number * SCORED : (number + 1) * SCORED]
                    encoded = [passage.encode(*system.subwords) for passage in part]
                    score = partial(log_probability, system.model, encoded)
                    log_p, ids = room.tried(self.options.device, score)
                    paths[number].parent.mkdir(exist_ok=True)
                    write_shard({"log_probability": log_p, "ids": ids}, paths[number])
                    yield number

            make_shards(folder, "shards", paths, make, "scoring", self.progress, is_finished)
            tables = [read_columns(path) for path in paths]
            rows_N = [row_of[passage] for passage in read]
            names = ("log_probability", "ids")
            columns = {n: np.concatenate([t[n] for t in tables])[rows_N] for n in names}
            write_table(pa.table(columns), folder / "scores.parquet")
            rmtree(folder / "shards")

        passages_id = fingerprint({"passages": list(map(astuple, read))})  # they may be many
        return self.store.stage(
            "scores",
            work,
            version=5,
            model=system,
            passages=passages_id,
            shards=count,
            markers=system.markers.resolved_by,
        )

    @cached_property
    def explained(self) -> Explained:
        """The system's decisions on the corpus, explained by the configured explainer."""
        return self._explained()

    def _explained(self, corpus: Corpus | None = None) -> Explained:
        return Explained(self.settings, self.store, self.decisions(corpus))

    def decisions(
        self, corpus: Corpus | None = None, splits: Sequence[Split] = (EVALUATED,)
    ) -> Decisions:
        """Return the system's decisions on the corpus, or on splits of another one."""
        translations = self.translations(corpus, splits)
        return Decisions(self.settings.rules, self.store, translations, self.progress)

    def relevance(
        self,
        scenario: Scenario = GOLDEN,
        corpus: Corpus | None = None,
        targets: Sequence[str] | None = None,
        source_alone: bool = False,
        split: Split = EVALUATED,
    ) -> Relevances:
        """Return relevance of every word of a split for every step; a file's, if one is given.

        Args:
            scenario: where contexts and labels come from.
            corpus: a test set of the metric's own in the configured corpus's place.
            targets: of each of its sentences, in the references' place; they are explained as
                golden data are.
            source_alone: accept an explainer without relevance of prefix words.
            split: which; of the training split, the sentences that are explained, in their order.

        Raises:
            NotApplicable: the explainer leaves out steps, or does not cover the model; or a file
                has no such relevance.
        """
        if input_file := self.input_file("relevance"):
            if split != EVALUATED:
                raise NotApplicable(
                    "relevance.path covers the test set only, but this needs relevance of the "
                    "training split"
                )
            if input_file.dump is not None:
                problem = f"relevance.format={input_file.format} has weights of source words only"
                raise NotApplicable(f"{problem}; this needs the prefix too")
            if input_file.format == PECORE:
                raise NotApplicable("relevance.format=pecore has scores of contexts only")
            return Relevances(input_file.fingerprint, input_file.read)
        explained, scenario = self._decided(scenario, corpus, targets)
        return explained.relevance(scenario, source_alone, split)

    def weighed_sentences(
        self,
        scenario: Scenario = REAL,
        corpus: Corpus | None = None,
        targets: Sequence[str] | None = None,
    ) -> WeighedSentences:
        """Return the test set's translations with weights of source words, or a dump's.

        The arguments are those of `relevance`; an explainer that says nothing of prefix words will
        do.
        """
        input_file = self.input_file("relevance")
        if input_file is not None and (dump := input_file.dump) is not None:
            return WeighedSentences(input_file.fingerprint, dump.attention, lambda: dump)
        explained, scenario = self._decided(scenario, corpus, targets)
        relevances = self.relevance(scenario, corpus, targets, source_alone=True)
        read = partial(weigh_sentences, explained, scenario, relevances)
        if input_file is not None:
            # Of what its relevance is shares is unknown, and making shares of shares changes
            # nothing.
            return WeighedSentences(relevances.fingerprint, False, read)
        # Where words of a context or of the prefix share in them, no explainer's are shares of the
        # sentence.
        shares = explained.explainer.shares == "side" and not (
            self.system.context.has_sentences or self.system.joint_attention
        )
        off_words = partial(shares_off_words, explained, scenario, source_alone=True)
        return WeighedSentences(relevances.fingerprint, shares, read, relevances.source, off_words)

    def _decided(
        self, scenario: Scenario, corpus: Corpus | None, targets: Sequence[str] | None
    ) -> tuple[Explained, Scenario]:
        if targets is not None:
            corpus, scenario = TargetsCorpus(corpus or self.corpus, targets), GOLDEN
        return (self.explained if corpus is None else self._explained(corpus)), scenario

    def system_identity(self) -> dict[str, Any]:
        """Return the first columns of every table: corpus, language pair, system."""
        input_file = self.input_file("outputs") or self.input_file("scores")
        return {
            "corpus": self.corpus.name,
            "lang_pair": lang_pair(self.corpus),
            "nmt": input_file.name
            if input_file
            else self.system.name,  # a file is named for its writer
        }

    def explained_identity(self) -> dict[str, Any]:
        """Return the same with the explainer, and the seed of one that draws."""
        if input_file := self.input_file(
            "relevance"
        ):  # which does not say whose decisions it explains
            return self.system_identity() | {
                "nmt": "",
                "explainer": input_file.explainer,
                "seed": "",
            }
        # A seed would split rows that are the same for every seed.
        seed = self.settings.seed if self.explained.seeded else ""
        return self.system_identity() | {"explainer": self.explained.name, "seed": seed}

    @property
    def explained_sentences(self) -> str:
        """Which test sentences are explained, such as `60 (3fa2c1)`."""
        return name_sentences(
            self.texts.split(EVALUATED).number[: self.settings.rules.test_sentences]
        )

    @property
    def learning_settings(self) -> dict[str, str]:
        """What explainers, judges and students learn from; empty where a file explains."""
        if self.input_file("relevance") is not None:
            return {}
        settings = {"training text": self.texts.training_text}
        if self.explained.explainer.needs_gold:  # that of training sentences is read too
            settings["annotation"] = fingerprint(self.corpus.recipe())[:6]
        return settings


class TargetsCorpus(CorpusView):
    """A corpus's test set with other targets."""

    def __init__(self, corpus: Corpus, targets: Sequence[str]) -> None:
        super().__init__(corpus)
        self._targets, self.translated = list(targets), True

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Yield the test sentences; the annotation is left out, since it is of the references."""
        pairs = zip(self.corpus.sentences(split), self._targets, strict=True)
        return (replace(sentence, target=text, gold=None) for sentence, text in pairs)

    def recipe(self, split: Split | None = None) -> dict[str, Any]:
        """Return the corpus's own, and the targets."""
        return {"corpus": self.corpus.recipe(split), "targets": self._targets}
