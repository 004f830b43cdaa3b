"""Bundles and the leaderboard on the command line: what is written, and bad ones in one line."""

from __future__ import annotations

import pytest

from support.bundle_files import add_files, make_results, read_members, rewrite_bundle
from support.forked_commands import command, must_run

EVALUATE = ("evaluate.py", "metric=[fidelity]", "bootstrap.samples=20")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two results folders, and the bundle of each."""
    folder = tmp_path_factory.mktemp("commands")
    make_results(folder / "first")
    make_results(folder / "second", ("gradient_norm",))
    for name in ("first", "second"):
        done = must_run(*EVALUATE, f"results={name}", f"bundle={name}.zip", cwd=folder)
        assert f"the bundle is {name}.zip, sha256 " in done.stdout + done.stderr
    return folder


def test_a_bundle_of_a_report(place):
    contents = read_members(place / "first.zip")
    assert {"tables/fidelity.csv", "tables/fidelity.txt", "card.md"} <= contents.keys()
    [configuration] = (data.decode() for name, data in contents.items() if "configuration" in name)
    assert configuration.startswith("# python evaluate.py 'metric=[fidelity]' bootstrap.samples=20")
    assert "samples: 20" in configuration
    # No path of this machine.
    assert not [name for name, data in contents.items() if str(place).encode() in data]


def test_two_bundles_give_one_table(place):
    must_run(*EVALUATE, "results=[first.zip,second.zip]", cwd=place)
    table = (place / "pooled" / "fidelity.txt").read_text(encoding="utf-8")
    assert all(name in table for name in ("attention", "gradient_norm", "random (blind)"))
    assert (place / "pooled" / "report.html").exists()
    # Read again as any folder, and as one bundle by its bare name.
    assert "gradient_norm" in command(*EVALUATE, "results=pooled", cwd=place).stdout
    alone = command(*EVALUATE, "results=second.zip", "pooled=alone", cwd=place)
    assert alone.returncode == 0 and "attention" not in alone.stdout


def test_a_tampered_bundle_is_one_line(place):
    contents = read_members(place / "first.zip")
    contents["tables/fidelity.csv"] += b"\n"
    rewrite_bundle(place / "tampered.zip", contents, manifest=False)
    done = command(*EVALUATE, "results=[second.zip,tampered.zip]", "pooled=none", cwd=place)
    assert done.returncode == 1 and not (place / "none" / "measurements").exists()
    [line] = [line for line in done.stderr.splitlines() if line.startswith("error")]
    assert line.startswith("error: tampered.zip: the member tables/fidelity.csv was altered")
    assert "Traceback" not in done.stderr


def test_a_file_beside_a_row_that_no_table_can_read_is_one_line(place):
    """Its digest fits, and it is the JSON of something else."""
    contents = read_members(place / "first.zip")
    units = next(data for name, data in contents.items() if name.endswith(".parquet"))
    sample, relevance = (b'[{"x": 1}]', ".json"), (units, ".parquet")
    contents = add_files(contents, sample=sample, browsed_relevance=relevance)
    rewrite_bundle(place / "odd.zip", contents)
    done = command(*EVALUATE, "results=odd.zip", "pooled=odd", cwd=place)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    [line] = [line for line in done.stderr.splitlines() if line.startswith("error")]
    assert line.startswith("error: odd.zip: a file in the bundle cannot be read: ")


@pytest.mark.parametrize(
    ("script", "option", "message"),
    [
        ("train.py", "results=[a.zip]", "takes bundles with evaluate.py only"),
        ("train.py", "bundle=a.zip", "bundle= works with evaluate.py only"),
        ("evaluate.py", "bundle=a.tar", "bundle"),
        ("evaluate.py", "results=[]", "results"),
        ("evaluate.py", "bundle=a.zip cite", "bundle= is of a report; leave cite, explain= and"),
        ("evaluate.py", "metric=[] cite", "metric=[]: choose a metric"),
    ],
)
def test_what_cannot_be_meant_is_refused(place, script, option, message):
    done = command(script, "metric=[fidelity]", *option.split(), cwd=place)
    assert done.returncode == 2 and message in done.stderr


def test_the_leaderboard_command(place):
    bundle_folder = place / "bundles"
    bundle_folder.mkdir()
    for name in ("first.zip", "second.zip"):
        (bundle_folder / name).write_bytes((place / name).read_bytes())
    program = "xnmt_bench/__main__.py"
    done = command(program, "leaderboard", "bundles", cwd=place)
    assert done.returncode == 0 and done.stdout == "written: leaderboard.html\n"
    assert "gradient_norm" in (place / "leaderboard.html").read_text(encoding="utf-8")
    (bundle_folder / "bad.zip").write_bytes(b"nothing")
    done = command(program, "leaderboard", "bundles", "page.html", cwd=place)
    assert done.returncode == 1 and (place / "page.html").exists()
    lines = done.stderr.splitlines()
    assert [line.startswith("error: ") for line in lines] == [True, True]
    assert "bad.zip" in lines[0] and "page.html is written without them" in lines[1]
    assert command(program, "leaderboard", cwd=place).returncode == 2
