"""BLEU, chrF and TER from sums over sentences, computed by sacrebleu and signed by it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER

from xnmt_bench.corpora.languages import BLANKS, CHARACTERS, lacks_blanks
from xnmt_bench.measuring.units import Bounds

log = logging.getLogger(__name__)

# The statistics are counts: of BLEU both lengths, right n-grams of four orders, all of these; of
# chrF n-grams of the translation, of the reference and of both, for each of six orders.
BOUNDS = {
    **{f"bleu_{n}": Bounds(0, 1, of=f"bleu_{n + 4}") for n in range(2, 6)},
    **{f"chrf_{n}": Bounds(0, 1, of=f"chrf_{n - 2}") for n in range(2, 18, 3)},
    **{f"{name}_*": Bounds(0) for name in ("bleu", "chrf", "ter")},
}


class _CharacterTER(TER):  # type: ignore[misc]
    """TER whose words are characters, as those of sacrebleu's tokenizer `char` are."""

    def __init__(self) -> None:
        super().__init__()
        self.tokenizer_signature = f"{CHARACTERS}+{self.tokenizer_signature}"

    def _preprocess_segment(self, sent: str) -> str:
        return str(super()._preprocess_segment(" ".join(sent)))


@cache
def scorers(tokenizer: str) -> dict[str, Any]:
    """Return sacrebleu's metrics by name, for words that a tokenizer of sacrebleu's cuts."""
    # sacrebleu takes this support for Chinese and Japanese; Korean has blanks between its words.
    asian = tokenizer in ("zh", "ja-mecab")
    ter = TER(normalized=asian, asian_support=asian)
    # `force`: text that looks tokenised is scored too; sacrebleu's warning would be noise.
    return {
        "bleu": BLEU(tokenize=tokenizer, force=True),
        "chrf": CHRF(),
        "ter": _CharacterTER() if tokenizer == CHARACTERS else ter,
    }


def statistics(
    hypotheses: Sequence[str], references: Sequence[str], tokenizer: str = BLANKS
) -> dict[str, np.ndarray]:
    """Return each sentence's sufficient statistics of raw texts: `bleu_0`, `bleu_1`, ... (U,)."""
    warn_of_blanks(references, tokenizer, "the corpus's target language")
    columns: dict[str, np.ndarray] = {}
    for name, metric in scorers(tokenizer).items():
        # What sacrebleu's own significance test resamples.
        rows = np.asarray(metric._extract_corpus_statistics(hypotheses, [list(references)]))
        columns |= {f"{name}_{n}": rows[:, n] for n in range(rows.shape[1])}
    return columns


def warn_of_blanks(references: Sequence[str], tokenizer: str, option: str) -> None:
    """Warn where words are cut at blanks, and most letters are of scripts without them.

    Args:
        references: the texts.
        tokenizer: what cuts them.
        option: where their language is named.
    """
    if tokenizer in (BLANKS, "none") and lacks_blanks(references):
        log.warning(
            "BLEU and TER split text at spaces, but the references have no spaces: name %s by its "
            "code, such as zh, ja or th",
            option,
        )


def scores(sums_R: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the corpus's scores (R,) from weighted sums of the statistics that are there."""
    results = {}
    for name, metric in scorers(BLANKS).items():  # sums hold no words, so any tokenizer will do
        width = sum(column.startswith(f"{name}_") for column in sums_R)
        if not width:
            continue
        sums_RN = np.stack([sums_R[f"{name}_{n}"] for n in range(width)], axis=1)
        # As lists: chrF's statistics are counts, and it divides whole numbers.
        rows = sums_RN.tolist()
        results[name] = np.array([metric._compute_score_from_stats(row).score for row in rows])
    return results


def signatures(tokenizer: str = BLANKS) -> dict[str, str]:
    """Return sacrebleu's signature of each score."""
    return {name: m.get_signature().format() for name, m in scorers(tokenizer).items()}
