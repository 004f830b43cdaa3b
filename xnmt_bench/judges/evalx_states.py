"""EVAL-X on states: what can be read from the model where it sees only a few words.

EVAL-X reads the ids of words, so it follows the text and asks nothing of the system. This judge
reads the system's state at the decision, computed with every other word switched off. A state of
the whole context would hold words that the rule leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from safetensors.torch import load_model
from torch import Tensor, nn

from proxies.data import VisibleWords
from proxies.lessons import ProxyTrainingOptions
from proxies.narrowed import PIECES, Pieces
from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.judges.base_tuned import WEIGHTS, BaseTuned
from xnmt_bench.judges.judge import describe_pieces
from xnmt_bench.judges.masked import base_log_likelihoods
from xnmt_bench.judges.rule_set import RuleSet
from xnmt_bench.options import Count, Size
from xnmt_bench.rules.table import Rules

if TYPE_CHECKING:
    # Lightning takes seconds to import.
    from xnmt_bench.judges.tuning import Tuning


class EvalXStates(BaseTuned):
    """A network that reads the label from the NMT model's states, trained on random words.

    The NMT model itself is not tuned. So a label is predicted only from what the model makes of the
    words, and the output layer, which never met such states, is replaced.

    Args:
        rules: the explainer's rules, which it is tested on.
        sentences: the number of training sentences; null for as many as are explained.
        hidden: units of the network's hidden layer.
    """

    name = "evalx_states"
    papers = ("jethani2021",)
    heading = "EVAL-X, states"
    twins_followed: ClassVar[Mapping[str, str]] = {}
    cannot_see = (
        "what the system does with its usual input, and what its states hold but a small "
        "network does not read off them"
    )
    place = 55
    precedence = 0
    starts_trained = False

    def __init__(self, rules: RuleSet, sentences: Count | None = None, hidden: Size = 512) -> None:
        super().__init__(rules, sentences)
        self.hidden = hidden

    @property
    def row_name(self) -> str:
        """Such as `evalx_states`, with the options that are not the defaults."""
        return super().row_name + (f"[hidden={self.hidden}]" if self.hidden != 512 else "")

    @property
    def row_heading(self) -> str:
        """Such as `EVAL-X, states (hidden 64)`."""
        return super().row_heading + (f" (hidden {self.hidden})" if self.hidden != 512 else "")

    def learner_recipe(self) -> dict[str, Any]:
        """Return what tells its training from that of `base_tuned`."""
        recipe = {"readout": {"hidden": self.hidden}}
        return recipe | ({"vocabulary": PIECES} if self._is_narrowed else {})

    def settings(self) -> dict[str, Any]:
        """Return its options, and those of its training."""
        return super().settings() | ({"vocabulary": PIECES} if self._is_narrowed else {})

    @property
    def _is_narrowed(self) -> bool:
        """Whether the vocabulary is too large for weights of every label."""
        return self.rules.wide[1]

    @cached_property
    def _pieces(self) -> Pieces | None:
        """The classes of labels, of a network that has weights of only those it learns from."""
        if not self._is_narrowed:
            return None
        rules = self.rules
        contexts = self.learnt_decisions.visible_words(rules.learned_from, self.train_sentences)
        pieces = Pieces(contexts.label_N, len(rules.explained.texts.subwords[1]))
        return pieces.to(rules.trainer.device)

    def facts(self) -> dict[str, Any]:
        """Return what is known of its training, and of its labels where it lacks some."""
        pieces = self._pieces
        described = {} if pieces is None else describe_pieces(pieces, self.rules.test.label_N)
        return super().facts() | described

    def training(
        self,
        split: EncodedSplit,
        contexts: VisibleWords,
        k: int,
        options: ProxyTrainingOptions,
        seed: int,
    ) -> Tuning:
        """Return the training of the network, from fresh weights."""
        from xnmt_bench.judges.tuning import ReadoutTraining

        readout, model = self._fresh(), self._copy_model()
        return ReadoutTraining(readout, self._pieces, model, split, contexts, k, options, seed)

    def _fresh(self) -> nn.Module:
        """Return the network with fresh weights."""
        model, split = self.rules.system.model, self.rules.test_split
        batch = model.collate([(split.source[0], split.target[0])])
        with torch.no_grad():
            dimension = model.states(batch).shape[-1]
        return nn.Sequential(
            # States of different systems differ in scale.
            nn.LayerNorm(dimension),
            nn.Linear(dimension, self.hidden),
            nn.ReLU(),
            nn.Linear(self.hidden, len(self._pieces or model.target_subwords)),
        )

    def log_likelihood(self, rules: Rules) -> tuple[np.ndarray, np.ndarray]:
        """Return log Q of each label, and whether the label is the network's first choice."""
        readout = self._fresh()
        load_model(readout, self.trained.path / WEIGHTS)
        readout, pieces = readout.to(self.rules.trainer.device), self._pieces

        def decide(states_BD: Tensor, label_B: Tensor) -> tuple[Tensor, Tensor]:
            if pieces is not None:
                return pieces.decide(readout(states_BD), label_B)
            log_q_BV = readout(states_BD).log_softmax(-1)
            return log_q_BV.argmax(-1), log_q_BV.gather(-1, label_B[:, None])[:, 0]

        model, split = self.rules.system.model, self.rules.test_split
        return base_log_likelihoods(model, split, rules, decide=decide)
