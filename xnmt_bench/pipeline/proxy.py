"""The stage from decisions to a trained proxy and its log-likelihoods (Li et al. 2020, Alg. 1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig
from safetensors.torch import load_model, save_model

from proxies.base import Proxy, Vocabulary
from proxies.data import Decisions, Drawn, append, loader, narrowest, open_decisions, pack
from proxies.training import Lessons, ProxyTraining, ProxyTrainingOptions, log_likelihoods
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.fitting import TrainerOptions, clean, fit
from xnmt_bench.pipeline.explained import EVALUATED, Explained
from xnmt_bench.pipeline.settings import plain
from xnmt_bench.registry import create, entries
from xnmt_bench.rules.extract import Scenario
from xnmt_bench.rules.scores import DecisionScores
from xnmt_bench.rules.table import (
    Rules,
    all_rules,
    read_rules,
    sentence_rows,
    sentence_starts,
    shards,
)
from xnmt_bench.store import Artefact, Store

SCORES = "test.parquet"
WEIGHTS = "proxy.safetensors"


class Judged:
    """The rules of one explainer at one k that predictors are tested on.

    Args:
        config: the job's whole configuration; `k` and scenarios are read.
        explained: whose rules.
    """

    def __init__(self, config: DictConfig, explained: Explained) -> None:
        self._config, self.explained, self.k = config, explained, config.k
        self.scenario: Scenario = config.scenario  # of the test
        self.learned_from: Scenario = config.learned_from  # of what proxies learn from

    @cached_property
    def train_sentences(self) -> int:
        """How many explained sentences proxies learn from.

        Raises:
            XnmtError: more are asked for than are explained.
        """
        count = self.explained.decisions.count("train")
        wanted = self._config.train_sentences or count
        if wanted > count:
            only = f"only {count} are explained; raise rules.train_sentences"
            raise XnmtError(f"train_sentences={wanted} but {only}")
        return wanted

    @cached_property
    def applies(self) -> bool:
        """Whether the explainer has rules of this system to be tested on."""
        try:  # with the extraction of the rules, since only that asks the explainer
            return bool(self.judged)
        except NotApplicable:
            return False

    @cached_property
    def judged(self) -> Artefact:
        """The test set's rules on disk.

        Raises:
            NotApplicable: the explainer does not cover this model.
        """
        return self.explained.rules(self.scenario, EVALUATED)

    @cached_property
    def test_rules(self) -> Rules:
        """The test set's rules."""
        return all_rules(self.judged.path, EVALUATED, self.k)


class TrainedProxy(ABC):
    """The configured proxy, trained on whatever a subclass gives it.

    Args:
        config: the job's whole configuration; `proxy` and `seed` are read.
        store: where the proxy lies.
        judged: the rules that it is tested on.
        options: how training runs.
    """

    def __init__(
        self, config: DictConfig, store: Store, judged: Judged, options: TrainerOptions
    ) -> None:
        self._config, self._store, self._options = config, store, options
        self.rules, self.k = judged, judged.k

    @property
    def family(self) -> str:
        """The proxy's name; one that is told positions is another."""
        told = self._config.proxy.sizes.get("sentence_positions", False)
        return self._config.proxy.name + ("+positions" if told else "")

    @property
    def name(self) -> str:
        """The instantiation's name in results."""
        return self.family

    @property
    @abstractmethod
    def train_sentences(self) -> int:
        """How many sentences it learns from."""

    @property
    @abstractmethod
    def description(self) -> str:
        """What is trained on what, in words."""

    @abstractmethod
    def learned_from(self) -> dict[str, Any]:
        """What decides the lessons: a part of the recipe."""

    @abstractmethod
    def lessons(self, folder: Path, training: ProxyTrainingOptions) -> Lessons:
        """What it learns from; `folder` may hold files until training is over."""

    @property
    def initial(self) -> TrainedProxy | None:
        """The proxy whose weights training starts from; None for fresh ones."""
        return None

    @cached_property
    def trained(self) -> Artefact:
        """The trained proxy.

        Raises:
            NotApplicable: there is nothing to learn from.
        """
        proxy = plain(self._config.proxy)
        training = ProxyTrainingOptions(**proxy["training"])
        initial, labels = self.initial, len(self.rules.explained.texts.subwords[1])

        def work(folder: Path) -> dict[str, Any]:
            lessons = self.lessons(folder, training)

            def build() -> ProxyTraining:
                fresh = initial.open() if initial else self._fresh()
                return ProxyTraining(fresh.requires_grad_(True), lessons, training, labels)

            module, facts = fit(
                build, folder, self._config.seed, training.max_epochs, training.patience,
                self._options, self.description, from_start=initial is not None,
            )  # fmt: skip
            save_model(module.model, str(folder / WEIGHTS))  # type: ignore[arg-type]
            for file in folder.glob(f"{LESSONS}*"):  # copies, and the largest files here
                file.unlink()
            clean(folder)
            return dict(facts)

        return self._store.make(
            "proxy", work, version=3, **self.learned_from(), k=self.k,
            initial=initial.trained if initial else None,
            proxy=entries("proxies")[proxy["name"]].value,  # its class: a name decides nothing
            sizes=proxy["sizes"], training=proxy["training"], seed=self._config.seed,
            precision=self._options.precision,
        )  # fmt: skip

    @cached_property
    def tested(self) -> Artefact:
        """Its log-likelihoods on the test set's rules."""

        def work(folder: Path) -> None:
            rules = self.rules.test_rules
            scores = log_likelihoods(self.open(), decisions_of(rules))
            DecisionScores(rules.sentence_N, rules.step_N, *scores).save(folder / SCORES)

        return self._store.make(
            "tested", work, version=2, proxy=self.trained, rules=self.rules.judged
        )

    def open(self) -> Proxy:
        """The trained proxy, on the configured device."""
        proxy = self._fresh()
        load_model(proxy, self.trained.path / WEIGHTS)
        return proxy.eval().to(self._options.device)

    def _fresh(self) -> Proxy:
        """The configured proxy with fresh weights; an XnmtError where there is none such."""
        source, target = self.rules.explained.texts.subwords
        vocabulary = Vocabulary(len(source), len(target), self.k)
        sizes = plain(self._config.proxy.sizes)
        proxy: Proxy = create("proxies", self._config.proxy.name, vocabulary, **sizes)
        return proxy


LESSONS = "lessons"


class OwnProxy(TrainedProxy):
    """A proxy that learns from the rules of the explainer that it judges, as in the paper."""

    @property
    def train_sentences(self) -> int:
        """Those that are explained."""
        return self.rules.train_sentences

    @property
    def description(self) -> str:
        """Such as `sa on attention, k=1`."""
        return f"{self.name} on {self._config.explainer.name}, k={self.k}"

    def learned_from(self) -> dict[str, Any]:
        """The explainer's rules of the training sentences."""
        return {"rules": self.training_rules, "train_sentences": self.train_sentences}

    @cached_property
    def training_rules(self) -> Artefact:
        """The rules of the training sentences.

        Raises:
            NotApplicable: the explainer says nothing of them.
        """
        if not self.rules.explained.teachable:
            raise NotApplicable("the training sentences have no gold annotation")
        return self.rules.explained.rules(self.rules.learned_from, "train")

    def read_rules(self) -> Iterator[Rules]:
        """The rules of the sentences that it learns from, shard by shard."""
        left = self.train_sentences
        for path in shards(self.training_rules.path, "train"):
            rules = read_rules(path, self.k)
            rows = list(sentence_rows(rules.sentence_N))[:left]
            yield rules.take(slice(0, rows[-1].stop))
            left -= len(rows)
            if not left:
                return

    def write_decisions(self, folder: Path) -> tuple[Decisions, np.ndarray]:
        """The rules in a file, and the row where each sentence begins."""
        path, starts, count = folder / LESSONS, [], 0
        kind = narrowest(max(map(len, self.rules.explained.texts.subwords)))
        with path.open("wb") as file:
            for rules in self.read_rules():
                append(decisions_of(rules), file, kind)
                starts.append(count + sentence_starts(rules.sentence_N))
                count += len(rules.sentence_N)
        return open_decisions(path, self.k, kind), np.concatenate(starts)

    def lessons(self, folder: Path, training: ProxyTrainingOptions) -> Lessons:
        """The rules as they are, in another order each epoch; the last sentences held out."""
        decisions, starts = self.write_decisions(folder)
        cut, size, seed = held_out(starts, training), training.batch_size, self._config.seed
        return Lessons(
            lambda epoch: loader(decisions[:cut], size, seed, epoch),
            lambda: loader(decisions[cut:], size),
        )


class SharedProxy(TrainedProxy):
    """EVAL-X (Jethani et al. 2021): one proxy for all explainers, which knows none of them.

    It learns from words drawn at random, anew each epoch. So how an explainer chooses its words
    tells it nothing: a code gains nothing here.

    Args:
        sentences: how many it learns from; as many as are explained, if not given.
    """

    def __init__(
        self, config: DictConfig, store: Store, judged: Judged, options: TrainerOptions,
        sentences: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(config, store, judged, options)
        self._sentences = sentences

    @property
    def name(self) -> str:
        """The instantiation's name in results, with its number of sentences if that is its own."""
        return f"evalx_{self.family}" + (f"@{self._sentences}" if self._sentences else "")

    @property
    def train_sentences(self) -> int:
        """As asked for, of those that there are."""
        if self._sentences is None:
            return self.rules.train_sentences
        return min(self._sentences, len(self.rules.explained.texts.split("train")))

    @property
    def description(self) -> str:
        """Such as `evalx_sa, k=1`."""
        return f"{self.name}, k={self.k}"

    def learned_from(self) -> dict[str, Any]:
        """The model's labels of the training sentences, and how words are drawn."""
        scenario, decisions = self.rules.learned_from, self.rules.explained.decisions
        return {
            "labels": decisions.labels("train", scenario, self.train_sentences),
            "admit_special": decisions.extraction.admit_special,
        }

    def lessons(self, folder: Path, training: ProxyTrainingOptions) -> Lessons:
        """Words drawn anew each epoch; of the held-out sentences, drawn once."""
        decisions, seed = self.rules.explained.decisions, self._config.seed
        contexts = decisions.all_contexts(self.rules.learned_from, self.train_sentences)
        cut = held_out(sentence_starts(contexts.sentence_N), training)
        size = training.batch_size
        rows = np.arange(len(contexts))
        fixed = np.random.default_rng([seed, HELD_OUT])
        valid = contexts.drawn(rows[cut:], self.k, fixed)
        return Lessons(
            lambda epoch: loader(
                Drawn(contexts, rows[:cut], self.k, seed, epoch), size, seed, epoch
            ),
            lambda: loader(valid, size),
        )


HELD_OUT = 1  # tells the draws of validation from those of training


def held_out(starts: np.ndarray, training: ProxyTrainingOptions) -> int:
    """Where the held-out last sentences begin, of the rows where sentences begin."""
    return int(starts[-max(1, round(training.validation_share * len(starts)))])


def decisions_of(rules: Rules) -> np.ndarray:
    """Rules as the proxies read them."""
    words = np.concatenate([rules.source_NK, rules.prefix_NK], axis=1)
    positions = np.concatenate([rules.source_position_NK, rules.prefix_position_NK], axis=1)
    return pack(rules.label_N, words, positions)
