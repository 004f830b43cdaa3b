"""Decisions to be read: how relevant does each explainer find each word?"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from xnmt_bench.corpora.vocabulary.subwords import WORD_START
from xnmt_bench.errors import StoreError
from xnmt_bench.measuring.listing import Listing, Matrix, TokenScores
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.measuring.metric import SYSTEM
from xnmt_bench.rules.sample import read_sample
from xnmt_bench.rules.table import SentenceRelevance, shard_relevance
from xnmt_bench.words import Tokens
from xnmt_bench.words.weighed import EOS_TOKEN, joined

log = logging.getLogger(__name__)
SPECIAL = {"<s>", EOS_TOKEN, "<pad>"}  # as vocabularies write them; the first separates sentences
NOTE = (
    "Rows: what the model says at each step, with its probability. Columns: source tokens, and the "
    "prefix's behind the gap. Filled: relevance, as a share of the step's greatest; a word with "
    "negative relevance is left empty. A rule holds the k most relevant words of each side."
)


def list_decisions(measurements: Sequence[Measurement]) -> Iterator[Listing]:
    """Yield a listing of each system and explainer: those that ask the model by rank, then blind.

    Relevance is the same for every k, so each explainer stands once.
    """
    # The sentences are kept with the NMT model's row, since they are the same for all explainers.
    for sampled in (m for m in measurements if "sample" in m.files):
        try:
            sentences = read_sample(sampled.file("sample"))
            total = len(sampled.units())
        except StoreError as error:
            log.warning("not on the page: %s", error)
            continue
        # The sample has the sentences' texts: joined by system, scenario and test sentences.
        alike = (m for m in measurements if _decided_by(m) == _decided_by(sampled))
        explained = [m for m in alike if "browsed_relevance" in m.files]
        for name, row in _name_rows(explained):
            try:
                relevances = list(shard_relevance(row.file("browsed_relevance")))
            except StoreError as error:
                log.warning("not on the page: %s", error)
                continue
            # Rows of another `browsed` have fewer sentences, or more.
            numbers = {relevance.number for relevance in relevances}
            both = [sentence for sentence in sentences if sentence["number"] in numbers]
            if both:
                yield _listing(sampled, name, both, relevances, total)


def _listing(
    sampled: Measurement,
    name: str,
    sentences: Sequence[dict[str, Any]],
    relevances: Sequence[SentenceRelevance],
    total: int,
) -> Listing:
    corpus, lang_pair, nmt, scenario, *_ = _decided_by(sampled)
    probabilities = [np.array(s["probabilities"]) for s in sentences]
    return Listing(
        "decisions",
        f"{name}, {nmt}, {corpus} {lang_pair}, {scenario.replace('_', ' ')}",
        NOTE,
        [s["number"] for s in sentences],
        {side: [_text(s[side]) for s in sentences] for side in ("source", "target")},
        {
            "decisions": np.array([len(p_T) for p_T in probabilities], dtype=np.float64),
            "mean_probability": np.array([p_T.mean() for p_T in probabilities]),
            "least_probability": np.array([p_T.min() for p_T in probabilities]),
        },
        charts=["mean_probability", "least_probability"],
        matrices=partial(_matrices, sentences, relevances),
        total=total,
    )


def _matrices(
    sentences: Sequence[dict[str, Any]], relevances: Sequence[SentenceRelevance]
) -> Iterator[tuple[int, Matrix]]:
    """Yield each sentence's decisions, a row each, with the relevance of every word."""
    relevance_of = {relevance.number: relevance for relevance in relevances}
    for sentence in sentences:
        relevance = relevance_of[sentence["number"]]
        # Both sides in one row, so that a shade compares source and prefix words.
        weights_TX = np.concatenate([relevance.source_TS, relevance.prefix_TT], axis=1)
        # By step, since explainers' scores have no common scale.
        greatest_T1 = np.nanmax(weights_TX, axis=1, keepdims=True)
        positive_TX = np.where(weights_TX < 0, 0, weights_TX)
        shares_TX = np.divide(
            positive_TX, greatest_T1, out=np.zeros_like(positive_TX), where=greatest_T1 > 0
        )
        matrix = Matrix(
            _tokens(sentence["labels"]),
            _tokens([*sentence["source"], *sentence["target"]]),
            # NaN stays: the page greys what a step cannot see, which is not a weight of 0.
            np.where(np.isnan(weights_TX), np.nan, shares_TX),
            sources=len(sentence["source"]),
            scores=TokenScores({"P": 100 * np.array(sentence["probabilities"])}),
        )
        yield sentence["number"], matrix


def _tokens(pieces: Sequence[str]) -> Tokens:
    """Return pieces, a special one being a word of its own."""
    words, number = list[int](), -1
    for before, piece in zip(["", *pieces], pieces, strict=False):
        # What stands behind a special piece begins a word even without its mark.
        number += number < 0 or piece.startswith(WORD_START) or bool({before, piece} & SPECIAL)
        words.append(number)
    return Tokens(tuple(pieces), tuple(words), "")


def _text(pieces: Sequence[str]) -> str:
    """Return a side as it reads, EOS and separators left out."""
    return joined([piece for piece in pieces if piece not in SPECIAL])


def _decided_by(measurement: Measurement) -> tuple[Any, ...]:
    """Return the system, the scenario, and which test sentences the system decided."""
    columns = (*SYSTEM, "scenario")
    test_sentences = measurement.settings.get("test sentences", "")
    return (*(measurement.identity[c] for c in columns), measurement.model, test_sentences)


def _name_rows(measurements: Sequence[Measurement]) -> list[tuple[str, Measurement]]:
    """Return one row for each explainer's relevance, under its name, the best explainer first.

    The relevance of an explainer that draws differs by seed.
    """
    rows_of: dict[str, dict[str, Measurement]] = {}
    for m in measurements:
        by_rules = rows_of.setdefault(m.identity["explainer"], {})
        # A proxy's row has the proxy's seed. Base's has the explainer's, which names the rules.
        if m.made_by["judged"] not in by_rules or m.identity["instantiation"] == "base":
            by_rules[m.made_by["judged"]] = m
    ranks = _rank(measurements)
    named = [
        (f"{name} (seed {row.identity['seed']})" if len(by_rules) > 1 else name, row)
        for name, by_rules in rows_of.items()
        for row in by_rules.values()
    ]
    return sorted(named, key=lambda pair: (*ranks[pair[1].identity["explainer"]], pair[0]))


def _rank(measurements: Sequence[Measurement]) -> dict[str, tuple[bool, float]]:
    """Return what sorts explainers: blind ones last, then by the judge that orders the table."""

    def precedence(m: Measurement) -> int:
        return int(m.facts.pivot.get("precedence", 0))

    leading = max(map(precedence, measurements), default=0)
    ranks: dict[str, tuple[bool, float]] = {}
    for m in measurements:
        try:
            units = m.units()
            loss = -units["log_likelihood"].sum() / units["rows"].sum()
        except StoreError:  # the table shows it as damaged; here it has no rank
            loss = np.inf
        rank = bool(m.facts.blind), float(loss if precedence(m) == leading else np.inf)
        name = m.identity["explainer"]
        # An explainer with several seeds stands where the best of them does.
        ranks[name] = min(ranks.get(name, rank), rank)
    return ranks
