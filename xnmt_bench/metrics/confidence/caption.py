"""The caption of one sentence, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
