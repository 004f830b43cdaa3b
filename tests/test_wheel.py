"""The package as a wheel: it works in an environment of its own and an empty folder."""

import csv
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import xnmt_bench
from support.paths import ROOT

TINY = [
    "corpus.train=200",
    "corpus.valid=20",
    "corpus.test=20",
    "corpus.subwords.source_size=300",
    "corpus.subwords.target_size=400",
    "nmt.sizes.dimension=16",
    "nmt.sizes.feed_forward=16",
    "nmt.sizes.heads=2",
    "nmt.beam=1",
    "nmt.training.max_epochs=1",
    "explainer=attention",
    "rules.train_sentences=40",
    "rules.shard_sentences=20",
    "proxy=fn",
    "proxy.training.max_epochs=1",
    "trainer.progress_bar=false",
    "threads=1",
]


def ran(*command: str | Path, **options: object) -> str:
    """What a command says; it has to end well."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_wheel_trains_and_evaluates(tmp_path):
    # A build leaves files behind, so it gets a tree of its own.
    source, wheels, place = tmp_path / "source", tmp_path / "wheels", tmp_path / "environment"
    source.mkdir()
    copied(source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    ran(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, source)
    [wheel] = wheels.iterdir()
    ran(sys.executable, "-m", "venv", "--without-pip", place)
    python = place / "bin" / "python"
    ran(*pip, "--python", python, "install", "--no-deps", wheel)
    # What the package needs is what is installed here; without a network nothing else is to be had.
    [site] = place.glob("lib/*/site-packages")
    (site / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    imported = ran(python, "-c", "import xnmt_bench; print(xnmt_bench.__file__)", cwd=empty)
    assert Path(imported.strip()).is_relative_to(site)
    assert "Groups, with their default in front" in ran(
        place / "bin" / "xnmt-train", "--help", cwd=empty
    )
    explained = ran(place / "bin" / "xnmt", "explain", "Der Hund schläft .", cwd=empty)
    assert "target (en): The dog" in explained
    assert (empty / "results" / "explanation.png").exists()
    ran(place / "bin" / "xnmt-train", *TINY, cwd=empty)
    shown = ran(place / "bin" / "xnmt-evaluate", cwd=empty)
    assert "PPL" in shown and "BLEU" in shown
    with (empty / "results" / "fidelity.csv").open() as file:
        rows = {row["instantiation"]: row for row in csv.DictReader(file)}
    assert {"base", "fn", "unigram", "nmt"} <= rows.keys()
    assert all(row["status"] == "ok" and float(row["ppl"]) > 0 for row in rows.values())
    assert (empty / "results" / "report.html").stat().st_size > 1000


def test_the_citation_is_of_this_version():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited[1] == xnmt_bench.__version__


def copied(folder):
    """The tree that a wheel is built from, without what earlier builds left."""
    for part in ("xnmt_bench", "proxies", "conf"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / file, folder / file)
    return folder


def packed(tree):
    """The files of a wheel, by setuptools itself, without building one."""
    code = (
        "import sys\n"
        "from setuptools import setup\n"
        "sys.argv = ['setup.py']\n"
        "command = setup(script_args=['-q', '--version']).get_command_obj('build_py')\n"
        "command.ensure_finalized()\n"
        "print(*command.get_outputs(include_bytecode=False), sep='\\n')\n"
    )
    listed = ran(sys.executable, "-W", "ignore", "-c", code, cwd=tree)
    lines = [Path(line) for line in listed.splitlines() if line.startswith("build")]
    return {line.relative_to("build/lib").as_posix() for line in lines}


def test_a_wheel_holds_every_file_of_the_package(tmp_path):
    """A forgotten room, a configuration or a page's script would be missing once installed."""
    expected = set()
    for folder in ("xnmt_bench", "proxies"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".tsv", ".jinja", ".js", ".css"):
                expected.add(path.relative_to(ROOT).as_posix())
    learnt = ROOT / "xnmt_bench" / "resolvers" / "learnt"
    catalogue = ROOT / "xnmt_bench" / "catalogue.json"
    for path in (catalogue, learnt / "weights.json.gz", learnt / "README.md"):
        expected.add(path.relative_to(ROOT).as_posix())
    for path in (ROOT / "conf").rglob("*.yaml"):
        expected.add(f"xnmt_bench/{path.relative_to(ROOT).as_posix()}")
    files = packed(copied(tmp_path))
    assert expected <= files, sorted(expected - files)
    assert not [name for name in files if name.startswith("tests")]
