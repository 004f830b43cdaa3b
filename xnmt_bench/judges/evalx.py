"""EVAL-X: one proxy for all explainers, which learns from words drawn at random."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from proxies.data import DrawnRules, VisibleWords, batch_decisions
from proxies.lessons import Lessons, ProxyTrainingOptions
from xnmt_bench.errors import NotApplicable, XnmtError
from xnmt_bench.judges.from_evalx import FromEvalX
from xnmt_bench.judges.matched import OnMatchedRules
from xnmt_bench.judges.rule_set import RuleSet
from xnmt_bench.judges.trained_proxy import HELD_OUT, TrainedProxy, held_out
from xnmt_bench.measuring.metric import Column, ratio
from xnmt_bench.options import Count
from xnmt_bench.rules.prefix import CHOSEN
from xnmt_bench.rules.table import sentence_starts

log = logging.getLogger(__name__)

ALPHAS = (1, 10)  # of STRIPE-X
LEAKS = "Leak: what an explainer's own proxy gains by how it chooses"
LEAK_NOTE = (
    "In nats a decision: how much surer of the label the shared proxy becomes by learning from the "
    "explainer's own rules (leak), or from the same words under the labels of other decisions that "
    "hold them (matched); what exceeds matched is choice. STRIPE-X is the shared proxy's loss and "
    "alpha times what leaks; a large alpha favours choosing without the label, as random does. "
    "Lower is better."
)
nats = "{:.3f}".format


class EvalX(TrainedProxy):
    """The configured proxy on random words (Jethani et al. 2021).

    Words are drawn anew each epoch, and no explainer chooses them. So the way in which an explainer
    chooses its words teaches the proxy nothing, and a code gains nothing here.

    Args:
        rules: the explainer's rules, which it is tested on.
        sentences: the number of training sentences; null for as many as are explained.
        leak: also measure what the explainer's choice of words adds, in nats; see `from_evalx`.
    """

    name = "evalx"
    papers = ("jethani2021",)
    heading = "EVAL-X"
    twins_followed: ClassVar[Mapping[str, str]] = {
        "generated twins": "0 of 10",
        "natural twins": "3 of 10",
        "natural twins of two architectures": "4 of 15",
    }
    tried_as = "evalx_sa"
    cannot_see = (
        "the system: it learns labels from text, and of words that always stand together there it "
        "may use either"
    )
    place = 50
    precedence = 2  # no choice of words can please it, so it orders the lines of a table
    learns_from = "random words"
    result_columns = (
        Column.lower("leak", "leak", nats, title=LEAKS, note=LEAK_NOTE).means(
            "nats a decision that EVAL-X gains from the explainer's own rules"
        ),
        Column("matched", "matched", nats, title=LEAKS, interval=True).means(
            "nats that it gains from the same words under other labels"
        ),
        Column.lower("choice", "choice", nats, title=LEAKS).means("leak less matched"),
        *Column.lower("stripe_{}", "STRIPE-X, {}", nats, title=LEAKS)
        .means("loss of EVAL-X, and {} times the leak")
        .of_each(ALPHAS),
    )

    def __init__(self, rules: RuleSet, sentences: Count | None = None, leak: bool = False) -> None:
        super().__init__(rules)
        if leak and sentences is not None:
            # Otherwise the leak would mix what more sentences teach with what the choice of words
            # tells.
            raise XnmtError(
                "judge.evalx.leak needs judge.evalx.sentences=null: the proxies that it compares "
                "have to learn from the same sentences"
            )
        if leak and rules.prefix != CHOSEN:
            # Random words have a prefix at almost every step, so that most of such a leak would be
            # that the proxy learns to do without one.
            raise XnmtError("judge.evalx.leak needs prefix=chosen: it is of the explainer's choice")
        self.sentences, self.leak = sentences, leak

    @property
    def row_name(self) -> str:
        """Such as `evalx_sa`, or `evalx_sa@2000` with a number of sentences of its own."""
        return f"{self.name}_{self.family}" + (f"@{self.sentences}" if self.sentences else "")

    @property
    def row_heading(self) -> str:
        """Such as `EVAL-X SA` or `EVAL-X SA (2,000)`."""
        sentences = f" ({self.sentences:,})" if self.sentences else ""
        return f"{self.heading} {self.family_heading}{sentences}"

    @property
    def row_order(self) -> list[Any]:
        """By proxy, then by the number of sentences."""
        return [self.place, f"{self.name}_{self.family}", self.sentences or 0]

    @cached_property
    def train_sentences(self) -> int:
        """The number of sentences that it learns from."""
        return self.rules.count_to_learn("judge.evalx.sentences", self.sentences)

    @property
    def description(self) -> str:
        """Such as `evalx_sa, k=1`."""
        return f"{self.row_name}, k={self.rules.k}"

    def learning_recipe(self) -> dict[str, Any]:
        """Return the system's labels of the training sentences, and which words may be drawn."""
        return {
            "labels": self.rules.training_labels(self.train_sentences),
            "admit_special": self.rules.decisions.extraction.admit_special,
        }

    def find_pieces(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of all words that can be drawn, and of the labels."""
        contexts = self._contexts()
        return contexts.source.ids, np.concatenate([contexts.prefix.ids, contexts.label_N])

    def _contexts(self) -> VisibleWords:
        return self.rules.decisions.visible_words(self.rules.learned_from, self.train_sentences)

    def lessons(self, folder: Path, training: ProxyTrainingOptions) -> Lessons:
        """Return words drawn anew each epoch; those of the held-out sentences are drawn once."""
        rules, seed, size = self.rules, self.rules.seed, training.batch_size
        contexts = self._contexts()
        cut = held_out(sentence_starts(contexts.sentence_N), training)
        rows = np.arange(len(contexts))
        # A generator of its own, so that validation does not depend on the number of epochs drawn.
        generator = np.random.default_rng([seed, HELD_OUT])
        # Drawn once, so that losses of two epochs differ only by the weights.
        valid = contexts.drawn(rows[cut:], rules.k, generator)
        return Lessons(
            lambda epoch: batch_decisions(
                DrawnRules(contexts, rows[:cut], rules.k, seed, epoch), size, seed, epoch
            ),
            lambda: batch_decisions(valid, size),
        )

    @cached_property
    def leak_proxies(self) -> dict[str, FromEvalX]:
        """The two proxies that go on from its weights, by the name of their sums.

        Empty where `leak` is off, or the explainer has no rules of the training sentences.
        """
        if not (self.leak and self.rules.explained.teachable):
            return {}
        # Their names are those of columns, `log_own` and `log_matched`.
        proxies = {"own": FromEvalX(self), "matched": OnMatchedRules(self)}
        return {name: proxy for name, proxy in proxies.items() if _learns(proxy, name)}

    def columns(self) -> dict[str, np.ndarray]:
        """Return `log_own` and `log_matched`, (N,), where the leak is measured."""
        return {
            f"log_{name}": proxy.scores().log_likelihood_N
            for name, proxy in self.leak_proxies.items()
        }

    @classmethod
    def results(cls, sums_R: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return leak, matched, choice and STRIPE-X in nats, where the leak was measured."""
        shared_R = ratio(sums_R["log_likelihood"], sums_R["rows"])
        # Differences of means over the same decisions.
        gain_of = {
            name: ratio(sums_R[f"log_{name}"], sums_R["rows"]) - shared_R
            for name in ("own", "matched")
            if f"log_{name}" in sums_R
        }
        results = {"matched": gain_of["matched"]} if "matched" in gain_of else {}
        if "own" not in gain_of:
            return results
        leak_R = results["leak"] = gain_of["own"]
        if "matched" in gain_of:
            results["choice"] = leak_R - gain_of["matched"]
        for alpha in ALPHAS:
            # The leak is a penalty on EVAL-X's loss; a negative leak is noise and no bonus.
            results[f"stripe_{alpha}"] = -shared_R + alpha * np.maximum(0, leak_R)
        return results

    def made_by(self) -> dict[str, str]:
        """Return the fingerprints of the trained proxies."""
        proxies = self.leak_proxies.items()
        return super().made_by() | {name: proxy.trained.fingerprint for name, proxy in proxies}

    def facts(self) -> dict[str, Any]:
        """Return its training's facts; capped where any training behind the row was."""
        facts = super().facts()
        for proxy in self.leak_proxies.values():
            # The leak depends on all three trainings.
            facts["capped"] |= proxy.trained.facts["capped"]
        return facts


def _learns(proxy: FromEvalX, name: str) -> bool:
    """Return whether a proxy has something to learn from; the row stands without it if not."""
    try:
        _ = proxy.trained.artefact
    except NotApplicable as problem:
        log.warning("log_%s of EVAL-X is not measured: %s", name, problem)
        return False
    return True
