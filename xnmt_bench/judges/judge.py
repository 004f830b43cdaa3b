"""What a judge is: it predicts an NMT decision from only the decision's rule."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor

from proxies.narrowed import Pieces
from xnmt_bench.code_hash import code_hash
from xnmt_bench.engine import make_shards
from xnmt_bench.judges.rule_set import RuleSet
from xnmt_bench.lazy import Lazy
from xnmt_bench.measuring.measurement import ScoredRow
from xnmt_bench.measuring.metric import Column, PivotValue, ratio
from xnmt_bench.rules.scores import DecisionScores
from xnmt_bench.rules.table import Rules, is_finished, shard_paths
from xnmt_bench.store import Stage, Work

LearnsFrom = Literal["nothing", "labels", "rules", "random words", "distributions", "a judge"]
SCORES = "test.parquet"
# Facts of a row: sentences read in learning, over all epochs; seconds of learning, of judging.
LEARNING_PASSES, LEARNING_SECONDS = "learning_passes", "learning_seconds"
JUDGING_SECONDS = "judging_seconds"
TOLD_APART = "pieces"  # of a vocabulary too large for weights of each


class Judge(Lazy, ABC):
    """Predicts the label of a decision from the words of its rule.

    Options are arguments of `__init__` behind the rules, each with a default.

    Args:
        rules: the explainer's rules, and the job that they belong to.

    Attributes:
        name: as in `judge=[name]`; also the value of the column `instantiation`.
        heading: of its column in tables.
        place: its place among the columns; smaller stands farther left.
        precedence: lines of a table are sorted by the judges with the greatest precedence.
        learns_from: what training shows it.
        gives_distributions: whether its distribution is compared with the system's, where the
            judge `kl` is chosen.
        switches_off: whether it asks the system with words switched off, so that its rows say what
            it predicts with no word on, and with all.
        sees_rule: whether its prediction depends on the rule; a reference's does not.
        result_columns: results that its rows have besides those of every judge.
        csv_only: names of its rows that tables leave out.
        cannot_see: what it cannot see of a system, in words for readers.
        twins_followed: in how many pairs of twins, taught on ordinary text, it followed the system
            (docs/recorded/trial.md), such as `10 of 10`, by the kind of twins, such as `natural
            twins`. A kind that it was not tried on is absent.
        tried_as: the instantiation that these numbers are of, if it is not the judge's name.
        version: raise it when the same recipe gives other log-likelihoods.
        papers: where it was published: keys of `references.bib`, or BibTeX entries.
    """

    name: ClassVar[str]
    heading: ClassVar[str]
    place: ClassVar[int] = 70
    precedence: ClassVar[int] = 1
    learns_from: ClassVar[LearnsFrom] = "nothing"
    gives_distributions: ClassVar[bool] = False
    switches_off: ClassVar[bool] = False
    sees_rule: ClassVar[bool] = True
    result_columns: ClassVar[Sequence[Column]] = ()
    csv_only: ClassVar[Sequence[str]] = ()
    cannot_see: ClassVar[str] = ""
    twins_followed: ClassVar[Mapping[str, str]] = MappingProxyType({})
    tried_as: ClassVar[str] = ""
    papers: ClassVar[tuple[str, ...]] = ()
    version: ClassVar[int] = 1

    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules

    @abstractmethod
    def log_likelihood(self, rules: Rules) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Return the log-probability of each rule's label.

        Args:
            rules: N rules of test decisions.

        Returns:
            Natural logarithms, (N,). Or a pair: these, and whether the label is the judge's most
            probable word, (N,), from which the column `accuracy` follows.

        Raises:
            NotApplicable: the judge cannot judge this explainer or system.
        """

    def log_distributions(
        self, rules: Rules, positions: int
    ) -> Iterator[tuple[np.ndarray | slice, Tensor]]:
        """Yield rows of some rules at a time, and log Q over the whole vocabulary, (B, V).

        Only a judge that `gives_distributions` has it.

        Args:
            rules: N rules of test decisions.
            positions: how much may be computed at once; it is halved where memory runs out.
        """
        raise NotImplementedError

    @property
    def row_name(self) -> str:
        """The value of the column `instantiation`."""
        return self.name

    @property
    def row_heading(self) -> str:
        """The heading of its column."""
        return self.heading

    @property
    def row_order(self) -> list[Any]:
        """Sorts the columns of judges."""
        return [self.place, self.row_name, 0]

    def pivot_value(self) -> PivotValue:
        """Return how tables show its column; the docstring's first line says what it is."""
        meaning = (inspect.getdoc(type(self)) or "").partition("\n")[0].rstrip(".")
        return PivotValue(self.row_heading, self.row_order, self.precedence, meaning)

    def row_keys(self) -> dict[str, Any]:
        """Return the columns of its row that it decides itself.

        The seed is the job's where the judge is trained. Otherwise it is the explainer's, and
        nothing about training matters.
        """
        # Empty columns, so that rows of one explainer under several training sizes are one row.
        if self.learns_from == "nothing":
            return {"instantiation": self.row_name, "train_sentences": "", "learned_from": ""}
        return {"instantiation": self.row_name, "seed": self.rules.seed}

    @property
    def options(self) -> dict[str, Any]:
        """Its options in the configuration."""
        # The recipe holds the class's own name, and its code.
        options = self.rules.job.settings.judge.get(self.name, {})
        return {key: value for key, value in options.items() if key != "_target_"}

    def settings(self) -> dict[str, Any]:
        """Return what else decides its numbers, by name: its options, and how it was trained."""
        return self.options

    def recipe(self) -> dict[str, Any]:
        """Return what decides its predictions besides the test rules.

        By default its class, its code, its options, and the rules or labels it learns from.
        """
        recipe: dict[str, Any] = {
            # The class and not its short name, which another package may take later.
            "judge": f"{type(self).__module__}:{type(self).__qualname__}",
            "code": code_hash(type(self)),
            "options": self.options,
        }
        if self.learns_from == "rules":
            recipe["training_rules"] = self.rules.training_artefact
            recipe["train_sentences"] = self.rules.train_sentences
            if self.rules.other_prefix:  # the tested rules have the name `prefix` in a recipe
                recipe["training_prefix"] = self.rules.prefix
        # Only labels: rules of another explainer leave such a judge, and its artefact, unchanged.
        elif self.learns_from == "labels":
            recipe["labels"] = self.rules.training_labels(self.rules.train_sentences)
        # Training draws order and dropout from the seed.
        if self.learns_from != "nothing":
            recipe["seed"] = self.rules.seed
        return recipe

    @cached_property
    def judged(self) -> Stage:
        """Its log-likelihoods of the test rules' labels, in the store.

        Raises:
            NotApplicable: the explainer has no rules here, or the judge cannot judge them.
        """
        rules = self.rules
        options, sentences = rules.decisions.extraction, rules.test_sentences
        # A reference that sees no rule reads the whole test set at once.
        count = options.shards(sentences) if self.sees_rule else 1

        def work(folder: Path) -> None:
            paths = shard_paths(folder, "shards", count)

            def make(numbers: Sequence[int]) -> Iterator[int]:
                for number in numbers:
                    paths[number].parent.mkdir(exist_ok=True)
                    part = rules.test if count == 1 else rules.test_shard(number)
                    self._judge(part).save(paths[number])
                    yield number

            title, shown = f"judged by {self.row_heading}", rules.job.progress and count > 1
            make_shards(folder, "shards", paths, make, title, shown, is_finished)
            parts = [DecisionScores.load(path) for path in paths]
            DecisionScores.join(parts).save(folder / SCORES)
            rmtree(folder / "shards")

        kind = f"{self.row_name}, k = {rules.k}, on {rules.system.name}"
        amount = Work(kind, sentences, "sentences")
        return rules.store.stage(
            "judged",
            work,
            version=self.version,
            amount=amount,
            shard_sentences=options.shard_sentences,
            **self.recipe(),
            **self._tested_on(),
        )

    def _judge(self, rules: Rules) -> DecisionScores:
        """Return its log-likelihoods of some rules; by decision, since analyses cut by kinds."""
        predicted = self.log_likelihood(rules)
        log_p_N, correct_N = predicted if isinstance(predicted, tuple) else (predicted, None)
        return DecisionScores(rules.sentence_N, rules.step_N, log_p_N, correct_N)

    def _tested_on(self) -> dict[str, Any]:
        rules = self.rules
        if self.sees_rule:
            return rules.tested_view
        # The decisions are the same under every explainer, and so is what is predicted of them.
        return rules.decisions.decided("test", rules.scenario)

    def scores(self) -> DecisionScores:
        """Return its log-likelihoods of the test rules' labels."""
        return DecisionScores.load(self.judged.path / SCORES)

    def made_by(self) -> dict[str, str]:
        """Return the fingerprints of the artefacts behind it, for the signature."""
        return {}

    def facts(self) -> dict[str, Any]:
        """Return further facts, such as the epochs of its training."""
        return {}

    def columns(self) -> dict[str, np.ndarray]:
        """Return what `result_columns` follow from, (N,) each, one value a test decision.

        A name that begins with `log_` is of log-likelihoods, which are 0 at the most.
        """
        return {}

    @classmethod
    def results(cls, sums_R: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return its `result_columns`, (R,) each, as far as the sums hold what they follow from.

        By default the mean over the decisions of what `columns` gives under the same name.

        Args:
            sums_R: sums of `log_likelihood`, of `rows` (decisions), and of each of `columns`.
        """
        names = [column.name for column in cls.result_columns if column.name in sums_R]
        return {name: ratio(sums_R[name], sums_R["rows"]) for name in names}

    @classmethod
    def combine(cls, scored: Sequence[ScoredRow]) -> list[ScoredRow]:
        """Return rows made of this judge's rows, such as the best of a family."""
        return []


def describe_pieces(pieces: Pieces, labels_N: np.ndarray) -> dict[str, Any]:
    """Return how many pieces a judge tells apart, and how many labels are none of these.

    Args:
        pieces: of the target side.
        labels_N: of the test decisions.
    """
    learnt = len(pieces) - 1
    unlearnt = int((pieces.class_V.cpu().numpy()[labels_N] == learnt).sum())
    of_pieces = {"learnt": learnt, "of": len(pieces.class_V)}
    return {TOLD_APART: of_pieces | {"labels": len(labels_N), "unlearnt labels": unlearnt}}


def training_facts(trained: Stage, sentences: int) -> dict[str, Any]:
    """Return validation loss, epochs, whether training ended at its cap, and what it cost.

    Args:
        trained: what was trained.
        sentences: the number of training sentences.
    """
    facts = {key: trained.facts[key] for key in ("valid_loss", "epochs", "capped")}
    passes = facts["epochs"] * sentences
    return facts | {LEARNING_PASSES: passes, LEARNING_SECONDS: trained.artefact.seconds}
