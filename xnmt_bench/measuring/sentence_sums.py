"""Evidence of metrics whose units are test sentences, with sums over their decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.measurement import Evidence
from xnmt_bench.measuring.units import Units, by_unit
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.texts import name_sentences


def sum_by_sentence(
    by_sentence: Iterable[tuple[int, Mapping[str, np.ndarray]]],
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Sum the columns of decisions over each sentence, as `by_unit` does.

    Args:
        by_sentence: the numbers of sentences, and columns of their decisions, (N,).

    Raises:
        NotApplicable: `by_sentence` is empty.
    """
    parts = [*by_sentence]
    if not parts:
        raise NotApplicable("none of the test sentences is explained")
    numbers, tables = zip(*parts, strict=True)
    return by_unit(
        np.repeat(numbers, [len(next(iter(table.values()))) for table in tables]),
        **{name: np.concatenate([table[name] for table in tables]) for name in tables[0]},
    )


def evidence_of_sentences(
    job: Job,
    number_U: np.ndarray,
    sums: Mapping[str, np.ndarray],
    made_by: dict[str, str],
    settings: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Evidence:
    """Return the evidence of sums over the decisions of test sentences.

    Args:
        job: whose test set it is.
        number_U: of each sentence in the corpus.
        sums: columns of the units, as `by_unit` gives them, (U,).
        made_by: fingerprints of the artefacts behind the sums.
        settings: what decides the numbers. Rows of other sentences are never compared, so the
            sentences are among them.
        facts: what else is known of the row.
    """
    all_settings = {"test sentences": name_sentences(number_U), **(settings or {})}
    units = Units(job.texts.test_set, number_U, sums)
    return Evidence(units, made_by, dict(facts or {}), settings=all_settings)
