"""The control of the leak: EVAL-X's proxy, trained further on rules under other labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from proxies.data import batch_decisions
from proxies.lessons import Lessons, ProxyTrainingOptions
from xnmt_bench.errors import NotApplicable
from xnmt_bench.judges.from_evalx import FromEvalX
from xnmt_bench.judges.matches import Matches
from xnmt_bench.judges.trained_proxy import decisions_of, held_out
from xnmt_bench.rules.table import Rules, sentence_starts


class OnMatchedRules(FromEvalX):
    """Q_matched: as Q_own, with each rule labelled by another decision that holds its words."""

    def learning_recipe(self) -> dict[str, Any]:
        """Return the explainer's rules, and what the other labels are drawn from."""
        return super().learning_recipe() | {"matched": self.evalx.learning_recipe()}

    def lessons(self, folder: Path, training: ProxyTrainingOptions) -> Lessons:
        """Return the rules under the labels of other decisions; rules without one are left out."""
        rules, k, seed = self.rules, self.rules.k, self.rules.seed
        contexts = rules.decisions.visible_words(rules.learned_from, self.train_sentences)
        columns = zip(*(vars(shard).values() for shard in rules.training()), strict=True)
        training_rules = Rules(*map(np.concatenate, columns))
        decisions = decisions_of(training_rules)
        # Contexts count sentences from 0, and hold decisions that an explainer may leave out.
        split = rules.decisions.split("train", rules.learned_from, self.train_sentences)
        places = zip(contexts.sentence_N.tolist(), contexts.step_N.tolist(), strict=True)
        context_of = {place: row for row, place in enumerate(places)}
        named = zip(training_rules.sentence_N.tolist(), training_rules.step_N.tolist(), strict=True)
        own_rows = [context_of[split.index_of[number], step] for number, step in named]
        # One generator for all rules in their order: the same seed gives the same labels.
        matches, generator = Matches(contexts, k), np.random.default_rng(seed)
        # Behind the label stand 2k words.
        for row, words_K in enumerate(decisions[:, 1 : 1 + 2 * k]):
            label = matches.label(words_K, own_rows[row], generator)
            # -1 marks rules that no other decision can show; they are dropped below.
            decisions[row, 0] = -1 if label is None else label
        matched_N = decisions[:, 0] >= 0
        if not matched_N.any():
            raise NotApplicable(
                "no training decision can show the words of another decision's rule"
            )
        decisions, size = decisions[matched_N], training.batch_size
        # Counted after rules have gone, so that the share held out is of what is left.
        cut = held_out(sentence_starts(training_rules.sentence_N[matched_N]), training)
        return Lessons(
            lambda epoch: batch_decisions(decisions[:cut], size, seed, epoch),
            lambda: batch_decisions(decisions[cut:], size),
        )
