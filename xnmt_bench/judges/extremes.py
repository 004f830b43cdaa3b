"""What a judge predicts that reads the system with words off: with no word on, and with all.

Between the two lies every explainer's row. A judge that predicts as little from a few words as from
none cannot tell explainers apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.judges.judge import Judge
from xnmt_bench.rules.table import Rules
from xnmt_bench.rules.topk import NOTHING
from xnmt_bench.store import Stage, Work

TOGETHER = 2**14  # decisions whose words are listed at once
NO_WORD, ALL_WORDS = "no_word", "all_words"  # facts: a perplexity each


def stored_extremes(judge: Judge) -> Stage:
    """Return a judge's perplexities of the test decisions as facts: with no word on, and with all.

    They are the same under every explainer, k and choice of prefix words.
    """
    rules = judge.rules

    def work(_: Path) -> dict[str, float]:
        views: dict[str, Callable[[Rules], Rules]] = {
            NO_WORD: without_words,
            ALL_WORDS: partial(with_all_words, split=rules.test_split),
        }
        return {name: _perplexity(judge, rules.test, view) for name, view in views.items()}

    return rules.store.stage(
        "extremes",
        work,
        version=1,
        judge_version=judge.version,
        amount=Work(f"{judge.row_name} on {rules.system.name}", rules.test_sentences, "sentences"),
        **judge.recipe(),
        **rules.decisions.decided("test", rules.scenario),
    )


def without_words(rules: Rules) -> Rules:
    """Return rules that hold no word."""
    nothing_N1 = np.full((len(rules), 1), NOTHING, dtype=np.int32)
    return _with_positions(rules, nothing_N1, nothing_N1)


def with_all_words(rules: Rules, split: EncodedSplit) -> Rules:
    """Return rules that hold every word that their decisions see.

    Args:
        rules: N decisions.
        split: the sentences that they are of.
    """
    index_N = [split.index_of[number] for number in rules.sentence_N.tolist()]
    source_N = split.source.lengths()[index_N]
    return _with_positions(rules, _first_places(source_N), _first_places(rules.step_N))


def _first_places(count_N: np.ndarray) -> np.ndarray:
    """Return the places 0 to n - 1 for each count n, filled up to the greatest one."""
    places_X = np.arange(max(1, count_N.max()), dtype=np.int32)
    return np.where(places_X < count_N[:, None], places_X, NOTHING)


def _with_positions(rules: Rules, source_NK: np.ndarray, prefix_NK: np.ndarray) -> Rules:
    return replace(rules, source_position_NK=source_NK, prefix_position_NK=prefix_NK)


def _perplexity(judge: Judge, rules: Rules, view: Callable[[Rules], Rules]) -> float:
    """Return a judge's perplexity of decisions under a view of their rules."""
    log_p = 0.0
    # Part by part, since a rule of all words is as wide as the longest sentence.
    for start in range(0, len(rules), TOGETHER):
        predicted = judge.log_likelihood(view(rules.take(slice(start, start + TOGETHER))))
        log_p += float((predicted[0] if isinstance(predicted, tuple) else predicted).sum())
    return float(np.exp(-log_p / len(rules)))
