"""What rows of examples in context share: what their suite adds to them, facts and notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xnmt_bench.corpora.suites.context.example import ExampleSet
from xnmt_bench.measuring.measurement import ScoredRow
from xnmt_bench.measuring.metric import Further
from xnmt_bench.pipeline.job import Job


def further_of_suite(job: Job, examples: ExampleSet, **facts: Any) -> Further:
    """Return what a suite adds to its rows.

    Args:
        job: whose rows.
        examples: of the suite.
        facts: that are known of a row besides.
    """
    pairs = [(example.passage.source, example.passage.target) for example in examples.examples]
    doubts = {"doubts": job.doubts_of(pairs)}
    return Further(content={"suite": examples.fingerprint}, facts=doubts | facts)


def describe_examples(job: Job, examples: ExampleSet, left_out: int) -> dict[str, Any]:
    """Return the facts of a row of examples; it lacks as many of them as `left_out` says."""
    context = job.system.context
    return {
        "generated": examples.generated,
        "reads_context": context.has_sentences,
        "left_out": left_out,
        "remarks": list(examples.remarks),
    }


def note_examples(scored: Sequence[ScoredRow]) -> list[str]:
    """Return which systems read no context, and what was left out.

    Args:
        scored: rows with the facts of `describe_examples`; rows of files lack them.
    """
    notes = []
    for row in (s for s in scored if s.measurement.ok):
        facts, name = row.measurement.facts.of_metric, row.row["nmt"]
        if not facts.get("reads_context", True):
            notes.append(f"{name} reads no context, so a context changes nothing.")
        if left_out := facts.get("left_out"):
            why = "are longer than the system reads, or their subwords cannot be tied to words"
            notes.append(f"{name}: {left_out:,} passages {why}, and are left out.")
        notes += facts.get("remarks", [])
    return list(dict.fromkeys(notes))
