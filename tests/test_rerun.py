"""The command that makes a row again: digests of what lies at its paths."""

import shutil
from pathlib import Path

import pytest

from xnmt_bench import rerun
from xnmt_bench.overrides import quote, quoted
from xnmt_bench.rerun import rerun_command
from xnmt_bench.store import file_hash


def digest_of(folder, *written):
    line = rerun_command("train", [f"corpus.root={folder}"], [*written])
    command, digest = line.split(" # DIR1=sha256:")
    assert command == "python train.py corpus.root=DIR1"
    return digest


def test_what_the_job_itself_writes_changes_no_digest(tmp_path):
    # A process keeps a folder's digest, so that each state is a folder of its own.
    unused, used, edited = (tmp_path / name for name in ("unused", "used", "edited"))
    unused.mkdir()
    (unused / "train.de").write_text("a\n")
    shutil.copytree(unused, used)
    (used / "store").mkdir()
    (used / "store" / "rules.parquet").write_text("x")
    shutil.copytree(used, edited)
    (edited / "train.de").write_text("b\n")
    digest = digest_of(unused, unused / "store")
    assert digest_of(used, used / "store") == digest
    assert digest_of(used) != digest
    assert digest_of(edited, edited / "store") != digest


def test_a_text_that_is_longer_than_a_path_may_be_is_none():
    prompt = f"and/or {'long ' * 100}" + "{source}"
    override = f"nmt.reader.template={quoted(prompt)}"
    assert rerun_command("train", [override], []) == f"python train.py {quote(override)}"


def test_an_artefact_in_the_store_has_the_digest_of_its_files(tmp_path):
    """As of nmt.path=outputs/store/nmt/FINGERPRINT."""
    systems = [tmp_path / "nmt" / name for name in ("a", "b")]
    for system in systems:
        system.mkdir(parents=True)
        (system / "model").write_text(system.name)
    first, second = (digest_of(system, tmp_path) for system in systems)
    assert first != second
    assert first == digest_of(systems[0])


def test_a_file_that_cannot_be_read_ends_no_job(tmp_path, monkeypatch):
    """A folder of data may hold what the job does not read."""
    (tmp_path / "train.de").write_text("a\n")
    (tmp_path / "secret").write_text("b\n")

    def refuse(path: Path) -> str:
        if path.name == "secret":
            raise PermissionError(13, "Permission denied", str(path))
        return file_hash(path)

    monkeypatch.setattr(rerun, "file_hash", refuse)
    assert len(digest_of(tmp_path)) == 16
    line = rerun_command("train", [f"outputs.path={tmp_path}/secret"])
    assert line.endswith("# FILE1=sha256:unreadable")


@pytest.mark.parametrize("name", ["Müller's", "a, b", "[x]", "(v1)", "plain"])
def test_a_path_of_any_letters_is_a_placeholder(name, tmp_path):
    (tmp_path / name).mkdir()
    override = quoted(f"corpus.root={quote(str(tmp_path / name))}")
    line = rerun_command("train", [override, f"sheet.path=[{quote(str(tmp_path / name))},x]"])
    assert str(tmp_path) not in line and line.count("DIR1") == 3
