"""The stages from a trained NMT system to the fidelity of one explainer (Algorithm 1)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from safetensors.torch import load_model, save_model

from proxies import PROXIES
from proxies.base import Proxy, Vocabulary
from proxies.data import append, open_decisions, pack
from proxies.training import (
    ProxyTraining,
    TrainingOptions,
    log_likelihoods,
    log_probabilities,
)
from xnmt_bench.corpora.sentence import Split
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.fitting import clean, fit
from xnmt_bench.metrics.base import base_log_likelihoods, base_log_probabilities
from xnmt_bench.metrics.facets import facets
from xnmt_bench.metrics.hit import hit_at_k
from xnmt_bench.metrics.kl import kl_divergence
from xnmt_bench.metrics.perplexity import DecisionScores, unigram
from xnmt_bench.parquet import write_table
from xnmt_bench.rules.extract import REAL, Scenario, top_words
from xnmt_bench.rules.table import (
    Rules,
    all_rules,
    read_columns,
    read_rules,
    shards,
    write_shard,
)
from xnmt_bench.stages.explained import EVALUATED, Explained
from xnmt_bench.stages.systems import VERSIONS, plain
from xnmt_bench.store import Artefact, write_atomically

SCORES = "test.parquet"
WEIGHTS = "proxy.safetensors"
FACETS_FILE = "facets.parquet"
KL_FILE = "kl.parquet"
SAMPLE_FILE = "sample.json"


class Fidelity(Explained):
    """Rules of one explainer, one proxy trained on them, Base and the reference rows."""

    @property
    def proxy_name(self) -> str:
        """The instantiation's name in results; one that is told positions is another."""
        told = self.config.proxy.sizes.get("sentence_positions", False)
        return self.config.proxy.name + ("+positions" if told else "")

    @property
    def _train_sentences(self) -> int:
        """How many explained sentences the proxy learns from.

        Raises:
            XnmtError: more are asked for than are explained.
        """
        explained = self._sentences("train")
        wanted = self.config.train_sentences or explained
        if wanted > explained:
            raise XnmtError(
                f"train_sentences={wanted} but only {explained} are explained; "
                "raise rules.train_sentences"
            )
        return wanted

    @property
    def scenario(self) -> Scenario:
        """Where the contexts and the labels of the test come from."""
        return self.config.scenario  # type: ignore[no-any-return]

    @property
    def learned_from(self) -> Scenario:
        """The same for the rules that a proxy learns from."""
        return self.config.learned_from  # type: ignore[no-any-return]

    @cached_property
    def rules(self) -> Artefact:
        """The rules that a proxy learns from, with the test set's in the same scenario.

        Where only the test set is annotated and the explainer needs that, they are of it alone.

        Raises:
            NotApplicable: the explainer does not cover this model.
        """
        splits: tuple[Split, ...] = ("train", EVALUATED) if self._teachable else (EVALUATED,)
        return self.explained(self.learned_from, splits)

    @cached_property
    def judged(self) -> Artefact:
        """The rules that predictors are tested on."""
        if self.scenario == self.learned_from:
            return self.rules
        return self.explained(self.scenario, (EVALUATED,))

    @cached_property
    def _teachable(self) -> bool:
        """Whether the explainer speaks of the training sentences, so that a proxy can learn."""
        return not self.explainer.needs_gold or bool(self.gold("train"))

    @cached_property
    def test_rules(self) -> Rules:
        """The test set's rules at the configured k."""
        return all_rules(self.judged.path, EVALUATED, self.config.k)

    def _training_rules(self) -> Iterator[Rules]:
        """The rules of the first `train_sentences` sentences, shard by shard."""
        left = self._train_sentences
        for path in shards(self.rules.path, "train"):
            rules = read_rules(path, self.config.k)
            starts = np.flatnonzero(np.diff(rules.sentence_N, prepend=-1))
            yield rules.take(slice(0, int(starts[left]))) if left < len(starts) else rules
            left -= len(starts)
            if left <= 0:
                return

    @property
    def _sizes(self) -> Vocabulary:
        source, target = self.subwords
        return Vocabulary(len(source), len(target), self.config.k)

    @cached_property
    def proxy(self) -> Artefact:
        """The trained proxy, and its log-likelihoods on the test set in the scenario it learned.

        Raises:
            NotApplicable: the explainer says nothing of the training sentences.
        """
        if not self._teachable:
            raise NotApplicable("the training sentences have no gold annotation")
        config = plain(self.config.proxy)
        training = TrainingOptions(**config["training"])
        recipe = {
            "version": VERSIONS["proxy"],
            "rules": self.rules.id,
            "k": self.config.k,
            "proxy": config,
            "train_sentences": self._train_sentences,
            "seed": self.config.seed,
            "precision": self.options.precision,
        }

        def work(folder: Path) -> dict[str, Any]:
            decisions, cut = self._pack(folder, training.validation_share)

            def build() -> ProxyTraining:
                proxy = _build_proxy(config["name"], self._sizes, config["sizes"])
                return ProxyTraining(proxy, decisions[:cut], decisions[cut:], training)

            module, facts = fit(
                build,
                folder,
                self.config.seed,
                training.max_epochs,
                training.patience,
                self.options,
                f"{config['name']} on {self.config.explainer.name}, k={self.config.k}",
            )
            save_model(module.model, str(folder / WEIGHTS))  # type: ignore[arg-type]
            rules = all_rules(self.rules.path, EVALUATED, self.config.k)
            _test(module.model, rules, folder)  # type: ignore[arg-type]
            (folder / "decisions").unlink()
            clean(folder)
            return {**facts, "train_decisions": len(decisions)}

        return self.store.make("proxy", recipe, work)

    @cached_property
    def tested(self) -> Artefact:
        """The proxy's log-likelihoods on the test set, also in a scenario it did not learn."""
        proxy = self.proxy
        if self.judged.id == self.rules.id:
            return proxy
        recipe = {"version": VERSIONS["proxy"], "proxy": proxy.id, "rules": self.judged.id}

        return self.store.make(
            "tested", recipe, lambda folder: _test(self._trained(), self.test_rules, folder)
        )

    def _trained(self) -> Proxy:
        """The trained proxy, open."""
        config = plain(self.config.proxy)
        proxy = _build_proxy(config["name"], self._sizes, config["sizes"])
        load_model(proxy, self.proxy.path / WEIGHTS)
        return proxy.eval()

    def _pack(self, folder: Path, validation_share: float) -> tuple[np.ndarray, int]:
        """The training decisions as a memory map, and where its held-out last part begins."""
        path, sentences = folder / "decisions", []
        with path.open("wb") as file:
            for rules in self._training_rules():
                append(_decisions(rules), file)
                sentences.append(rules.sentence_N)
        starts = np.flatnonzero(np.diff(np.concatenate(sentences), prepend=-1))
        held_out = max(1, round(validation_share * len(starts)))
        return open_decisions(path, self.config.k), int(starts[-held_out])

    @cached_property
    def base(self) -> Artefact:
        """Log-likelihoods of the NMT model itself on the rules alone, and hit@k."""
        recipe = {"version": VERSIONS["base"], "rules": self.judged.id, "k": self.config.k}

        def work(folder: Path) -> dict[str, Any]:
            rules, split = self.test_rules, self.contexts(EVALUATED, self.scenario)
            scores = base_log_likelihoods(self.model, split, rules)
            DecisionScores(rules.sentence_N, rules.step_N, *scores).save(folder / SCORES)
            if self.scenario == REAL:  # the gold speaks of the reference's words
                return {"hit": None}
            sentences = self.corpus.sentences(EVALUATED)
            return {"hit": hit_at_k(sentences, split, *self.subwords, rules)}

        return self.store.make("base", recipe, work)

    @cached_property
    def sample(self) -> Artefact:
        """The first test sentences in pieces, with the labels, for a page to be browsed."""
        count = min(self.config.metric.fidelity.browsed, self._sentences(EVALUATED))
        recipe = self._decided() | {"version": VERSIONS["sample"], "sample": count}

        def work(folder: Path) -> None:
            rules, split = self.test_rules, self.contexts(EVALUATED, self.scenario)
            source, target = self.subwords
            sentences = []
            for index, number in enumerate(split.number[:count].tolist()):
                mine = rules.take(rules.sentence_N == number)
                sentences.append(
                    {
                        "number": number,
                        "source": source.pieces(split.source[index].tolist()),
                        "target": target.pieces(split.target[index].tolist()),
                        "steps": mine.step_N.tolist(),
                        "labels": target.pieces(mine.label_N.tolist()),
                        "probabilities": mine.probability_N.astype(float).round(4).tolist(),
                    }
                )
            write_atomically(folder / SAMPLE_FILE, json.dumps(sentences, ensure_ascii=False))

        return self.store.make("sample", recipe, work)

    @cached_property
    def distribution(self) -> Artefact:
        """The NMT model's distribution over its top words, at each decision of the test set."""
        words, size = self.config.metric.fidelity.kl_words, len(self.subwords[1])
        if not 1 <= words <= size:
            raise XnmtError(f"metric.fidelity.kl_words={words} is not within 1 and {size}")
        recipe = self._decided() | {"version": VERSIONS["kl"], "words": words}

        def work(folder: Path) -> None:
            split = self.contexts(EVALUATED, self.scenario)
            found = top_words(self.model, split, self._sentences(EVALUATED), words)
            write_shard(found, folder / KL_FILE)

        return self.store.make("distribution", recipe, work)

    def kl(self, instantiation: str) -> Artefact:
        """KL divergence of the predictors from the NMT model: of `base`, or of the proxy."""
        base = instantiation == "base"
        recipe = {
            "version": VERSIONS["kl"],
            "distribution": self.distribution.id,
            "rules": self.judged.id,
            "k": self.config.k,
            "proxy": None if base else self.proxy.id,
        }

        def work(folder: Path) -> None:
            rules, kept = self.test_rules, read_columns(self.distribution.path / KL_FILE)
            if base:
                split = self.contexts(EVALUATED, self.scenario)
                log_q = base_log_probabilities(self.model, split, rules, kept["top_ids"])
            else:
                log_q = log_probabilities(self._trained(), _decisions(rules), kept["top_ids"])
            kl_N = kl_divergence(kept["top_scores"].astype(np.float64), log_q)
            columns = {"sentence": rules.sentence_N, "step": rules.step_N, "kl": kl_N}
            write_table(pa.table(columns), folder / KL_FILE)

        return self.store.make("kl", recipe, work)

    def _decided(self) -> dict[str, Any]:
        """What decides the test set's contexts and labels, whatever explains them."""
        recipe = {
            "rules": VERSIONS["rules"],
            "model": self.model_id,
            "encoded": self.encoded.id,
            "test_sentences": self._sentences(EVALUATED),
            "scenario": self.scenario,
        }
        return recipe | ({"translation": self._translated} if self.scenario == REAL else {})

    @property
    def _translated(self) -> list[int]:
        """What decides a translation beside model and sources."""
        return [VERSIONS["translation"], self.config.nmt.beam]

    def reference(self, kind: str) -> Artefact:
        """Log-likelihoods without any rule: `unigram`, or `nmt` with its whole context."""
        recipe = self._decided() | {
            "version": VERSIONS["reference"],
            "kind": kind,
        }
        if kind == "unigram":
            recipe |= {"train_sentences": self._train_sentences, "learned_from": self.learned_from}
            if self.learned_from == REAL:
                recipe["learned_translation"] = self._translated

        def work(folder: Path) -> None:
            rules = self.test_rules
            if kind == "nmt":
                # A label too improbable for single precision is not impossible.
                p_N = np.maximum(rules.probability_N.astype(np.float64), np.finfo(np.float32).tiny)
                scores: tuple[np.ndarray, ...] = (
                    np.log(p_N),
                    self._first_choices() == rules.label_N,
                )
            else:
                labels = np.concatenate([rules.label_N for rules in self._training_rules()])
                scores = unigram(labels, rules.label_N, len(self.subwords[1]))
            DecisionScores(rules.sentence_N, rules.step_N, *scores).save(folder / SCORES)

        return self.store.make("reference", recipe, work)

    @cached_property
    def facets(self) -> Artefact:
        """What kind of decision each of the test set's is."""
        recipe = self._decided() | {"version": VERSIONS["facets"]}

        def work(folder: Path) -> None:
            rules, gold = self.test_rules, self.gold(EVALUATED) if self.scenario != REAL else None
            found = facets(
                rules,
                self.contexts(EVALUATED, self.scenario),
                self.subwords[1],
                self.split("train"),
                gold,
            )
            columns = {"sentence": rules.sentence_N, "step": rules.step_N, **found}
            write_table(pa.table(columns), folder / FACETS_FILE)

        return self.store.make("facets", recipe, work)

    def _first_choices(self) -> np.ndarray:
        """The NMT model's own choice at each decision of the test set; shape (N,)."""
        split = self.contexts(EVALUATED, self.scenario)
        found = top_words(self.model, split, self._sentences(EVALUATED), words=1)
        return np.asarray(found["top_ids"])[:, 0]

    def job(self) -> dict[str, Any]:
        """What this job is about; its seed is the proxy's too."""
        return super().job() | {
            "k": self.config.k,
            "scenario": self.scenario,
            "learned_from": self.learned_from,
            "seed": self.config.seed,
            "train_sentences": self._train_sentences,
        }


def _build_proxy(name: str, vocabulary: Vocabulary, sizes: dict[str, Any]) -> Proxy:
    if name not in PROXIES:
        raise XnmtError(f"no proxy {name!r}; there are {sorted(PROXIES)}")
    try:
        return PROXIES[name](vocabulary, **sizes)
    except (TypeError, ValueError, AssertionError) as error:
        raise XnmtError(f"proxy {name!r}: {error}") from error


def _test(proxy: Proxy, rules: Rules, folder: Path) -> None:
    """Writes a proxy's log-likelihoods on the rules of a test set."""
    scores = log_likelihoods(proxy, _decisions(rules))
    DecisionScores(rules.sentence_N, rules.step_N, *scores).save(folder / SCORES)


def _decisions(rules: Rules) -> np.ndarray:
    """Rules as the proxies read them."""
    words = np.concatenate([rules.source_NK, rules.prefix_NK], axis=1)
    positions = np.concatenate([rules.source_position_NK, rules.prefix_position_NK], axis=1)
    return pack(rules.label_N, words, positions)
