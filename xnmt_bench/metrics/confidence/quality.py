"""BLEU, chrF and TER of one translation, as far as one sentence can tell."""

from __future__ import annotations

from xnmt_bench.measuring.sacre import scorers


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
