"""Decisions to be read: which rows of an explainer go with which sample."""

import json

import numpy as np
import pyarrow as pa

from support.example_rows import FIDELITY, measured
from xnmt_bench.measuring.measurement import SETTINGS, read
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.fidelity.listed_decisions import list_decisions
from xnmt_bench.parquet import write_table

UNITS = Units("made", np.arange(2), {"log_likelihood": np.zeros(2), "rows": np.ones(2)})


def add_sample(folder, sentences, **facts):
    """Write the NMT model's row with a sample of the first sentences."""
    pieces = ["▁a", "</s>"]
    sample = [
        {"number": n, "source": pieces, "target": pieces, "steps": [0, 1], "labels": pieces,
         "probabilities": [0.5, 0.5]}
        for n in range(sentences)
    ]  # fmt: skip
    path = folder / f"sample{sentences}.json"
    path.write_text(json.dumps(sample), encoding="utf-8")
    row = FIDELITY | {"explainer": "", "instantiation": "nmt", "seed": sentences}
    return measured(Fidelity, folder / "results", row, UNITS, files={"sample": path}, **facts)


def add_explained(folder, name, sentences, **facts):
    """Write a row with an explainer's relevance of the first sentences."""
    weights = [[0.5, 0.5]] * (2 * sentences)
    numbers = [n for n in range(sentences) for _ in range(2)]
    columns = {"sentence": numbers, "step": [0, 1] * sentences}
    columns |= {f"{side}_relevance": weights for side in ("source", "prefix")}
    path = folder / f"{name}.parquet"
    write_table(pa.table(columns), path)
    row, made_by = FIDELITY | {"explainer": name}, {"judged": name}
    files = {"browsed_relevance": path}
    return measured(Fidelity, folder / "results", row, UNITS, files=files, made_by=made_by, **facts)


def rows_of(folder):
    return read("fidelity", folder / "results", list(FIDELITY))


def test_a_row_of_fewer_sentences_shows_those_that_it_has(tmp_path):
    add_sample(tmp_path, 3)
    add_explained(tmp_path, "few", 2)
    add_explained(tmp_path, "many", 4)
    listings = {
        listing.name.partition(", ")[0]: listing for listing in list_decisions(rows_of(tmp_path))
    }
    assert {name: list(listing.number_U) for name, listing in listings.items()} == {
        "few": [0, 1],
        "many": [0, 1, 2],
    }
    assert [number for number, _ in listings["few"].matrices()] == [0, 1]


def test_rows_of_other_test_sentences_stay_apart(tmp_path):
    for name, sentences in (("small", 2), ("large", 3)):
        settings = {SETTINGS: {"test sentences": str(sentences)}}
        add_sample(tmp_path, sentences, **settings)
        add_explained(tmp_path, name, sentences, **settings)
    listings = list(list_decisions(rows_of(tmp_path)))
    numbers = {listing.name.partition(", ")[0]: len(listing.number_U) for listing in listings}
    assert numbers == {"small": 2, "large": 3} and len(listings) == 2
