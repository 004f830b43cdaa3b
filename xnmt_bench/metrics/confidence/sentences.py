"""Every score and detector of each sentence, from its weights, its texts and a reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from xnmt_bench.corpora.languages import cut_words, tokenizer_name
from xnmt_bench.corpora.sentence import Sentence
from xnmt_bench.errors import XnmtError
from xnmt_bench.measuring.sacre import scorers
from xnmt_bench.metrics.confidence import detectors
from xnmt_bench.metrics.confidence.language import code, language
from xnmt_bench.metrics.confidence.lists import in_training
from xnmt_bench.metrics.confidence.scores import (
    Definition,
    as_percentage,
    common,
    confidence,
    overlap,
    word_scores,
)
from xnmt_bench.words import Weighed
from xnmt_bench.words.pieces import as_shares

Quality = Callable[[str, str], Mapping[str, float]]  # of a translation and its reference
Eos = Literal["keep", "drop"]
Unit = Literal["pieces", "words"]
WORDS = "_words_pct"  # ends the columns that hold a number for each token
SCORES = ("cdp", "ap_out", "ap_in", "overlap", "overlap_penalty", "without_overlap", "confidence")
PERCENTAGES = ("cdp", "ap_out", "ap_in", "without_overlap", "confidence")


@dataclass(frozen=True)
class Reading:
    """How weights are read before they are scored.

    Attributes:
        definition: of the scores.
        eos: keep its row and column, or drop them; nothing is normalised again.
        unit: pieces, or words: summed over a source word's, averaged over a target word's.
        shares: weights are shares of each step already; relevance is made such first.
        languages: of the source and the translation; empty where unknown.
        unread_eos: with the released tool's definition, leave out the target's EOS, as it does.
    """

    definition: Definition
    eos: Eos
    unit: Unit
    shares: bool
    languages: tuple[str, str]
    unread_eos: bool = False

    def shared(self, sentence: Weighed) -> Weighed:
        """Return a sentence whose weights are shares of each step."""
        if self.shares:
            return sentence
        return replace(sentence, weights_TS=as_shares(sentence.weights_TS))

    def read(self, sentence: Weighed) -> Weighed:
        """Return a sentence with the matrix that is scored."""
        # Before pieces are joined: a word's weight is the sum of its pieces' shares.
        sentence = self.shared(sentence)
        if self.unit == "words":  # then EOS, which words keep as the last
            sentence = sentence.whole()
        return sentence.without_eos() if self.eos == "drop" else sentence

    def scored(self, sentence: Weighed) -> np.ndarray:
        """Return the rows that scores are of; the released tool may leave out EOS's."""
        unread = self.definition == "softalignments" and self.unread_eos and sentence.target.eos
        return sentence.weights_TS[:-1] if unread else sentence.weights_TS


def rows(
    sentences: Iterable[Weighed],
    reading: Reading,
    references: Sequence[str] | None,
    quality: Quality,
    train: Iterable[Sentence] | None = None,
) -> dict[str, list[Any]]:
    """Return everything measured of each sentence, by name: lists of one value a sentence.

    Memory holds a sentence's weights and what was told of each.

    Args:
        sentences: in any order.
        reading: how weights are read.
        references: by the sentence's number, if there are any.
        quality: scores of a translation against its reference.
        train: the system's training pairs, where they are known.

    Raises:
        XnmtError: a sentence has no reference.
    """
    sentence_rows: list[dict[str, Any]] = []
    shares_N, lengths_N = list[np.ndarray](), list[int]()
    for sentence in sentences:
        row = _measure_texts(sentence, reading.languages)
        row |= _scored(sentence, reading, row["copied"]) | _detected(sentence, reading)
        # Kept apart from the rows, since these are columns of a table.
        shares_N.append(row.pop("shares"))
        lengths_N.append(sentence.target.size)
        if references is not None:
            if (number := sentence.number) >= len(references):
                raise XnmtError(
                    f"sentence {number} has no reference: there are {len(references)}, counted "
                    "from 0"
                )
            row["reference"] = references[number]
            row |= quality(row["target"], row["reference"])
        sentence_rows.append(row)
    numbers = Counter(row["sentence"] for row in sentence_rows)
    # Two translations of one sentence would both be its unit.
    for number in (number for number, count in numbers.items() if count > 1):
        raise XnmtError(
            f"sentence {number} is listed twice; give one translation for each sentence"
        )
    # It compares with the other sentences, so it follows once all have been read.
    to_data = detectors.WassToData(shares_N, lengths_N)
    usual = _usual_length_ratio(sentence_rows, reading.languages)
    for index, row in enumerate(sentence_rows):
        row |= {"wass_to_data": to_data.of(index), "usual_length_ratio": usual}
    if train is not None:
        pairs = [(row["source"], row["target"]) for row in sentence_rows]
        for row, in_train in zip(sentence_rows, in_training(pairs, train), strict=True):
            row["in_training"] = in_train
    # Dumps may come in any order; units ascend.
    sentence_rows.sort(key=lambda row: row["sentence"])
    return {
        name: [row[name] for row in sentence_rows]
        for name in (sentence_rows[0] if sentence_rows else ())
    }


def _scored(sentence: Weighed, reading: Reading, copied: str) -> dict[str, Any]:
    """Return the confidence of the matrix; `copied` is in the source too."""
    read = reading.read(sentence)
    weights_TS, tokens = reading.scored(read), read.target.size
    if reading.definition == "softalignments":
        tokens = len(weights_TS)  # the tool counts rows, EOS's among them
    share = overlap(copied, sentence.target.text)
    scores = confidence(weights_TS, share, tokens, reading.definition)
    row: dict[str, Any] = {name: getattr(scores, name) for name in SCORES}
    row |= {f"{name}_pct": as_percentage(name, row[name]) for name in PERCENTAGES}
    of_source, of_target = token_percentages(weights_TS, reading.definition)
    return row | {f"{name}{WORDS}": of for name, of in (of_source | of_target).items()}


def token_percentages(
    weights_TS: np.ndarray, definition: Definition
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return each token's own scores by their names, of the source and of the translation."""
    words = word_scores(weights_TS, definition)
    of_source, of_target = "ap_in", "ap_out"
    if definition == "softalignments":  # which calls each as the paper calls the other
        of_source, of_target = of_target, of_source

    def percentages(**terms: np.ndarray) -> dict[str, list[float]]:
        return {name: [as_percentage(name, x) for x in terms[name].tolist()] for name in terms}

    of_source_tokens = percentages(cdp=words.cdp_S, **{of_source: words.ap_in_S})
    return of_source_tokens, percentages(**{of_target: words.ap_out_T})


def _detected(sentence: Weighed, reading: Reading) -> dict[str, Any]:
    """Return what detectors find in the weights of tokens, EOS included."""
    shared = reading.shared(sentence)
    # A sentence without weights has no distribution: its distances are unknown, not 0.
    p_S = as_shares(shared.weights_TS.sum(0), empty=np.nan)
    share, top = detectors.source_contribution(sentence)  # of relevance as it was given
    return {
        "shares": p_S,
        "attention_to_eos": detectors.attention_to_eos(shared),
        "ignored_source": detectors.ignored_source(shared),
        "wass_to_uniform": detectors.wass_to_uniform(p_S),
        "log_probability": detectors.log_probability(shared),
        "source_contribution": share,
        "top_source": top,
    }


def _usual_length_ratio(
    sentence_rows: Sequence[Mapping[str, Any]], languages: tuple[str, str]
) -> float:
    """Return the median of target words over source words, where sides have unlike words.

    A right translation has more characters of Chinese than words of English, so that one number
    of words a word is not short or long in all pairs of languages. It is the references' ratio
    where there are references, else the translations' own; NaN where words are alike.
    """
    if len(set(map(tokenizer_name, languages))) < 2:
        return np.nan
    ratios = [
        detectors.length_ratio(row["source"], row.get("reference", row["target"]), languages)
        for row in sentence_rows
    ]
    return float(np.nanmedian(ratios)) if not np.isnan(ratios).all() else np.nan


def _measure_texts(sentence: Weighed, languages: tuple[str, str]) -> dict[str, Any]:
    source, target = sentence.source.text, sentence.target.text
    detected_language, wrong, untranslated = "", np.nan, np.nan
    codes = [code(name) if name else "" for name in languages]
    if all(codes) and (detected_language := language(target, codes)):
        untranslated, right = (float(detected_language == name) for name in codes)
        wrong = 1 - right
    return {
        "sentence": sentence.number,
        "top_four_gram": detectors.top_four_gram(source, target, languages),
        "length_ratio": detectors.length_ratio(source, target, languages),
        "digits_differ": float(detectors.digits_differ(source, target)),
        "wrong_language": wrong,
        "source_language": untranslated,
        "strange_symbols": detectors.strange_symbols(source, target),
        "source_words": len(cut_words(source, languages[0])),
        "target_words": len(cut_words(target, languages[1])),
        "language": detected_language,
        "copied": common(source, target),
        "source": source,
        "target": target,
    }


def numbers_of(columns: Mapping[str, Sequence[Any]]) -> dict[str, np.ndarray]:
    """Return the columns that are numbers, (U,), without the sentence's own."""
    return {
        name: np.asarray(values, dtype=np.float64)
        for name, values in columns.items()
        if name != "sentence" and not (values and isinstance(values[0], str | list))
    }


def sentence_quality(tokenize: str, translation: str, reference: str) -> dict[str, float]:
    """Score a sentence alone: BLEU with exponential smoothing and no shorter n-grams.

    Args:
        tokenize: BLEU's tokenizer: `none` for tokens, else that of the language.
        translation: the translation.
        reference: its reference.
    """
    # As a corpus of one: `sentence_score` would print advice for each.
    return {
        name: metric.corpus_score([translation], [[reference]]).score
        for name, metric in scorers(tokenize).items()
    }
