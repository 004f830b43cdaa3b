"""BLEU, chrF and TER of one translation, as far as one sentence can tell."""

from __future__ import annotations

from functools import lru_cache

from sacrebleu.metrics import BLEU, CHRF, TER


def sentence_quality(tokenize: str, translation: str, reference: str) -> dict[str, float]:
    """Score a sentence alone: BLEU with exponential smoothing and no shorter n-grams.

    Args:
        tokenize: BLEU's tokeniser: `13a` for text, `none` for tokens.
        translation: the translation.
        reference: its reference.
    """
    metrics = {"bleu": _bleu(tokenize), "chrf": CHRF(), "ter": TER()}
    # As a corpus of one: `sentence_score` would print advice for each.
    return {n: m.corpus_score([translation], [[reference]]).score for n, m in metrics.items()}


@lru_cache(maxsize=4)
def _bleu(tokenize: str) -> BLEU:
    return BLEU(tokenize=tokenize, smooth_method="exp", effective_order=False, force=True)
