"""Translations with their weights and scores, to be read one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from xnmt_bench.dumps.json_lines import JsonLines
from xnmt_bench.measuring.listing import Listing, Matrix, Synonyms, TokenScores
from xnmt_bench.metrics.confidence.lists import Thresholds, listed
from xnmt_bench.metrics.confidence.sentences import (
    WORDS,
    Reading,
    Unit,
    numbers_of,
    token_percentages,
)
from xnmt_bench.words import Weighed

PERCENTAGES = {
    "confidence_pct": "confidence",
    "without_overlap_pct": "without overlap",
    "cdp_pct": "CDP",
    "ap_out_pct": "APout",
    "ap_in_pct": "APin",
}
SHARES = {
    "overlap": "copied",
    "attention_to_eos": "attention to EOS",
    "ignored_source": "source tokens ignored",
    "source_contribution": "source's share",
}
QUALITY = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
CHARTS = (
    *("confidence_pct", "cdp_pct", "ap_out_pct", "ap_in_pct"),
    *("overlap", "log_probability", "chrf", "length_ratio"),
)
NOTE = (
    "Rows: the translation's tokens. Columns: the source's. Weights as they are scored: negative "
    "relevance is 0, each row of relevance sums to 1. CDP: attention of 1 to a source token. APin: "
    "few target tokens attend to it. APout: a target token attends to few. P: the system's "
    "probability."
)

PROBABILITY = "P"


def listing(
    name: str,
    columns: dict[str, list[Any]],
    weights: Path,
    reading: Reading,
    thresholds: Thresholds,
) -> Listing:
    """Return what was measured, as the page shows it.

    Args:
        name: whose translations, and by which explainer.
        columns: of the sentences' table.
        weights: the sentences, with the weights as they were given.
        reading: how they are scored.
        thresholds: of the lists.
    """
    numbers = numbers_of(columns)
    copies = zip(columns["copied"], columns["overlap"], strict=True)
    texts = {"source": columns["source"], "translation": columns["target"]}
    if "reference" in columns:
        texts["reference"] = columns["reference"]
    return Listing(
        "translations",
        name,
        NOTE,
        columns["sentence"],
        texts,
        numbers,
        # A chart of nothing but NaN would be an empty strip above the list.
        charts=[name for name in CHARTS if name in numbers and not np.isnan(numbers[name]).all()],
        underlined_U=[copy if share > thresholds.underlined else "" for copy, share in copies],
        lists=listed(numbers, thresholds),
        # Weights are read when the page is written, one sentence at a time, and not kept in memory.
        matrices=partial(_matrices, columns, weights, reading, thresholds.strong),
        words=True,
        unit=reading.unit,
        synonyms=Synonyms(
            f"a source word with a weight of {thresholds.strong:.0%} or more for another word of "
            f"each translation, their scores {thresholds.alike:g} points apart at most",
            thresholds.alike,
        ),
    )


def _matrices(
    columns: dict[str, list[Any]], weights: Path, reading: Reading, strong: float
) -> Iterator[tuple[int, Matrix]]:
    """Yield each sentence's, in pieces, with the scores of its pieces and of its words."""
    place = {number: place for place, number in enumerate(columns["sentence"])}
    dump = JsonLines(weights)
    for sentence in (sentence for sentence in dump if isinstance(sentence, Weighed)):
        scores: dict[str, TokenScores] = {}
        read: dict[str, Weighed] = {}
        # Both units, since the page can switch; links between translations are of words only.
        for unit in get_args(Unit):
            shown = read[unit] = replace(reading, unit=unit, shares=dump.attention).read(sentence)
            of_source, of_target = token_percentages(reading.scored(shown), reading.definition)
            if unit == reading.unit:  # as they were measured, to the last digit
                row = place[sentence.number]
                for side in (of_source, of_target):
                    side |= {name: columns[f"{name}{WORDS}"][row] for name in side}
            scores[unit] = _token_scores(shown, of_source, of_target)
        pieces = read["pieces"]
        matrix = Matrix(
            pieces.target,
            pieces.source,
            pieces.weights_TS,
            scores=scores["pieces"],
            word_scores=scores["words"],
            links=_links(read["words"], scores["words"], strong),
        )
        yield sentence.number, matrix


def _token_scores(
    sentence: Weighed, of_source: Mapping[str, list[float]], of_target: Mapping[str, list[float]]
) -> TokenScores:
    rows, columns = (
        {PERCENTAGES[f"{name}_pct"]: _long(values, len(tokens)) for name, values in scores.items()}
        for scores, tokens in ((of_target, sentence.target), (of_source, sentence.source))
    )
    log_p = sentence.log_probability_T
    rows[PROBABILITY] = _long([], len(sentence.target)) if log_p is None else 100 * np.exp(log_p)
    return TokenScores(rows, columns)


def _long(values: list[float], length: int) -> np.ndarray:
    """Return a score for each token; EOS, the last, may lack one."""
    return np.array([*values, *[np.nan] * (length - len(values))])


def _links(words: Weighed, scores: TokenScores, strong: float) -> list[tuple[int, int, float]]:
    """Return strong links between words, for the page to compare two translations."""
    scores_T = next(iter(scores.rows.values())).tolist()
    inside_TS = words.weights_TS[: words.target.size, : words.source.size]
    # EOS is not a word, and as a link would pair any two translations.
    targets, sources = np.nonzero(inside_TS >= strong)
    return [
        (s, t, round(scores_T[t], 2))
        for s, t in zip(sources.tolist(), targets.tolist(), strict=True)
    ]


def caption(
    name: str, row: Mapping[str, Any], tokens: Sequence[str], of_tokens: str = "ap_out"
) -> str:
    """Return texts and scores of a sentence, a line each.

    Args:
        name: whose weights they are.
        row: the sentence's scores and texts.
        tokens: of the translation, in the scored unit.
        of_tokens: the score of these, by the name that its definition has for it.
    """
    lines = [f"{name}, sentence {row['sentence']}"]
    lines += [f"{side}: {row[side]}" for side in ("source", "target", "reference") if side in row]
    scores = [f"{heading} {row[key]:.1f} %" for key, heading in PERCENTAGES.items()]
    headings = {key: heading for key, heading in SHARES.items() if row[key] == row[key]}
    shares = [f"{heading} {100 * row[key]:.1f} %" for key, heading in headings.items()]
    quality = [f"{heading} {row[key]:.1f}" for key, heading in QUALITY.items() if key in row]
    pairs = zip(tokens, row[f"{of_tokens}_words_pct"], strict=False)  # EOS may be left out
    heading = PERCENTAGES[f"{of_tokens}_pct"]
    words = [f"{heading} % of each: " + " ".join(f"{token} {share:.0f}" for token, share in pairs)]
    caption_lines = (scores, shares, quality, words)
    return "\n".join([*lines, *(", ".join(texts) for texts in caption_lines if texts)])
