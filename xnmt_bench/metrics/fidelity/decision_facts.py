"""What is known of a job's test decisions besides the judges' predictions."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from xnmt_bench.device import device_of
from xnmt_bench.judges import Judge, RuleSet
from xnmt_bench.judges.kl import divergences
from xnmt_bench.judges.masked import room
from xnmt_bench.metrics.fidelity.hit import hit_at_k
from xnmt_bench.parquet import read_table, write_table
from xnmt_bench.pipeline.doubts import about_decisions
from xnmt_bench.pipeline.explained import EVALUATED
from xnmt_bench.pipeline.off_words import shares_off_words
from xnmt_bench.rules.decision_kinds import facets
from xnmt_bench.rules.density import Density, stored_density
from xnmt_bench.rules.extract import REAL, TEACHER_FORCING
from xnmt_bench.rules.prefix import NONE
from xnmt_bench.rules.sample import write_sample
from xnmt_bench.rules.states import write_states
from xnmt_bench.rules.table import write_relevance, write_rules
from xnmt_bench.store import Stage

FACETS_FILE, KL_FILE = "facets.parquet", "kl.parquet"
HITS_FILE, RULES_FILE, SAMPLE_FILE = "hits.npy", "rules.parquet", "sample.json"
RELEVANCE_FILE = "relevance.parquet"


class TestDecisions:
    """The decisions of the test set, and the explainer's rules of them."""

    __test__ = False  # pytest would collect a class of this name

    def __init__(self, rules: RuleSet) -> None:
        self.rules, self._job = rules, rules.job

    @cached_property
    def _recipe(self) -> dict[str, Any]:
        """What decides the decisions, under every explainer."""
        return self.rules.decisions.decided(EVALUATED, self.rules.scenario)

    def _write(self, path: Path, **columns: np.ndarray) -> None:
        """Write a row for each test decision."""
        rules = self.rules.test
        table = {"sentence": rules.sentence_N, "step": rules.step_N, **columns}
        write_table(pa.table(table), path)

    @cached_property
    def hits(self) -> np.ndarray | None:
        """Hits of the rules by sentence, (U, 6); see `hit_at_k`.

        None where the corpus's gold names no deciding words.
        """

        def work(folder: Path) -> None:
            counts_U6 = None
            if self.rules.scenario != REAL:  # the gold is of the reference's words
                sentences = self._job.corpus.sentences(EVALUATED)
                counts_U6 = hit_at_k(sentences, self.rules.test_split, self.rules.test)
            if counts_U6 is not None and self.rules.prefix == NONE:
                counts_U6[:, 2:4] = 0  # a side that rules do not have is not missed
            # An empty table means "no gold", so that it is not looked for again.
            np.save(folder / HITS_FILE, np.zeros((0, 6)) if counts_U6 is None else counts_U6)

        artefact = self._job.store.stage("hits", work, version=3, **self.rules.tested_view)
        # A pickle could run code when it is read.
        counts_U6 = np.load(artefact.path / HITS_FILE, allow_pickle=False)
        return counts_U6 if len(counts_U6) else None

    @cached_property
    def off_words(self) -> np.ndarray | None:
        """What share of attention lies on no word at each test decision, (N,); see the function."""
        shares = shares_off_words(self.rules.explained, self.rules.scenario)
        return None if shares is None else np.concatenate([*shares.values()])

    def kl(self, judge: Judge) -> np.ndarray:
        """Return the KL divergence of a judge from the NMT model at each test decision, (N,)."""

        def work(folder: Path) -> None:
            model, contexts = self._job.system.model, self.rules.test_split
            sentences = self.rules.test_sentences
            states_path = folder / "states.tmp"  # the store removes `.tmp` of a killed run
            states_ND = write_states(model, contexts, sentences, states_path)

            def diverge(positions: int) -> np.ndarray:
                predicted = judge.log_distributions(self.rules.test, positions)
                return divergences(model, states_ND, predicted)

            self._write(folder / KL_FILE, kl=room().tried(device_of(model), diverge))
            # As large as all states, and of no use once the divergences are known.
            states_path.unlink()

        recipe = self.rules.tested_view | {"judge_version": judge.version} | judge.recipe()
        artefact = self._job.store.stage("kl", work, version=2, **recipe)
        return read_table(artefact.path / KL_FILE, ["kl"])["kl"].to_numpy()

    def browsed(self, sentences: int) -> dict[str, Path]:
        """Return the files of the first test sentences' rules and relevance, for the page."""
        count = min(sentences, self.rules.test_sentences)

        def work(folder: Path) -> None:
            # The order of the rules, which `sample` follows too.
            first = dict.fromkeys(self.rules.test.sentence_N.tolist())
            browsed = np.isin(self.rules.test.sentence_N, list(first)[:count])
            if self.rules.explained.explainer.against_gold:
                browsed &= self.rules.counted
            write_rules(self.rules.test.take(browsed), folder / RULES_FILE)
            write_relevance(self.rules.test_artefact.path, "test", count, folder / RELEVANCE_FILE)

        recipe = self.rules.tested_view | {"sample": count}
        folder = self._job.store.stage("browsed", work, version=2, **recipe).path
        return {"browsed_rules": folder / RULES_FILE, "browsed_relevance": folder / RELEVANCE_FILE}

    @cached_property
    def planted(self) -> dict[str, np.ndarray]:
        """Which test decisions are of a planted word, its first piece, by slot; (N,) each.

        Only those in which the system says the target's own word.
        """
        rules = self.rules
        if rules.scenario == REAL or not self._job.corpus.plants:
            return {}  # before the whole corpus is read
        annotation = rules.explained.texts.gold(EVALUATED)
        steps: dict[str, dict[int, int]] = {}  # of each slot: the step by sentence
        split = rules.test_split
        for index, number in enumerate(split.number.tolist()):
            planted = annotation[number].planted if number in annotation else ()
            word_T = split.target.current_words(index).tolist() if planted else []
            for word in planted:
                if word.word in word_T:  # a tokenizer may drop all of its characters
                    steps.setdefault(word.slot, {})[number] = word_T.index(word.word)
        sentence_N, step_N = rules.test.sentence_N.tolist(), rules.test.step_N
        right_N = rules.test.label_N == rules.target_words
        return {
            slot: right_N & (step_N == [of_slot.get(n, -1) for n in sentence_N])
            for slot, of_slot in steps.items()
        }

    @cached_property
    def density(self) -> Density:
        """How often the explainer's training rules come back, at k = 1 (Li et al. 2020, Table 2).

        Raises:
            NotApplicable: the explainer has no rules of the training sentences.
        """
        training = self.rules.training_artefact

        def work(_: Path) -> dict[str, Any]:
            return vars(stored_density(training.path, self.rules.learnable))

        facts = self._job.store.stage("density", work, version=1, rules=training).facts
        return Density(facts["rules"], facts["unique"], tuple(facts["bins"]))

    @cached_property
    def doubts(self) -> list[str]:
        """Why numbers on the system's decisions mean little; empty for the usual system."""
        # In the other scenarios the label is the target's word by definition.
        if self.rules.scenario != TEACHER_FORCING:
            return self.rules.decisions.describe_left_out(EVALUATED, self.rules.scenario)
        thresholds, labels_N = self._job.settings.doubts, self.rules.test.label_N
        return list(about_decisions(labels_N, self.rules.target_words, thresholds))

    @cached_property
    def facets(self) -> Stage:
        """The kind of each test decision, in the store."""

        def work(folder: Path) -> None:
            rules, texts = self.rules, self.rules.explained.texts
            gold = None if rules.scenario == REAL else texts.gold(EVALUATED)
            target, train = texts.subwords[1], learnt.split("train")
            kinds = facets(rules.test, rules.test_split, target, train, gold)
            self._write(folder / FACETS_FILE, **kinds)

        # Labels are counted in the texts that the system learnt from.
        learnt = self._job.system.learnt_texts
        recipe = self._recipe | {"learnt": learnt.encoded["train"]}
        return self._job.store.stage("facets", work, version=2, **recipe)

    def sample(self, sentences: int) -> Stage:
        """Return the first test sentences in pieces with the labels, in the store."""
        count = min(sentences, self.rules.test_sentences)

        def work(folder: Path) -> None:
            contexts, subwords = self.rules.test_split, self._job.system.subwords
            write_sample(self.rules.test, contexts, subwords, count, folder / SAMPLE_FILE)

        return self._job.store.stage("sample", work, version=1, sample=count, **self._recipe)
