"""Slips of users and of disks: one line that names them, before a number can be wrong."""

import errno
import io
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from json import JSONDecodeError

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from support.bundle_files import make_results
from support.configurations import configure
from support.forked_commands import command, must_run
from support.interruptions import JOB
from support.paths import ROOT
from xnmt_bench import registry
from xnmt_bench.corpora.text import csv_rows
from xnmt_bench.errors import ConfigError, DataError, StoreError, XnmtError
from xnmt_bench.fitting import write_checkpoint
from xnmt_bench.parsing import parse_count, parse_json, parse_number
from xnmt_bench.report.figure import plt
from xnmt_bench.rules.table import relevance
from xnmt_bench.schema import check

PLAIN = [argument for argument in JOB if not argument.startswith("metric")]


@pytest.mark.parametrize(
    "change",
    [
        "trainer.precision=64-true",
        "trainer.precision=bf16-true",
        "trainer.precision=16-true",
        "threads=100000",
        "rules.largest_k=10000000",
        "k=10000000",
        "nmt.beam=1000000",
        "nmt.sizes.layers=1000000",
        "nmt.sizes.dimension=100000000000",
        "corpus.subwords.source_size=10000000000",
        "bootstrap.samples=10000000000",
        "corpus.test=99999999999999999999",
    ],
)
def test_a_number_beyond_all_measure_is_refused(change):
    name, _, value = change.partition("=")
    with pytest.raises(ConfigError) as error:
        check(configure(change))
    problem = error.value.problems[0]  # options that follow from it may have one too
    assert problem.startswith(f"{name}=")
    assert value in problem


def a_file(folder):
    (folder / "place").write_text("")


def a_dangling_link(folder):
    (folder / "place").symlink_to(folder / "nowhere" / "at" / "all")


def a_loop(folder):
    (folder / "place").symlink_to(folder / "place")


def nothing(_):
    """The name is too long."""


@pytest.mark.parametrize("option", ["store", "results", "hydra.run.dir"])
@pytest.mark.parametrize("prepare", [a_file, a_dangling_link, a_loop, nothing])
def test_a_place_that_is_no_folder_is_one_line(workplace, tmp_path, option, prepare):
    prepare(tmp_path)
    place = tmp_path / ("x" * 300 if prepare is nothing else "place")
    store = workplace / "store"
    places = {"store": store, "results": "results", "hydra.run.dir": "run", option: place}
    options = [argument for argument in PLAIN if argument.partition("=")[0] not in places]
    changes = [f"{name}={value}" for name, value in places.items()]
    done = command("train.py", *options, *changes, "metric=[quality]", cwd=tmp_path)
    [line] = [text for text in done.stderr.splitlines() if not text.startswith("[")]
    if prepare is not a_dangling_link:  # its folders can be made
        assert done.returncode == 1
        assert line.startswith("error: ")
        assert str(place.name) in line


def test_dollar_signs_in_a_name_are_no_formula(tmp_path):
    figure = plt.figure()
    figure.suptitle("cost $x_{$ and $y")
    figure.savefig(tmp_path / "name.png")


@pytest.mark.parametrize(
    "error", ["ValueError('no licence')", "SystemError()", "KeyError('x')", "SystemExit(3)"]
)
def test_a_plugin_that_cannot_be_imported_is_one_line(tmp_path, monkeypatch, error):
    (tmp_path / "broken_plugin.py").write_text(f"raise {error}\n")
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("mine", "broken_plugin:Mine", "xnmt_bench.metrics")
    monkeypatch.setattr(registry, "entries", lambda kind: {"mine": point})
    with pytest.raises(XnmtError, match=r"^metric 'mine' \(broken_plugin:Mine\): "):
        registry.load("metrics", "mine")


def test_a_plugin_that_declares_no_class_is_one_line(monkeypatch):
    point = EntryPoint("mine", "xnmt_bench.registry:__name__", "xnmt_bench.metrics")
    monkeypatch.setattr(registry, "entries", lambda kind: {"mine": point})
    with pytest.raises(XnmtError, match=r"is no class but 'xnmt_bench\.registry'"):
        registry.load("metrics", "mine")


@pytest.mark.parametrize("kind", ["explainers", "morphologies"])
def test_a_broken_plugin_does_not_stop_what_asks_all_of_its_kind(monkeypatch, caplog, kind):
    """`evaluate.py explain=...` asks every explainer, consistency every morphology."""
    point = EntryPoint("mine", "no_such_package:Mine", f"xnmt_bench.{kind}")
    entries = registry.entries(kind)
    monkeypatch.setattr(registry, "entries", lambda kind: {**entries, "mine": point})
    assert set(registry.load_all(kind)) == set(entries)
    assert "left out: " in caplog.text and "'mine' (no_such_package:Mine)" in caplog.text


@pytest.mark.parametrize(
    "text", ["-1_0", "１２", "٣", "²", "0x1", "1,5", "", "--1", "1e", ".", "1 2", "true"]
)  # fmt: skip
def test_what_is_no_number_in_ascii_is_refused(text):
    with pytest.raises(ValueError, match="is not a number"):
        parse_number(text)
    with pytest.raises(ValueError, match="is not a whole number from 0"):
        parse_count(text)


def test_numbers_are_read():
    assert [parse_number(t) for t in ("-1.5", "2", ".5", "3.", "1e-3", "+4")] == [
        *(-1.5, 2, 0.5, 3, 0.001, 4)
    ]
    assert np.isnan(parse_number("nan"))
    assert parse_number("-inf") == -np.inf
    assert parse_count("007") == 7


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5000, "too many digits"),
        (r'{"a": "\ud800"}', "half a character"),
        ('[{"a": 1, "b": 2, "a": 1}]', "the key 'a' is repeated"),
        ("{", "Expecting"),
    ],
)
def test_json_that_cannot_be_used_is_said_to_be_so(text, problem):
    with pytest.raises(JSONDecodeError, match=problem):
        parse_json(text)
    assert parse_json(r'"\ud83d\ude00"') == "😀"  # both halves


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a,c\n1,2\n", r"1: no column 'b'; the header has a, c"),
        ("a,b,b\n1,2,3\n", r"1: the header has the column 'b' twice"),
        ("a,b\n1,2\n1\n", r"3: 1 fields, but the header has 2"),
        ('a,b\n1,"2\n3,4\n', r"3: not CSV: unexpected end of data"),
        ('a,b\n1,"2" 3\n', r"2: not CSV: ',' expected after '\"'; a cell that begins with a quote"),
        ('a,b\n"' + "x" * 200_000 + '",2\n', r"2: not CSV: field larger"),
        ('"' + "x" * 200_000 + '"\n', r"1: not CSV: field larger"),
    ],
)
def test_a_malformed_table_is_named_with_its_line(tmp_path, content, problem):
    path = tmp_path / "table.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=f"^{path}:{problem}"):
        list(csv_rows(path, ["a", "b"]))


GOOD = {
    "sentence": [0, 0],
    "step": [0, 1],
    "source_relevance": [[0.5, 0.5], [0.1, 0.9]],
    "prefix_relevance": [[float("nan")] * 2, [0.5, float("nan")]],
}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"sentence": ["a", "b"]}, "'sentence' should hold numbers"),
        ({"step": [0, None]}, "'step' should hold numbers"),
        ({"source_relevance": [["a"], ["b"]]}, "'source_relevance' should hold numbers"),
        ({"source_relevance": [[0.5], [0.1, 0.9]]}, "source_relevance: rows of one sentence"),
        ({"source_relevance": [[0.5, float("nan")]] * 2}, "source_relevance is NaN"),
        ({"source_relevance": [[0.5, float("inf")]] * 2}, "a number is above"),
        ({"prefix_relevance": [[0.5, 1e308]] * 2}, "a number is above"),
        ({"source_relevance": None}, "no column 'source_relevance'"),
    ],
)
def test_relevance_of_others_that_is_no_relevance_is_refused(tmp_path, change, problem):
    columns = {name: values for name, values in (GOOD | change).items() if values is not None}
    (tmp_path / "test").mkdir()
    path = tmp_path / "test" / "000.parquet"
    pq.write_table(pa.table(GOOD), path)
    assert len(list(relevance(tmp_path, "test"))) == 1
    pq.write_table(pa.table(columns), path)
    with pytest.raises(StoreError, match=problem) as error:
        list(relevance(tmp_path, "test"))
    assert str(path) in str(error.value)


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    (tmp_path / "test").mkdir()
    path = tmp_path / "test" / "000.parquet"
    columns = [pa.array(values) for values in (*GOOD.values(), [0, 1])]
    pq.write_table(pa.Table.from_arrays(columns, names=[*GOOD, "step"]), path)
    with pytest.raises(StoreError, match="step"):
        list(relevance(tmp_path, "test"))


class SmallDisk(io.BytesIO):
    """Takes so many bytes and no more."""

    def __init__(self, room):
        super().__init__()
        self.room = room

    def write(self, data):
        if self.tell() + len(data) > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)


def test_a_full_disk_is_told_as_such_at_every_byte_of_a_checkpoint():
    checkpoint = {"weights": torch.zeros(300), "epoch": 1}
    complete = io.BytesIO()
    write_checkpoint(checkpoint, complete)
    for room in range(0, len(complete.getvalue()), 7):
        with pytest.raises(OSError, match="No space left") as error:
            write_checkpoint(checkpoint, SmallDisk(room))
        assert error.value.errno == errno.ENOSPC


def test_a_mode_that_wandb_has_not_is_one_line(tmp_path):
    done = command(
        "evaluate.py", "logger=wandb", env={"WANDB_MODE": "foo"}, cwd=tmp_path
    )  # fmt: skip
    assert done.returncode == 1
    modes = "online, offline, disabled"
    assert done.stderr == f"error: WANDB_MODE=foo: should be one of {modes}\n"


def test_files_can_be_read_by_others_and_a_scheduler_changes_nothing(tmp_path):
    """A training in one of two tasks of SLURM, whose files follow the umask."""
    must_run("train.py", *PLAIN, "metric=[]", env={"SLURM_NTASKS": "2"}, cwd=tmp_path)
    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    readable = os.umask(0o022)
    os.umask(readable)
    modes = {path.name: path.stat().st_mode & 0o777 for path in files}
    assert modes["model.safetensors"] == 0o666 & ~readable
    assert {mode for name, mode in modes.items() if not name.endswith(".lease")} == {
        0o666 & ~readable
    }


@pytest.mark.parametrize("script", ["train.py", "evaluate.py"])
def test_help_may_be_cut_short(script):
    for lines in (0, 1):
        done = subprocess.run(
            f"{sys.executable} {script} --help | head -{lines}",
            shell=True,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.stderr == ""


def test_a_damaged_row_of_one_metric_hides_no_other(tmp_path):
    make_results(tmp_path / "results")
    damaged = tmp_path / "results" / "measurements" / "aer" / "0123456789abcdef.json"
    damaged.parent.mkdir()
    damaged.write_text('{"identity": {')
    done = command("evaluate.py", "metric=[aer,fidelity]", "bootstrap.samples=20", cwd=tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert damaged.name in done.stderr.splitlines()[-1]
    assert "attention" in done.stdout and (tmp_path / "results" / "report.html").exists()
