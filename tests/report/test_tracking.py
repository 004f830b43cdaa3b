"""What a W&B run holds, read from the files of an offline one."""

import json
import sys
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from support.example_rows import FIDELITY, scored
from xnmt_bench.errors import XnmtError
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.report.table import csv_columns
from xnmt_bench.report.tracking import (
    MlflowTracker,
    TensorBoardTracker,
    WandbTracker,
    is_reachable,
)


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


def test_a_run_holds_the_bundle_as_an_artifact(tmp_path, monkeypatch):
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "data"))
    bundle = tmp_path / "bundle.zip"
    bundle.write_bytes(b"what a report stands on")
    logged = []
    with WandbTracker().start("evaluate", "group", tmp_path, {}) as tracker:
        log = wandb.run.log_artifact
        monkeypatch.setattr(wandb.run, "log_artifact", lambda a: logged.append(log(a)) or a)
        tracker.artifact("bundle", bundle)
    [artifact] = logged
    assert artifact.type == "bundle" and list(artifact.manifest.entries) == ["bundle.zip"]
    [kept] = (tmp_path / "data").rglob("artifacts/staging/*")
    assert kept.read_bytes() == bundle.read_bytes()


ROWS = [{"explainer": "attention", "ppl": 2.5}, {"explainer": "random", "ppl": ""}]


def track(tracker, tmp_path, failed=False):
    """A job that logs a table, a figure, a bundle, and what a training says."""
    picture, bundle = tmp_path / "k.png", tmp_path / "bundle.zip"
    plt.imsave(picture, np.eye(4))
    bundle.write_bytes(b"what a report stands on")
    with tracker.start("evaluate", "sweep", tmp_path / "sweep" / "3", {"k": 1}):
        tracker.table("k", ROWS, ("explainer", "ppl"))
        tracker.figure("k", picture)
        tracker.artifact("bundle", bundle)
        tracker.lightning().log_metrics({"loss": 0.5}, step=7)
        if failed:
            raise ValueError("the job failed")
    return picture


def test_mlflow_holds_the_same(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    tracker = MlflowTracker(folder=str(tmp_path / "mlflow"))
    picture = track(tracker, tmp_path)
    with pytest.raises(ValueError, match="the job failed"):
        track(MlflowTracker(folder=str(tmp_path / "mlflow")), tmp_path, failed=True)
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/mlflow/mlflow.db")
    experiment = client.get_experiment_by_name("xnmt_bench")
    failed, run = client.search_runs(experiment.experiment_id)
    assert (run.info.status, failed.info.status) == ("FINISHED", "FAILED")
    assert run.data.params == {"k": "1"} and run.data.metrics == {"loss": 0.5}
    assert run.data.tags["job_type"] == "evaluate" and run.data.tags["group"] == "sweep"
    files = {
        path.name: path for path in (tmp_path / "mlflow" / "files" / run.info.run_id).rglob("*.*")
    }
    assert files["k.csv"].read_text() == "explainer,ppl\nattention,2.5\nrandom,\n"
    assert files["k.png"].read_bytes() == picture.read_bytes()
    assert files["bundle.zip"].read_bytes() == b"what a report stands on"


def test_tensorboard_holds_the_same(tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    track(TensorBoardTracker(str(tmp_path / "board")), tmp_path)
    events = reader.EventAccumulator(str(tmp_path / "board" / "sweep" / "evaluate 3"))
    events.Reload()
    [loss] = events.Scalars("loss")
    assert (loss.step, loss.value) == (7, 0.5)

    def text(tag):
        [event] = events.Tensors(f"{tag}/text_summary")
        return event.tensor_proto.string_val[0].decode()

    assert "    attention,2.5\n    random,\n" in text("tables/k")
    assert text("bundle").startswith("bundle.zip, sha256 ")
    [image] = events.Images("figures/k")
    assert (image.width, image.height) == (4, 4)


@pytest.mark.parametrize(
    ("tracker", "module", "extra"),
    [
        (WandbTracker, "wandb", "wandb"),
        (MlflowTracker, "mlflow", "mlflow"),
        (TensorBoardTracker, "torch.utils.tensorboard", "tensorboard"),
    ],
)
def test_a_logger_that_is_not_installed_is_one_line(tracker, module, extra, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(XnmtError, match=rf"pip install 'xnmt_bench\[{extra}\]'"):
        tracker().start("train", "group", tmp_path, {})


@pytest.mark.parametrize(
    ("address", "server"),
    [
        ("", ("api.wandb.ai", 443)),
        ("http://host", ("host", 80)),
        ("https://host:8080/path/", ("host", 8080)),
        ("host", ("host", 443)),
    ],
)
def test_the_server_is_asked_at_its_address(address, server, monkeypatch):
    import socket

    import wandb

    places_asked = []

    def connect(place, timeout):
        places_asked.append(place)
        raise OSError

    monkeypatch.setenv("WANDB_BASE_URL", address)
    monkeypatch.setattr(wandb, "api", SimpleNamespace(api_key="k"))
    monkeypatch.setattr(socket, "create_connection", connect)
    assert not is_reachable()
    assert places_asked == [server]
