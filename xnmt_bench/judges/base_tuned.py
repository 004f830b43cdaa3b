"""Base, tuned: the NMT model that has learnt to decide from a few words.

Base gives the model input that it has never met: all words but a few switched off. Fine-tuned on
its own labels with random words switched off, the model meets such input in training.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from safetensors.torch import load_model, save_model

from proxies.data import VisibleWords
from proxies.lessons import ProxyTrainingOptions
from xnmt_bench.code_hash import code_of_plug_in
from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.device import available_memory, device_of
from xnmt_bench.errors import NotApplicable
from xnmt_bench.judges.judge import Judge, training_facts
from xnmt_bench.judges.masked import VERSION, base_log_likelihoods
from xnmt_bench.judges.rule_set import RuleSet
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.options import Count
from xnmt_bench.pipeline.decisions import Decisions
from xnmt_bench.rules.table import Rules
from xnmt_bench.store import Stage, Work

if TYPE_CHECKING:
    # Lightning takes seconds to import.
    from xnmt_bench.judges.tuning import Tuning

WEIGHTS = "tuned.safetensors"


class BaseTuned(Judge):
    """The NMT model, fine-tuned on its own labels with random words switched off.

    Args:
        rules: the explainer's rules, which it is tested on.
        sentences: the number of training sentences; null for as many as are explained.
    """

    name = "base_tuned"
    heading = "Base, tuned"
    twins_followed: ClassVar[Mapping[str, str]] = {
        "generated twins": "10 of 10",
        "natural twins": "2 of 5",
        "natural twins of two architectures": "10 of 10",
    }
    place = 10
    precedence = 0
    learns_from = "random words"
    switches_off = True
    cannot_see = (
        "which of two words decides, where both always stand together in the text that it learns "
        "from: tuning may teach it to use either"
    )
    # Validated before the first step: if tuning only hurts, the system as it was is kept.
    starts_trained: ClassVar[bool] = True

    def __init__(self, rules: RuleSet, sentences: Count | None = None) -> None:
        super().__init__(rules)
        self.sentences = sentences

    @property
    def row_name(self) -> str:
        """`base_tuned`, or `base_tuned@2000` with a number of sentences of its own."""
        return self.name + (f"@{self.sentences}" if self.sentences else "")

    @property
    def row_heading(self) -> str:
        """Such as `Base, tuned (2,000)`."""
        return self.heading + (f" ({self.sentences:,})" if self.sentences else "")

    @property
    def row_order(self) -> list[Any]:
        """By the number of sentences."""
        return [self.place, self.name, self.sentences or 0]

    def settings(self) -> dict[str, Any]:
        """Return its options, and those of its training."""
        # Rows of trainings of unlike length are then never ranked together.
        return super().settings() | vars(self.rules.proxy.training)

    @property
    def learnt_decisions(self) -> Decisions:
        """The system's decisions that it learns from."""
        return self.rules.decisions

    @cached_property
    def train_sentences(self) -> int:
        """The number of sentences that it learns from."""
        return self.rules.count_to_learn(f"judge.{self.name}.sentences", self.sentences)

    @cached_property
    def trained(self) -> Stage:
        """The fine-tuned model in the store."""
        rules, options = self.rules, self.rules.trainer
        training = rules.proxy.training

        def work(folder: Path) -> dict[str, Any]:
            # Lightning takes seconds to import, and most commands train nothing.
            from xnmt_bench.fitting import fit

            sentences, decisions = self.train_sentences, self.learnt_decisions
            contexts = decisions.visible_words(rules.learned_from, sentences)
            split = decisions.split("train", rules.learned_from, sentences)
            module, facts = fit(
                lambda: self.training(split, contexts, rules.k, training, rules.seed),
                folder,
                rules.seed,
                training.max_epochs,
                training.patience,
                options,
                f"{self.row_name}, k={rules.k}",
                from_start=self.starts_trained,
            )
            save_model(module.learnt, str(folder / WEIGHTS))  # type: ignore[arg-type]
            return dict(facts)

        return rules.store.stage(
            "tuned",
            work,
            version=2,
            masked=VERSION,
            amount=Work(f"{self.row_name} on {rules.system.name}", training.max_epochs, "epochs"),
            # No rules in the recipe: all explainers share one tuned model.
            labels=self.learnt_decisions.labels("train", rules.learned_from, self.train_sentences),
            admit_special=rules.decisions.extraction.admit_special,
            k=rules.k,
            training=vars(training),
            seed=rules.seed,
            precision=options.precision,
            **self.learner_recipe(),
            judge=code_of_plug_in(type(self)),
        )

    def training(
        self,
        split: EncodedSplit,
        contexts: VisibleWords,
        k: int,
        options: ProxyTrainingOptions,
        seed: int,
    ) -> Tuning:
        """Return the training of what it learns, from its first weights."""
        from xnmt_bench.judges.tuning import Tuning

        self._require_memory()
        return Tuning(self._copy_model(True), split, contexts, k, options, seed)

    def learner_recipe(self) -> dict[str, Any]:
        """Return what decides the first weights besides the system; nothing here."""
        return {}

    def _require_memory(self) -> None:
        """Raise a NotApplicable where a large model leaves no room for its tuning."""
        model = self.rules.system.model
        weights = sum(w.numel() * w.element_size() for w in model.parameters())
        free = available_memory(device_of(model))
        # A copy, its gradients, and Adam's two moments.
        if free is not None and (needed := 4 * weights) > free:
            gibibytes = [f"{size / 2**30:.1f} GiB" for size in (needed, free)]
            raise NotApplicable("tuning takes {} of memory, and {} are free".format(*gibibytes))

    def _copy_model(self, learns: bool = False) -> NMTModel:
        # A copy, since every other judge and explainer reads the system as it was trained.
        # An opened system has no gradients; tuning asks for them.
        return deepcopy(self.rules.system.model).requires_grad_(learns)

    def recipe(self) -> dict[str, Any]:
        """Return the fine-tuned model, which decides every prediction."""
        return {"tuned": self.trained}

    def log_likelihood(self, rules: Rules) -> tuple[np.ndarray, np.ndarray]:
        """Return log P of each label, and whether the label is the model's first choice."""
        model = self._copy_model()
        load_model(model, self.trained.path / WEIGHTS)
        # Scored exactly as Base is, so that the two differ only by the tuning.
        return base_log_likelihoods(model.eval(), self.rules.test_split, rules)

    def made_by(self) -> dict[str, str]:
        """Return the fine-tuned model's fingerprint."""
        return {"learned": self.trained.fingerprint}

    def facts(self) -> dict[str, Any]:
        """Return what is known of its training; see `training_facts`."""
        return training_facts(self.trained, self.train_sentences)
