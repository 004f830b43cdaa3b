"""The store: every result once, whole or not at all."""

import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from xnmt_bench.errors import StoreError
from xnmt_bench.store import META, Store, fingerprint

RECIPE = {"seed": 1, "sizes": {"k": 3}}


def work(folder: Path):
    """Two files, one in a folder of its own."""
    (folder / "part").mkdir()
    (folder / "part" / "weights").write_text("0123456789")
    (folder / "text").write_text("hello")
    return {"count": 2}


def never(folder: Path):
    raise AssertionError("made a second time")


def test_made_once_and_opened_afterwards(tmp_path):
    made = Store(tmp_path).make("nmt", RECIPE, work)
    assert (made.path / "part" / "weights").read_text() == "0123456789"
    assert made.path == tmp_path / "nmt" / made.id
    assert (made.id, made.recipe, made.facts) == (fingerprint(RECIPE), RECIPE, {"count": 2})
    for store in (Store(tmp_path), Store(str(tmp_path))):
        assert store.make("nmt", RECIPE, never) == made
        assert store.find("nmt", RECIPE) == made
        assert store.all("nmt") == [made]
        assert store.find("rules", RECIPE) is None


def test_who_only_reads_makes_nothing(tmp_path):
    reader = Store(tmp_path / "store", may_make=False)
    with pytest.raises(StoreError, match=fingerprint(RECIPE)):
        reader.make("nmt", RECIPE, never)
    assert not (tmp_path / "store").exists()
    made = Store(tmp_path / "store").make("nmt", RECIPE, work)
    assert reader.make("nmt", RECIPE, never) == made


@pytest.mark.parametrize(
    "changed", [{}, {"seed": 2, "sizes": {"k": 3}}, {"seed": 1, "sizes": {"k": 4}}, {"seed": "1"}]
)
def test_another_recipe_is_another_artefact(tmp_path, changed):
    store = Store(tmp_path)
    made = store.make("nmt", RECIPE, work)
    assert store.find("nmt", changed) is None
    assert store.make("nmt", changed, work).id != made.id
    assert len(store.all("nmt")) == 2


def test_a_fingerprint_does_not_depend_on_the_order_of_keys():
    assert fingerprint(RECIPE) == fingerprint(dict(reversed(RECIPE.items())))
    assert len(fingerprint(RECIPE)) == 16


@pytest.mark.parametrize("file", ["text", "part/weights", META])
@pytest.mark.parametrize("damage", ["altered", "truncated", "emptied", "missing"])
def test_damage_is_named(tmp_path, file, damage):
    path = Store(tmp_path).make("nmt", RECIPE, work).path / file
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "altered":  # a digit becomes another one: in the meta, of the facts
        changed = content.replace(b"2\n }", b"3\n }") if file == META else b"x" + content[1:]
        assert changed != content
        path.write_bytes(changed)
    else:
        path.write_bytes(content[: len(content) // 2] if damage == "truncated" else b"")
    for use in (lambda s: s.make("nmt", RECIPE, never), lambda s: s.find("nmt", RECIPE)):
        with pytest.raises(StoreError) as error:
            use(Store(tmp_path))
        named = path.parent if (file, damage) == (META, "missing") else path
        assert str(named) in str(error.value)


@pytest.mark.parametrize("content", ["{}", "[]", '{"files": {}}'])
def test_a_meta_file_that_is_none_is_named(tmp_path, content):
    path = Store(tmp_path).make("nmt", RECIPE, work).path / META
    path.write_text(content)
    with pytest.raises(StoreError, match=META):
        Store(tmp_path).find("nmt", RECIPE)


def test_work_that_raised_is_resumed(tmp_path):
    seen = []

    def fails(folder):
        (folder / "first").write_text("done")
        raise KeyboardInterrupt

    def resumes(folder):
        seen.extend(path.name for path in folder.iterdir())
        (folder / "second").write_text("done")

    with pytest.raises(KeyboardInterrupt):
        Store(tmp_path).make("nmt", RECIPE, fails)
    assert Store(tmp_path).find("nmt", RECIPE) is None
    assert Store(tmp_path).all("nmt") == []
    made = Store(tmp_path).make("nmt", RECIPE, resumes)
    assert seen == ["first"]
    assert sorted(path.name for path in made.path.iterdir()) == ["first", META, "second"]
    assert made.facts == {}


def test_an_unfinished_folder_is_not_opened(tmp_path):
    """Not even one that a kill left a moment before its renaming."""
    store = Store(tmp_path)
    partial = tmp_path / "nmt" / (fingerprint(RECIPE) + ".partial")
    partial.mkdir(parents=True)
    (partial / META).write_text(json.dumps({"recipe": RECIPE, "facts": {}, "files": {}}))
    assert store.find("nmt", RECIPE) is None
    assert store.all("nmt") == []
    assert store.make("nmt", RECIPE, work).facts == {"count": 2}


def make_slowly(root, barrier):
    """A job of its own; what it does is written down outside the store."""

    def slow(folder):
        with (root / "log").open("a") as log:
            log.write("made\n")
        time.sleep(0.3)  # so that the other job comes to wait
        (folder / "text").write_text("whole")

    barrier.wait()
    artefact = Store(root / "store").make("nmt", RECIPE, slow)
    assert (artefact.path / "text").read_text() == "whole"


def make_and_die(root):
    def dies(folder):
        (folder / "first").write_text("done")
        os._exit(9)

    Store(root / "store").make("nmt", RECIPE, dies)


def run(target, *argument_lists):
    """Runs a function in several processes at once; gives their exit codes."""
    context = multiprocessing.get_context("spawn")
    jobs = [context.Process(target=target, args=arguments) for arguments in argument_lists]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(60)
    return [job.exitcode for job in jobs]


def test_two_jobs_make_an_artefact_once(tmp_path):
    barrier = multiprocessing.get_context("spawn").Barrier(2)
    assert run(make_slowly, *[(tmp_path, barrier)] * 2) == [0, 0]
    assert (tmp_path / "log").read_text() == "made\n"


def test_a_killed_job_holds_nobody_up(tmp_path):
    assert run(make_and_die, (tmp_path,)) == [9]
    store = Store(tmp_path / "store")
    assert store.find("nmt", RECIPE) is None
    made = store.make("nmt", RECIPE, lambda folder: {"found": (folder / "first").read_text()})
    assert made.facts == {"found": "done"}
