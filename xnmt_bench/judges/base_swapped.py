"""Base, swapped: the NMT model, tuned on sentences in which words that go together part.

In clean text a word that the model uses and another that always occurs with it say the same, so a
judge that learns from it cannot tell which of them decides. Where each word is drawn from its
category, only words that the model uses predict what it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from xnmt_bench.corpora.exchange.exchangeable import EXCHANGED
from xnmt_bench.corpora.exchange.swapped import SwappedCorpus
from xnmt_bench.judges.base_tuned import BaseTuned
from xnmt_bench.judges.rule_set import RuleSet
from xnmt_bench.options import Count, Part
from xnmt_bench.pipeline.decisions import Decisions


class BaseSwapped(BaseTuned):
    """The NMT model, fine-tuned as `base_tuned` on sentences with exchanged words.

    Labels are the system's on the new sentences. Words are of one category of the corpus's grammar,
    or stand between like neighbours in the training text.

    Args:
        rules: the explainer's rules, which it is tested on.
        sentences: the number of training sentences; null for as many as are explained.
        share: the probability with which a word is drawn anew.
    """

    name = "base_swapped"
    heading = "Base, swapped"
    twins_followed: ClassVar[Mapping[str, str]] = {
        "generated twins": "10 of 10",
        "natural twins": "3 of 5",
        "natural twins of two architectures": "10 of 10",
    }
    cannot_see = "what words do only in the company that exchanging them breaks up"
    place = 12

    def __init__(
        self,
        rules: RuleSet,
        sentences: Count | None = None,
        share: Part = 1.0,
    ) -> None:
        super().__init__(rules, sentences)
        self.share = share

    @property
    def row_name(self) -> str:
        """Such as `base_swapped`, with the options that are not the defaults."""
        return super().row_name + (f"[share={self.share:g}]" if self.share < 1 else "")

    @property
    def row_heading(self) -> str:
        """Such as `Base, swapped (50 %)`."""
        return super().row_heading + (f" ({100 * self.share:g} %)" if self.share < 1 else "")

    def settings(self) -> dict[str, Any]:
        """Return those of `base_tuned`, and which words are exchanged."""
        return super().settings() | {EXCHANGED: self.rules.job.exchangeable.rule}

    @cached_property
    def train_sentences(self) -> int:
        """The number of sentences that it learns from: one or a few less than configured.

        Exchanged words may have more pieces, so that fewer pairs are short enough.
        """
        return min(super().train_sentences, len(self.learnt_decisions.texts.split("train")))

    @cached_property
    def learnt_decisions(self) -> Decisions:
        """The system's decisions on the training sentences with exchanged words."""
        job = self.rules.job
        # Words of one category, so that sentences stay sentences that the system can read.
        swapped = SwappedCorpus(job.corpus, job.exchangeable, self.share, self.rules.seed)
        # The system labels the new sentences, since a judge predicts what it decides there.
        return job.decisions(swapped, ("train",))
