"""The stage from rules to a trained proxy and its log-likelihoods (Li et al. 2020, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig
from safetensors.torch import load_model, save_model

from proxies.base import Proxy, Vocabulary
from proxies.data import append, open_decisions, pack
from proxies.training import (
    ProxyTraining,
    ProxyTrainingOptions,
    log_likelihoods,
    log_probabilities,
)
from xnmt_bench.corpora.sentence import Split
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.fitting import TrainerOptions, clean, fit
from xnmt_bench.pipeline.explained import EVALUATED, Explained
from xnmt_bench.pipeline.settings import plain
from xnmt_bench.registry import create, entries
from xnmt_bench.rules.extract import Scenario
from xnmt_bench.rules.scores import DecisionScores
from xnmt_bench.rules.table import Rules, all_rules, read_rules, sentence_rows, shards
from xnmt_bench.store import Artefact, Store

SCORES = "test.parquet"
WEIGHTS = "proxy.safetensors"


class TrainedProxy:
    """Rules of one explainer at one k, and the proxy that learns to decide from them.

    Args:
        config: the job's whole configuration; `proxy`, `k`, scenarios and `seed` are read.
        store: where the proxy lies.
        explained: whose rules.
        options: how training runs.
    """

    def __init__(
        self, config: DictConfig, store: Store, explained: Explained, options: TrainerOptions
    ) -> None:
        self._config, self._store, self._options = config, store, options
        self.explained, self.k = explained, config.k
        self.scenario: Scenario = config.scenario  # of the test
        self.learned_from: Scenario = config.learned_from  # of the rules that it learns from

    @property
    def name(self) -> str:
        """The instantiation's name in results; one that is told positions is another."""
        told = self._config.proxy.sizes.get("sentence_positions", False)
        return self._config.proxy.name + ("+positions" if told else "")

    @cached_property
    def train_sentences(self) -> int:
        """How many explained sentences the proxy learns from.

        Raises:
            XnmtError: more are asked for than are explained.
        """
        count = self.explained.count("train")
        wanted = self._config.train_sentences or count
        if wanted > count:
            only = f"only {count} are explained; raise rules.train_sentences"
            raise XnmtError(f"train_sentences={wanted} but {only}")
        return wanted

    @cached_property
    def _teachable(self) -> bool:
        """Whether the explainer speaks of the training sentences, so that a proxy can learn."""
        return not self.explained.explainer.needs_gold or bool(self.explained.texts.gold("train"))

    @cached_property
    def applies(self) -> bool:
        """Whether the explainer has rules of this system to learn from and to be tested on."""
        try:  # with the extraction of the rules, since only that asks the explainer
            return bool(self.rules and self.judged) and self._teachable
        except NotApplicable:
            return False

    @cached_property
    def rules(self) -> Artefact:
        """The rules that the proxy learns from, with the test set's in the same scenario.

        Where only the test set is annotated and the explainer needs that, they are of it alone.

        Raises:
            NotApplicable: the explainer does not cover this model.
        """
        splits: tuple[Split, ...] = ("train", EVALUATED) if self._teachable else (EVALUATED,)
        return self.explained.rules(self.learned_from, splits)

    @cached_property
    def judged(self) -> Artefact:
        """The rules that predictors are tested on."""
        # In its own scenario the test set was explained together with the training set.
        if self.scenario == self.learned_from:
            return self.rules
        return self.explained.rules(self.scenario, (EVALUATED,))

    @cached_property
    def test_rules(self) -> Rules:
        """The test set's rules."""
        return all_rules(self.judged.path, EVALUATED, self.k)

    def training_rules(self) -> Iterator[Rules]:
        """The rules of the first `train_sentences` sentences, shard by shard."""
        left = self.train_sentences
        for path in shards(self.rules.path, "train"):
            rules = read_rules(path, self.k)
            rows = list(sentence_rows(rules.sentence_N))[:left]
            yield rules.take(slice(0, rows[-1].stop))
            left -= len(rows)
            if not left:
                return

    @cached_property
    def trained(self) -> Artefact:
        """The trained proxy, and its log-likelihoods on the test set in the scenario it learned.

        Raises:
            NotApplicable: the explainer says nothing of the training sentences.
        """
        if not self._teachable:
            raise NotApplicable("the training sentences have no gold annotation")
        proxy, rules = plain(self._config.proxy), self.rules
        training = ProxyTrainingOptions(**proxy["training"])

        def work(folder: Path) -> dict[str, Any]:
            decisions, cut = self._pack(folder, training.validation_share)
            module, facts = fit(
                lambda: ProxyTraining(
                    self._fresh(), decisions[:cut], decisions[cut:], training,
                    len(self.explained.texts.subwords[1]),
                ),
                folder, self._config.seed, training.max_epochs, training.patience, self._options,
                f"{proxy['name']} on {self._config.explainer.name}, k={self.k}",
            )  # fmt: skip
            save_model(module.model, str(folder / WEIGHTS))  # type: ignore[arg-type]
            _test(module.model, all_rules(rules.path, EVALUATED, self.k), folder)  # type: ignore[arg-type]
            (folder / "decisions").unlink()  # a copy of the rules, and the largest file here
            clean(folder)
            return {**facts, "train_decisions": len(decisions)}

        return self._store.make(
            "proxy", work, version=2, rules=rules, k=self.k,
            proxy=entries("proxies")[proxy["name"]].value,  # its class: a name decides nothing
            sizes=proxy["sizes"], training=proxy["training"], train_sentences=self.train_sentences,
            seed=self._config.seed, precision=self._options.precision,
        )  # fmt: skip

    @cached_property
    def tested(self) -> Artefact:
        """The proxy's log-likelihoods on the test set, also in a scenario it did not learn."""
        if self.judged.fingerprint == self.rules.fingerprint:
            return self.trained
        return self._store.make(
            "tested", lambda folder: _test(self.open(), self.test_rules, folder), version=1,
            proxy=self.trained, rules=self.judged,
        )  # fmt: skip

    def log_probabilities(self, ids_NM: np.ndarray) -> np.ndarray:
        """Log Q of M words at each decision of the test set, (N, M)."""
        return log_probabilities(self.open(), decisions_of(self.test_rules), ids_NM)

    def open(self) -> Proxy:
        """The trained proxy."""
        proxy = self._fresh()
        load_model(proxy, self.trained.path / WEIGHTS)
        return proxy.eval()

    def _fresh(self) -> Proxy:
        """The configured proxy with fresh weights; an XnmtError where there is none such."""
        source, target = self.explained.texts.subwords
        vocabulary = Vocabulary(len(source), len(target), self.k)
        sizes = plain(self._config.proxy.sizes)
        proxy: Proxy = create("proxies", self._config.proxy.name, vocabulary, **sizes)
        return proxy

    def _pack(self, folder: Path, validation_share: float) -> tuple[np.ndarray, int]:
        """The training decisions as a memory map, and where its held-out last part begins."""
        path, sentences = folder / "decisions", []
        with path.open("wb") as file:
            for rules in self.training_rules():
                append(decisions_of(rules), file)
                sentences.append(rules.sentence_N)
        rows = list(sentence_rows(np.concatenate(sentences)))
        held_out = max(1, round(validation_share * len(rows)))  # in sentences, none of them halved
        return open_decisions(path, self.k), rows[-held_out].start


def _test(proxy: Proxy, rules: Rules, folder: Path) -> None:
    """Writes a proxy's log-likelihoods on the rules of a test set."""
    scores = log_likelihoods(proxy, decisions_of(rules))
    DecisionScores(rules.sentence_N, rules.step_N, *scores).save(folder / SCORES)


def decisions_of(rules: Rules) -> np.ndarray:
    """Rules as the proxies read them."""
    words = np.concatenate([rules.source_NK, rules.prefix_NK], axis=1)
    positions = np.concatenate([rules.source_position_NK, rules.prefix_position_NK], axis=1)
    return pack(rules.label_N, words, positions)
