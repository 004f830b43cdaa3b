"""Decisions to be read: which words did each explainer pick for each of them?"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from xnmt_bench.errors import StoreError
from xnmt_bench.measuring.listing import Listing, Matrix, TokenScores
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import SYSTEM
from xnmt_bench.rules.sample import read_sample
from xnmt_bench.rules.table import Rules, read_rules
from xnmt_bench.words import Tokens
from xnmt_bench.words.weighed import BEGUN, EOS_TOKEN, joined

log = logging.getLogger(__name__)
SPECIAL = {"<s>", EOS_TOKEN, "<pad>"}  # as vocabularies write them; the first separates sentences
NOTE = (
    "Rows: what the model says at each step, with its probability. Columns: source tokens, and the "
    "prefix's behind the gap; grey ones come later and are not seen. Filled: the words of the "
    "decision's rule, the most relevant 100 %."
)


def list_decisions(measurements: Sequence[Measurement]) -> Iterator[Listing]:
    """Yield a listing of each system, explainer and k whose rules are browsed."""
    for sampled in (m for m in measurements if "sample" in m.files):
        try:
            sentences = read_sample(sampled.file("sample"))
        except StoreError as error:
            log.warning("not on the page: %s", error)
            continue
        explained = [
            # The sample has the sentences' texts, rows have rules: joined by system and scenario.
            m
            for m in measurements
            if "browsed_rules" in m.files and _system(m) == _system(sampled)
        ]
        for k in sorted({m.identity["k"] for m in explained}):
            for name, row in _name_rows([m for m in explained if m.identity["k"] == k]):
                try:
                    rules = read_rules(row.file("browsed_rules"), k)
                except StoreError as error:
                    log.warning("not on the page: %s", error)
                    continue
                yield _listing(sampled, f"{name}, k = {k}", sentences, rules, k)


def _listing(
    sampled: Measurement, name: str, sentences: Sequence[dict[str, Any]], rules: Rules, k: int
) -> Listing:
    corpus, lang_pair, nmt, scenario, _ = _system(sampled)
    probabilities = [np.array(s["probabilities"]) for s in sentences]
    return Listing(
        "decisions",
        f"{corpus} {lang_pair} {nmt}, {scenario.replace('_', ' ')}, {name}",
        NOTE,
        [s["number"] for s in sentences],
        {side: [_text(s[side]) for s in sentences] for side in ("source", "target")},
        {
            "decisions": np.array(
                [len(probability_T) for probability_T in probabilities], dtype=np.float64
            ),
            "mean_probability": np.array([probability_T.mean() for probability_T in probabilities]),
            "least_probability": np.array([probability_T.min() for probability_T in probabilities]),
        },
        charts=["mean_probability", "least_probability"],
        matrices=partial(_matrices, sentences, rules, k),
    )


def _matrices(
    sentences: Sequence[dict[str, Any]], rules: Rules, k: int
) -> Iterator[tuple[int, Matrix]]:
    """Yield each decision a row; a picked word's weight is 1 for the first and falls by 1/k."""
    for sentence in sentences:
        sentence_rules: Rules = rules.take(np.flatnonzero(rules.sentence_N == sentence["number"]))
        # Rows of the matrix are steps, in their order.
        sentence_rules = sentence_rules.take(np.argsort(sentence_rules.step_N))
        source, target = sentence["source"], sentence["target"]
        steps = np.array(sentence["steps"])
        # (steps, 1) against (T,): step t sees the words before it, the others are NaN.
        prefix_TT = np.where(np.arange(len(target)) < steps[:, None], 0.0, np.nan)
        sides = [np.zeros((len(steps), len(source))), prefix_TT]
        picked = (sentence_rules.source_position_NK, sentence_rules.prefix_position_NK)
        for weights_TX, positions_TK in zip(sides, picked, strict=True):
            rows, ranks = np.nonzero(positions_TK >= 0)
            # Ranks and not scores: explainers' scores have no common scale.
            weights_TX[rows, positions_TK[rows, ranks]] = 1 - ranks / k
        yield (
            sentence["number"],
            Matrix(
                _tokens(sentence["labels"]),
                _tokens([*source, *target]),
                np.concatenate(sides, axis=1),
                sources=len(source),
                scores=TokenScores({"P": 100 * np.array(sentence["probabilities"])}),
            ),
        )


def _tokens(pieces: Sequence[str]) -> Tokens:
    """Return pieces, a special one being a word of its own."""
    words, number = list[int](), -1
    for before, piece in zip(["", *pieces], pieces, strict=False):
        # What stands behind a special piece begins a word even without its mark.
        number += number < 0 or piece.startswith(BEGUN) or bool({before, piece} & SPECIAL)
        words.append(number)
    return Tokens(tuple(pieces), tuple(words), "")


def _text(pieces: Sequence[str]) -> str:
    """Return a side as it reads, EOS and separators left out."""
    return joined([piece for piece in pieces if piece not in SPECIAL])


def _system(measurement: Measurement) -> tuple[Any, ...]:
    columns = (*SYSTEM, "scenario")
    return (*(measurement.identity[c] for c in columns), measurement.model)


def _name_rows(measurements: Sequence[Measurement]) -> list[tuple[str, Measurement]]:
    """Return one row for each explainer's rules, under its name.

    The rules of an explainer that draws differ by seed.
    """
    rows_of: dict[str, dict[str, Measurement]] = {}
    for m in measurements:
        by_rules = rows_of.setdefault(m.identity["explainer"], {})
        # A proxy's row has the proxy's seed. Base's has the explainer's, which names the rules.
        if m.made_by["judged"] not in by_rules or m.identity["instantiation"] == "base":
            by_rules[m.made_by["judged"]] = m
    return sorted(
        (
            (f"{name} (seed {row.identity['seed']})" if len(by_rules) > 1 else name, row)
            for name, by_rules in rows_of.items()
            for row in by_rules.values()
        ),
        key=lambda named: named[0],
    )
