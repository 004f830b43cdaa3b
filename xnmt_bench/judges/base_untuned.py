"""Base: the NMT model as its own proxy, which sees only the rule (Li et al. 2020, section 3.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from xnmt_bench.judges.judge import Judge
from xnmt_bench.judges.masked import VERSION, base_distributions, base_log_likelihoods
from xnmt_bench.judges.rule_set import RuleSet
from xnmt_bench.nmt.switched import Removal
from xnmt_bench.rules.table import Rules


class Base(Judge):
    """The NMT model with the embedding of every word outside the rule zeroed.

    Args:
        rules: the explainer's rules, which it is tested on.
        removal: what replaces an embedding: zero as in the paper, the unweighted mean of
            the vocabulary, or the unknown word; or `attention`: zero, and no layer attends to the
            word.
    """

    name = "base"
    papers = ("li2020",)
    heading = "Base"
    twins_followed: ClassVar[Mapping[str, str]] = {
        "generated twins": "10 of 10",
        "natural twins": "7 of 10",
        "natural twins of two architectures": "14 of 15",
    }
    place = 0
    precedence = 0
    cannot_see = (
        "what the system does with its usual input: every word outside the rule is switched "
        "off, which it never met in training"
    )
    gives_distributions = True
    switches_off = True
    version = VERSION

    def __init__(self, rules: RuleSet, removal: Removal = "zero") -> None:
        super().__init__(rules)
        self.removal = removal

    @property
    def row_name(self) -> str:
        """Such as `base`, with the option that is not the default."""
        return self.name + (f"[removal={self.removal}]" if self.removal != "zero" else "")

    @property
    def row_heading(self) -> str:
        """Such as `Base (mean)`."""
        # As `attention` it would be taken for the explainer.
        removal = "masked keys" if self.removal == "attention" else self.removal
        return self.heading + (f" ({removal})" if removal != "zero" else "")

    def recipe(self) -> dict[str, Any]:
        """Return its name and option; the rules' recipe holds the model."""
        # Without a hash of its code: `version` says when its numbers change.
        return {"judge": self.row_name}

    def log_likelihood(self, rules: Rules) -> tuple[np.ndarray, np.ndarray]:
        """Return log P of each label, and whether the label is the model's first choice."""
        model, split = self.rules.system.model, self.rules.test_split
        return base_log_likelihoods(model, split, rules, removal=self.removal)

    def log_distributions(
        self, rules: Rules, positions: int
    ) -> Iterator[tuple[np.ndarray, Tensor]]:
        """Yield rows of some rules at a time, and log P of the vocabulary, (B, V)."""
        model = self.rules.system.model
        return base_distributions(model, self.rules.test_split, rules, positions, self.removal)
