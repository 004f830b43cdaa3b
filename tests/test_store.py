"""The store: every result once, whole or not at all."""

import errno
import fcntl
import json
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from xnmt_bench import store as store_module
from xnmt_bench.errors import MissingError, StoreError
from xnmt_bench.nmt.loading import system_id
from xnmt_bench.store import (
    CHECKPOINTS,
    META,
    MODEL_FILES,
    Artefact,
    Store,
    fingerprint,
    repair,
    verified,
)

RECIPE = {"version": 1, "seed": 1, "sizes": {"k": 3}}


def work(folder: Path):
    """Two files, one in a folder of its own."""
    (folder / "part").mkdir()
    (folder / "part" / "weights").write_text("0123456789")
    (folder / "text").write_text("hello")
    return {"count": 2}


def never(folder: Path):
    raise AssertionError("made a second time")


def make(root, work, stage="nmt", **changes):
    """Asks a store of its own for an artefact."""
    return Store(root).stage(stage, work, **{**RECIPE, **changes}).artefact


def find(root, stage="nmt", **changes):
    """The same for who only reads."""
    return Store(root, may_make=False).stage(stage, never, **{**RECIPE, **changes}).artefact


def test_has_asks_for_a_finished_artefact_and_makes_nothing(tmp_path):
    store = Store(tmp_path)
    assert not store.stage("nmt", work, **RECIPE).is_made
    assert not any(tmp_path.iterdir())
    _ = store.stage("nmt", work, **RECIPE).artefact
    assert store.stage("nmt", work, **RECIPE).is_made
    assert not store.stage("nmt", work, **RECIPE | {"seed": 2}).is_made
    assert not store.stage("proxy", work, **RECIPE).is_made


def test_an_artefact_knows_the_versions_of_the_libraries_that_made_it(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "_library_versions", lambda: {"torch": "1.0"})
    artefact = make(tmp_path, work)
    assert artefact.versions == {"torch": "1.0"}
    # They are not part of the recipe: another version reads the artefact, and the store lists both.
    monkeypatch.setattr(store_module, "_library_versions", lambda: {"torch": "2.0"})
    store = Store(tmp_path)
    assert store.stage("nmt", never, **RECIPE).artefact.versions == {"torch": "1.0"}
    _ = store.stage("nmt", work, **RECIPE | {"seed": 2}).artefact
    assert store.versions == {"torch": {"1.0", "2.0"}}


def test_made_once_and_opened_afterwards(tmp_path):
    artefact = make(tmp_path, work)
    assert (artefact.path / "part" / "weights").read_text() == "0123456789"
    assert artefact.path == tmp_path / "nmt" / artefact.fingerprint
    assert artefact.fingerprint == fingerprint(RECIPE)
    assert (artefact.recipe, artefact.facts) == (RECIPE, {"count": 2})
    for root in (tmp_path, str(tmp_path)):
        assert make(root, never) == find(root) == artefact
        assert Store(root).all("nmt") == [artefact]
    with pytest.raises(MissingError):
        find(tmp_path, "rules")


def test_who_only_reads_makes_nothing(tmp_path):
    with pytest.raises(MissingError, match=rf"{fingerprint(RECIPE)}.*run train\.py"):
        find(tmp_path / "store")
    assert not (tmp_path / "store").exists()
    artefact = make(tmp_path / "store", work)
    assert find(tmp_path / "store") == artefact


@pytest.mark.parametrize(
    "changes", [{"more": None}, {"seed": 2}, {"sizes": {"k": 4}}, {"seed": "1"}, {"version": 2}]
)
def test_another_recipe_is_another_artefact(tmp_path, changes):
    artefact = make(tmp_path, work)
    with pytest.raises(MissingError):
        find(tmp_path, **changes)
    assert make(tmp_path, work, **changes).fingerprint != artefact.fingerprint
    assert len(Store(tmp_path).all("nmt")) == 2


class Weights:
    """Stands for what is not in the store and still decides, as a model does."""

    def __init__(self, fingerprint):
        self.fingerprint = fingerprint


def test_recipes_chain(tmp_path):
    """What is made from artefacts changes with everything they were made from, however far back."""

    def third(**changes):
        first = make(tmp_path, work, **changes)
        made_from = {"nmt": first, "model": Weights("w")}
        second = Store(tmp_path).stage("rules", work, version=1, **made_from).artefact
        made_from = {"made_of": [{"rules": second}]}
        return second, Store(tmp_path).stage("proxy", work, version=1, **made_from).artefact

    rules, proxy = third()
    assert rules.recipe == {"version": 1, "nmt": fingerprint(RECIPE), "model": "w"}
    assert proxy.recipe == {"version": 1, "made_of": [{"rules": rules.fingerprint}]}
    assert third() == (rules, proxy)
    for changes in ({"seed": 2}, {"version": 2}):
        assert third(**changes)[1].fingerprint != proxy.fingerprint
    other = (
        Store(tmp_path)
        .stage("rules", work, version=1, nmt=make(tmp_path, never), model=Weights("v"))
        .artefact
    )
    assert other.fingerprint != rules.fingerprint


def test_what_has_no_fingerprint_is_no_part_of_a_recipe(tmp_path):
    with pytest.raises(AttributeError, match="fingerprint"):
        make(tmp_path, never, model=object())


@pytest.fixture
def hashed(monkeypatch):
    """The name of each file that is read to be verified."""
    names, file_hash = [], store_module.file_hash

    def counted(path):
        names.append(path.name)
        return file_hash(path)

    monkeypatch.setattr(store_module, "file_hash", counted)
    return names


def test_a_copy_under_another_name_is_the_same_artefact(tmp_path):
    """Two folders `a/rules` and `b/rules` are not one, as they were when the name counted."""
    originals = [make(tmp_path, work, seed=seed) for seed in (1, 2)]
    copies = [shutil.copytree(a.path, tmp_path / a.fingerprint / "rules") for a in originals]
    opened = [Artefact.open(copy).fingerprint for copy in copies]
    assert opened == [a.fingerprint for a in originals]
    assert len(set(opened)) == 2


def test_an_artefact_under_the_name_of_another_is_refused(tmp_path):
    first, second = (make(tmp_path, work, seed=seed) for seed in (1, 2))
    shutil.rmtree(first.path)
    shutil.copytree(second.path, first.path)
    with pytest.raises(
        StoreError, match=rf"^{first.path}: the folder holds another artefact, {second.fingerprint}"
    ):
        find(tmp_path, seed=1)
    repair(tmp_path)
    assert (first.path.exists(), second.path.exists()) == (False, True)


def test_an_artefact_is_hashed_once_a_process(tmp_path, hashed):
    artefact = make(tmp_path, work)
    hashed.clear()
    for _ in range(3):
        assert make(tmp_path, never) == find(tmp_path) == Artefact.open(artefact.path) == artefact
        assert Store(tmp_path).all("nmt") == [artefact]
        assert verified(artefact.path / "part" / "weights").exists()
    assert hashed == []
    for file in ("text", "part/weights"):
        touched = (artefact.path / file).stat()
        os.utime(artefact.path / file, ns=(touched.st_atime_ns, touched.st_mtime_ns + 1))
        assert make(tmp_path, never) == find(tmp_path) == artefact
        assert sorted(hashed) == ["text", "weights"]  # once again, and not a third time
        hashed.clear()


def test_what_another_process_made_is_hashed(tmp_path, hashed):
    assert run(make_slowly, (tmp_path, None)) == [0]
    [artefact] = Store(tmp_path / "store").all("nmt")
    assert hashed == ["text"]
    (artefact.path / "text").write_text("WHOLE")
    with pytest.raises(StoreError, match="truncated or altered"):
        Artefact.open(artefact.path)


@pytest.mark.parametrize("file", ["text", "part/weights"])
def test_damage_after_it_was_verified_is_named(tmp_path, file):
    path = make(tmp_path, work).path / file
    assert verified(path) == path
    path.write_bytes(b"x" + path.read_bytes()[1:])
    with pytest.raises(StoreError, match=str(path)):
        verified(path)


def test_a_file_outside_the_store_needs_no_verification(tmp_path):
    assert verified(tmp_path / "mine.txt") == tmp_path / "mine.txt"


def test_a_fingerprint_does_not_depend_on_the_order_of_keys():
    assert fingerprint(RECIPE) == fingerprint(dict(reversed(RECIPE.items())))
    assert len(fingerprint(RECIPE)) == 16


@pytest.mark.parametrize("file", ["text", "part/weights", META])
@pytest.mark.parametrize("damage", ["altered", "truncated", "emptied", "missing"])
def test_damage_is_named(tmp_path, file, damage):
    path = make(tmp_path, work).path / file
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "altered":  # a digit becomes another one: in the meta, of the facts
        changed = content.replace(b"2\n }", b"3\n }") if file == META else b"x" + content[1:]
        assert changed != content
        path.write_bytes(changed)
    else:
        path.write_bytes(content[: len(content) // 2] if damage == "truncated" else b"")
    if (file, damage) == (META, "missing"):
        with pytest.raises(StoreError, match=str(path.parent)):
            find(tmp_path)
        assert make(tmp_path, work).facts == {"count": 2}  # without it nothing is of any use
        return
    for use in (lambda: make(tmp_path, never), lambda: find(tmp_path)):
        with pytest.raises(StoreError) as error:
            use()
        assert str(path) in str(error.value)


@pytest.mark.parametrize("content", ["{}", "[]", '{"files": {}}'])
def test_a_meta_file_that_is_none_is_named(tmp_path, content):
    path = make(tmp_path, work).path / META
    path.write_text(content)
    with pytest.raises(StoreError, match=META):
        find(tmp_path)


def test_repair_drops_what_is_damaged_and_what_hangs_on_it(tmp_path):
    """The chain is system, relevance, rules; a system of another seed stays."""
    system = make(tmp_path, work)
    other = make(tmp_path, lambda folder: (folder / "text").write_text("other") and {}, seed=2)
    relevance = make(tmp_path, work, "relevance", system=system.fingerprint)
    rules = make(tmp_path, work, "rules", relevance=relevance.fingerprint)
    (system.path / "text").write_text("hurt")
    (tmp_path / "nmt" / "of_no_artefact.partial").mkdir()
    repair(tmp_path)
    assert not any(artefact.path.exists() for artefact in (system, relevance, rules))
    assert (tmp_path / "nmt" / "of_no_artefact.partial").is_dir()  # that is resumed, not damaged
    assert Store(tmp_path).all("nmt") == [other]
    assert make(tmp_path, work) == system
    repair(tmp_path)
    assert {kept.path for kept in Store(tmp_path).all("nmt")} == {other.path, system.path}


def test_repair_drops_what_is_made_from_a_damaged_system(tmp_path):
    """Systems are named by their description and weights, and not by their folder."""

    def train(folder):
        for name in MODEL_FILES:
            (folder / name).write_text(name)
        return {}

    system = make(tmp_path, train)
    labels = make(tmp_path, work, "labels", model=system_id(system.path))
    other = make(tmp_path, work, "labels", model="0123456789abcdef")
    (system.path / MODEL_FILES[1]).write_text("hurt")
    repair(tmp_path)
    assert not system.path.exists() and not labels.path.exists()
    assert other.path.exists()


def test_repair_leaves_alone_what_is_no_artefact(tmp_path):
    """`store=.` is quickly typed, and names a folder of other things."""
    folders = [tmp_path / name for name in (".git/objects", "docs/guide", "nmt/0123456789abcdeF")]
    for folder in folders:
        folder.mkdir(parents=True)
    repair(tmp_path)
    assert all(folder.is_dir() for folder in folders)


def test_work_that_raised_is_resumed(tmp_path):
    leftovers = []

    def fails(folder):
        (folder / "first").write_text("done")
        raise KeyboardInterrupt

    def resumes(folder):
        leftovers.extend(path.name for path in folder.iterdir())
        (folder / "second").write_text("done")

    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, fails)
    with pytest.raises(MissingError):
        find(tmp_path)
    assert Store(tmp_path).all("nmt") == []
    artefact = make(tmp_path, resumes)
    assert leftovers == ["first"]
    assert sorted(path.name for path in artefact.path.iterdir()) == ["first", META, "second"]
    assert artefact.facts == {}


def test_checkpoints_stay_until_the_artefact_is_whole(tmp_path, monkeypatch):
    """A run that is killed while its files are hashed has trained for days."""
    begun = []

    def work(folder):
        begun.append((folder / CHECKPOINTS / "last.ckpt").exists())
        (folder / CHECKPOINTS).mkdir(exist_ok=True)
        (folder / CHECKPOINTS / "last.ckpt").write_text("Adam's state")
        (folder / "weights").write_text("1")

    class Killed(BaseException):
        pass

    def kill(*_, **__):
        raise Killed

    store = Store(tmp_path)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(store_module, "file_hash", kill)
        _ = store.stage("nmt", work, version=1).artefact
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(store_module.shutil, "rmtree", kill)
        _ = store.stage("nmt", work, version=1).artefact
    assert begun == [False, True]
    # It is whole by now, and what is left of its training goes when it is opened.
    artefact = store.stage("nmt", work, version=1).artefact
    assert begun == [False, True]
    assert sorted(path.name for path in artefact.path.iterdir()) == ["meta.json", "weights"]
    assert list(json.loads((artefact.path / "meta.json").read_text())["files"]) == ["weights"]


def test_an_unfinished_folder_is_not_opened(tmp_path):
    """Not even one that a kill left a moment before its renaming."""
    partial = tmp_path / "nmt" / (fingerprint(RECIPE) + ".partial")
    partial.mkdir(parents=True)
    (partial / META).write_text(json.dumps({"recipe": RECIPE, "facts": {}, "files": {}}))
    with pytest.raises(MissingError):
        find(tmp_path)
    assert Store(tmp_path).all("nmt") == []
    assert make(tmp_path, work).facts == {"count": 2}


def make_slowly(root, barrier):
    """A job of its own; what it does is written down outside the store."""

    def slow(folder):
        with (root / "log").open("a") as log:
            log.write("made\n")
        time.sleep(0.3)  # so that the other job comes to wait
        (folder / "text").write_text("whole")

    if barrier:
        barrier.wait()
    artefact = make(root / "store", slow)
    assert (artefact.path / "text").read_text() == "whole"


def make_and_die(root):
    def dies(folder):
        (folder / "first").write_text("done")
        os._exit(9)

    make(root / "store", dies)


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
    with pytest.raises(MissingError):
        find(tmp_path / "store")
    artefact = make(tmp_path / "store", lambda folder: {"found": (folder / "first").read_text()})
    assert artefact.facts == {"found": "done"}


def make_traced(root):
    sys.settrace(lambda *_: None)  # as a debugger and coverage do
    make(root, work)


def test_an_artefact_is_made_under_a_debugger(tmp_path):
    job = multiprocessing.get_context("fork").Process(target=make_traced, args=(tmp_path,))
    job.start()
    job.join(20)
    job.kill()  # if it hangs
    job.join()
    assert job.exitcode == 0
    assert find(tmp_path).facts == {"count": 2}


def make_and_note(root, host):
    """Makes an artefact under a short lease, in two steps with a pause between them."""
    use_short_leases(host)

    def slow(folder):
        (root / f"{host}.began").touch()
        # In short sleeps, since a lost lease is noticed between two of them.
        for _ in range(25):
            time.sleep(0.1)
        (folder / "text").write_text("whole")
        return {"made": "whole"}

    artefact = make(root / "store", slow)
    assert (artefact.path / "text").read_text() == "whole"


def use_short_leases(host):
    store_module.LEASE = 1.0
    store_module.HOST = host
    socket.gethostname = lambda: host
    fcntl.flock = refuse_locks


def refuse_locks(*_):
    raise OSError(errno.ENOSYS, "Function not implemented")


def start(*arguments):
    job = multiprocessing.get_context("spawn").Process(target=make_and_note, args=arguments)
    job.start()
    wait_for(arguments[0] / f"{arguments[1]}.began")
    return job


def wait_for(path):
    for _ in range(300):
        if path.exists():
            return
        time.sleep(0.1)
    raise AssertionError(f"{path} did not come")


@pytest.mark.parametrize(
    "number", [signal.SIGSTOP, pytest.param(signal.SIGKILL, marks=pytest.mark.long)]
)
def test_a_holder_on_another_host_that_stands_still_is_taken_over(tmp_path, number):
    # On a file system without locks of the operating system.
    holder = start(tmp_path, "first")
    os.kill(holder.pid, number)
    taker = start(tmp_path, "second")
    taker.join(60)
    assert taker.exitcode == 0
    if number == signal.SIGSTOP:
        os.kill(holder.pid, signal.SIGCONT)
    holder.join(60)
    # One that wakes finds the other's artefact and goes on with it.
    assert holder.exitcode == (0 if number == signal.SIGSTOP else -signal.SIGKILL)
    assert [path.name for path in (tmp_path / "store" / "nmt").iterdir() if path.suffix] == []


def test_two_makers_at_once_both_succeed(tmp_path):
    # As after a holder that stood still woke in the middle of its work.
    def race(folder):
        (folder / "text").write_text("whole")
        shutil.copytree(folder, tmp_path / "copy")
        other = Store(tmp_path / "other").stage("nmt", write_text, **RECIPE).artefact
        shutil.copytree(other.path, folder.with_suffix(""))
        return {"made": "whole"}

    stage = Store(tmp_path / "store").stage("nmt", race, **RECIPE)
    assert stage.facts == {"made": "whole"}
    assert not list((tmp_path / "store" / "nmt").glob(f"*{store_module.PARTIAL}"))


def write_text(folder):
    (folder / "text").write_text("whole")
    return {"made": "whole"}


def test_a_file_that_another_maker_is_writing_stays(tmp_path):
    partial = Store(tmp_path).stage("nmt", work, **RECIPE).folder.with_suffix(store_module.PARTIAL)
    partial.mkdir(parents=True)
    name = f"a.{store_module.HOST}.{os.getppid()}.0a1b2c3d.tmp"  # its process lives
    dead = f"a.{store_module.HOST}.4194999.0a1b2c3d.tmp"
    for file in (name, dead, ".tmpXyz"):
        (partial / file).write_text("half")
    os.utime(partial / ".tmpXyz", (1, 1))
    artefact = make(tmp_path, write_text)
    assert sorted(artefact.files) == ["text"]
    assert {path.name for path in artefact.path.iterdir()} == {"meta.json", "text", name}
