"""What a W&B run holds, read from the files of an offline one."""

import json

import matplotlib.pyplot as plt
import numpy as np
from measured import FIDELITY, scored

from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.report.table import csv_columns
from xnmt_bench.report.tracking import WandbTracker


def test_a_run_holds_tables_and_figures_side_by_side(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    picture = tmp_path / "k.png"
    plt.imsave(picture, np.eye(4))
    rows = [{"explainer": "attention", "ppl": 2.5}, {"explainer": "random", "ppl": ""}]
    with WandbTracker().start("evaluate", "group", tmp_path, {"k": 1}) as tracker:
        tracker.table("k", rows, ("explainer", "ppl"))
        tracker.figure("k", picture)
    [table] = tmp_path.rglob("offline-run-*/files/media/table/tables/k_*.table.json")
    assert json.loads(table.read_text())["data"] == [["attention", 2.5], ["random", None]]
    [kept] = tmp_path.rglob("offline-run-*/files/media/images/figures/k_*.png")
    assert kept.read_bytes() == picture.read_bytes()


def test_rows_without_a_number_are_rows_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    rows = [scored(FIDELITY, {"ppl": 2.5}).row, scored(FIDELITY, {}, "n/a").row]
    columns = csv_columns(Fidelity())
    with WandbTracker().start("train", "group", tmp_path, {}) as tracker:
        tracker.table("fidelity", rows, columns)
    [table] = tmp_path.rglob("offline-run-*/files/media/table/tables/fidelity_*.table.json")
    logged = [dict(zip(columns, row, strict=True)) for row in json.loads(table.read_text())["data"]]
    assert [(row["ppl"], row["kl"], row["status"]) for row in logged] == [
        (2.5, None, "ok"), (None, None, "n/a"),
    ]  # fmt: skip
