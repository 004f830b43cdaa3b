"""Records as Every Eval Ever writes them (evaleval/every_eval_ever, version 0.3.0 of its schema).

One record for each system; in it a result for each row and column that has a better end. Single
samples stay out: the schema asks for a right answer to each, which relevance does not have.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from xnmt_bench.measuring.alike import origin
from xnmt_bench.measuring.measurement import ScoredRow
from xnmt_bench.measuring.metric import SYSTEM, Column, Metric
from xnmt_bench.store import fingerprint

SCHEMA = "0.3.0"
Record = dict[str, Any]


def records(
    scored: Mapping[str, tuple[Metric, Sequence[ScoredRow]]],
    author: str | None,
    samples: int,
    seconds: int,
) -> dict[str, Record]:
    """Return a record of each system that was measured, by a name for its file.

    Args:
        scored: metrics with their rows, by name.
        author: who publishes the bundle.
        samples: how often intervals were bootstrapped.
        seconds: of this moment, since 1970.
    """
    by_system: dict[tuple[str, str], list[Record]] = {}
    for metric, rows in scored.values():
        for row in rows:
            results = list(_results(metric, row, samples))
            system = (str(row.measurement.identity["nmt"]), origin(row.measurement))
            if results:
                by_system.setdefault(system, []).extend(results)
    return {
        _slug(f"{name}-{model[:12]}" if model else name or "none"): _record(
            name, model, results, author, seconds
        )
        for (name, model), results in sorted(by_system.items())
    }


def _record(
    name: str, model: str, results: list[Record], author: str | None, seconds: int
) -> Record:
    # The schema wants the form of a hub: an organisation, a slash, a name.
    model_id = f"local/{_slug(name or 'none')}" + (f"-{model[:12]}" if model else "")
    return {
        "schema_version": SCHEMA,
        "evaluation_id": f"xnmt_bench/{model_id.replace('/', '_')}/{seconds}",
        "retrieved_timestamp": str(seconds),
        "source_metadata": {
            "source_name": "xnmt_bench",
            "source_type": "evaluation_run",
            "source_organization_name": author or "not given",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "xnmt_bench", "version": version("xnmt_bench")},
        "model_info": {
            "name": name or "none",
            "id": model_id,
            "additional_details": {
                "deployment_type": "self_deployed",
                "model_availability": "unknown",
                "fingerprint": model,
            },
        },
        "evaluation_results": results,
    }


def _slug(text: str) -> str:
    plain = re.sub(r"[^\w.-]+", "_", text)
    # Two names may become one.
    return plain if plain == text else f"{plain}-{fingerprint({'name': text})[:6]}"


def _results(metric: Metric, row: ScoredRow, samples: int) -> Iterator[Record]:
    """Yield the results of a row: a number each, of the columns of which one end is better."""
    m = row.measurement
    keys = {k: v for k, v in m.identity.items() if k not in SYSTEM and v != ""}
    compared = str(m.identity.get(metric.compared, ""))
    settings = m.settings
    for column in metric.columns:
        value = row.values.get(column.name)
        # JSON has no infinity, and the schema no missing score.
        if column.better is None or value is None or not math.isfinite(value):
            continue
        yield {
            "evaluation_result_id": fingerprint(
                {"row": row.signature, "content": m.content, "column": column.name}
            ),
            "evaluation_name": f"{metric.name}.{column.name}: {compared or m.identity['nmt']}",
            "source_data": {
                "dataset_name": f"{m.identity['corpus']} {m.identity['lang_pair']}".strip(),
                "source_type": "other",
                "additional_details": {k: str(v) for k, v in settings.items()},
            },
            "metric_config": {
                "evaluation_description": column.meaning or metric.title,
                "metric_id": f"xnmt_bench.{metric.name}.{column.name}",
                "metric_name": column.heading,
                "metric_parameters": keys,
                "lower_is_better": column.better == "lower",
                "score_type": "continuous",
                "min_score": None,
                "max_score": None,
            },
            "score_details": {
                "score": value,
                "details": {
                    "blind": str(bool(m.facts.blind)).lower(),
                    "training_capped": str(bool(m.facts.capped)).lower(),
                    "made_of_other_rows": str(row.derived).lower(),
                    "signature": row.signature,
                    "command": m.rerun,
                },
                "uncertainty": _uncertainty(column, row, samples),
            },
        }


def _uncertainty(column: Column, row: ScoredRow, samples: int) -> Record:
    """Return the interval of a result, and how many units it was drawn from."""
    uncertainty: Record = {}
    if "units" in row.values:
        uncertainty["num_samples"] = int(row.values["units"])
    low, high = (row.values.get(f"{column.name}_{end}") for end in ("low", "high"))
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return uncertainty
    interval = {
        "lower": low,
        "upper": high,
        "confidence_level": 0.95,
        "method": "percentile bootstrap over units",
    }
    return uncertainty | {"confidence_interval": interval, "num_bootstrap_samples": samples}
