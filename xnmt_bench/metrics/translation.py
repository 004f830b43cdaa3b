"""Translation quality by sacrebleu, with its signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics import BLEU, CHRF, TER


def quality(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """BLEU, chrF and TER of a system's output, one reference a sentence."""
    facts: dict[str, Any] = {}
    for metric in (BLEU(force=True), CHRF(), TER()):
        score = metric.corpus_score(list(hypotheses), [list(references)])
        facts[score.name] = round(score.score, 2)
        facts[f"{score.name}_signature"] = metric.get_signature().format()
    return facts
