"""The test sets of Voita, Sennrich and Titov (2019): deixis, lexical cohesion and ellipsis."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from xnmt_bench.corpora.suites.contrastive.files import groups_of, parse_distance
from xnmt_bench.corpora.suites.contrastive.group import ContrastiveSet, Group, Variant

BETWEEN = re.compile(r"(?:^|\s)_eos(?=\s|$)")  # sentences


def from_voita(path: Path, records: list[dict[str, Any]], lang_pair: str) -> ContrastiveSet:
    """Read groups of `src`, `dst`, `true_ind`, `ctx_dist`; the last joined sentence is current.

    Raises:
        DataError: a group lacks a field, or source and target differ in sentences.
    """
    return ContrastiveSet(path.name.split(".")[0], lang_pair, groups_of(path, records, _group))


def _group(record: dict[str, Any]) -> Group:
    *source_context, source = _sentences(record["src"])
    if not isinstance(record["dst"], list):
        raise ValueError("dst is no list of variants")
    variants = []
    for place, text in enumerate(record["dst"]):
        *context, current = _sentences(text)
        # A concatenation reads as many sentences on either side.
        if len(context) != len(source_context):
            raise ValueError(
                f"variant {place} has {len(context) + 1} sentences, the source "
                f"{len(source_context) + 1}"
            )
        variants.append(Variant(current, tuple(context)))
    distance = parse_distance(record["ctx_dist"], "ctx_dist")
    true = record["true_ind"]
    if type(true) is not int:
        raise ValueError(f"true_ind is {true!r}")
    return Group(source, tuple(variants), true, tuple(source_context), distance=distance)


def _sentences(text: str) -> list[str]:
    sentences = [sentence.strip() for sentence in BETWEEN.split(text)]
    if not all(sentences):
        raise ValueError("a sentence is empty")
    return sentences
