"""Some sentences of a test set in pieces, with what was decided, for people to look at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import Subwords
from xnmt_bench.errors import StoreError
from xnmt_bench.rules.table import Rules
from xnmt_bench.store import verified, write_atomically


def write_sample(
    rules: Rules,
    split: EncodedSplit,
    subwords: tuple[Subwords, Subwords],
    sentences: int,
    path: Path,
) -> None:
    """Write a split's first sentences, in the pieces of both sides' subwords, as JSON."""
    source, target = subwords
    sample = []
    for index, number in enumerate(split.number[:sentences].tolist()):
        sentence_rules = rules.take(rules.sentence_N == number)
        sample.append(
            {
                "number": number,
                "source": source.pieces(split.source[index].tolist()),
                "target": target.pieces(split.target[index].tolist()),
                "steps": sentence_rules.step_N.tolist(),
                "labels": target.pieces(sentence_rules.label_N.tolist()),
                "probabilities": sentence_rules.probability_N.astype(float).round(4).tolist(),
            }
        )
    write_atomically(path, json.dumps(sample, ensure_ascii=False))


def read_sample(path: str | Path) -> list[dict[str, Any]]:
    """Read what `write_sample` wrote.

    Raises:
        StoreError: it is not readable.
    """
    try:
        return json.loads(verified(Path(path)).read_text(encoding="utf-8"))  # type: ignore[no-any-return]
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: not a readable sample: {error}") from None
