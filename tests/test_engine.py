"""Shards by workers, ranks that train together: the bytes of one process, also after kills."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from random import Random
from types import SimpleNamespace

import pytest

from support import forked_commands
from support.paths import ROOT
from xnmt_bench import engine
from xnmt_bench.errors import ConfigError
from xnmt_bench.schema import check

# Not imported here: Ray reads how to authenticate when it is first imported.
if find_spec("ray") is None:
    pytest.skip("needs xnmt_bench[cluster]", allow_module_level=True)

SMALL = [
    *("corpus.train=300", "corpus.valid=30", "corpus.test=40"),
    *("corpus.subwords.source_size=150", "corpus.subwords.target_size=150"),
    *("nmt.sizes.dimension=16", "nmt.sizes.feed_forward=16", "nmt.sizes.heads=2"),
    *("nmt.beam=1", "nmt.training.max_epochs=2", "nmt.training.batch_tokens=400"),
    *("rules.train_sentences=60", "rules.shard_sentences=10", "explainer=gradient_norm"),
    *("proxy=fn", "proxy.training.max_epochs=2", "bootstrap.samples=20"),
    *("metric=[fidelity,quality]", "judge=[base,own]", "trainer.progress_bar=false", "threads=1"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster of a head without a processor and two nodes of one, and how commands reach it."""
    home = tmp_path_factory.mktemp("home")
    token = home / "token"
    token.write_text("0123456789abcdef" * 4)
    variables = {
        "HOME": str(home),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_worker_niceness": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
    }
    before = dict(os.environ)
    os.environ.update(variables)
    from ray.cluster_utils import Cluster

    size = {"object_store_memory": engine.MEMORY, "include_dashboard": False}
    there = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **size})
    there.environment = {**os.environ, "RAY_ADDRESS": there.address}
    there.nodes_of_one = [there.add_node(num_cpus=1, object_store_memory=engine.MEMORY)]
    there.nodes_of_one += [there.add_node(num_cpus=1, object_store_memory=engine.MEMORY)]
    yield there
    there.shutdown()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A job that one process did."""
    folder = tmp_path_factory.mktemp("alone")
    done = run(folder)
    assert done.returncode == 0, done.stderr
    return folder


def arguments(folder, *changes):
    places = (f"store={folder}/store", f"results={folder}/results", f"hydra.run.dir={folder}/run")
    return [*SMALL, *places, *changes]


def run(folder, *changes, environment=None):
    environment = {**(environment or os.environ), "OMP_NUM_THREADS": "1"}
    return forked_commands.run(ROOT / "train.py", arguments(folder, *changes), ROOT, environment)


def start(folder, environment, *changes):
    """Starts a run; what it says goes into a file."""
    files = folder / "output", folder / "errors"
    return forked_commands.start_script(
        ROOT / "train.py", arguments(folder, *changes), ROOT, environment, *files
    )


def end(process, seconds=600):
    """Waits for a run's end, and returns its exit status."""
    process.join(seconds)
    return process.exitcode


def with_system_of(alone, folder):
    """Copies the trained system and what it stands on, so that runs begin with shards."""
    for stage in ("subwords", "encoded", "nmt", "doubts"):
        shutil.copytree(alone / "store" / stage, folder / "store" / stage)
    return folder


def contents(folder):
    """Every file of a store but the descriptions, which hold times, and every digest in those."""
    files = {}
    for path in sorted((folder / "store").rglob("*")):
        if not path.is_file() or path.name.startswith("."):
            continue
        name = path.relative_to(folder / "store").as_posix()
        is_meta = path.name == "meta.json"
        files[name] = json.loads(path.read_text())["files"] if is_meta else path.read_bytes()
    return files


def wait_for(condition, process, seconds=240):
    end = time.monotonic() + seconds
    while not condition():
        assert process.exitcode is None, "the run ended before"
        assert time.monotonic() < end
        time.sleep(0.05)


def shards_there(folder):
    return len(list((folder / "store" / "rules").glob("*.partial/*/*.parquet")))


def workers_of_ray():
    processes = subprocess.run(["pgrep", "-f", "ray::_make_shard"], capture_output=True, text=True)
    return [int(line) for line in processes.stdout.split()]


def test_workers_make_the_same_bytes_as_one_process(cluster, alone, tmp_path):
    folder = with_system_of(alone, tmp_path)
    done = run(folder, "workers=2", environment=cluster.environment)
    assert done.returncode == 0, done.stderr
    assert contents(folder) == contents(alone)


def test_a_worker_that_is_killed_costs_a_shard(cluster, alone, tmp_path):
    folder = with_system_of(alone, tmp_path)
    rules = ("rules.shard_sentences=2", "until=rules")
    process = start(folder, cluster.environment, "workers=2", *rules)
    wait_for(lambda: shards_there(folder) > 1 and workers_of_ray(), process)
    for worker in workers_of_ray()[:1]:
        os.kill(worker, signal.SIGKILL)
    assert end(process) == 0, (folder / "errors").read_text()
    again = run(folder, *rules)
    assert again.returncode == 0 and "making" not in again.stderr


def test_a_run_that_is_killed_goes_on_with_another_number_of_workers(cluster, alone, tmp_path):
    folder = with_system_of(alone, tmp_path)
    process = start(folder, cluster.environment, "workers=2")
    wait_for(lambda: shards_there(folder) > 0, process)
    process.kill()
    end(process)
    done = run(folder)
    assert done.returncode == 0, done.stderr
    assert contents(folder) == contents(alone)


def test_a_node_that_is_lost_costs_its_shards(cluster, alone, tmp_path):
    folder = with_system_of(alone, tmp_path)
    rules = ("rules.shard_sentences=2", "until=rules")
    process = start(folder, cluster.environment, "workers=2", *rules)
    wait_for(lambda: shards_there(folder) > 1, process)
    cluster.remove_node(cluster.nodes_of_one.pop(), allow_graceful=False)
    assert end(process) == 0, (folder / "errors").read_text()
    cluster.nodes_of_one.append(cluster.add_node(num_cpus=1, object_store_memory=engine.MEMORY))


def test_two_ranks_train_to_the_bytes_of_one_process(cluster, tmp_path):
    # 17 batches a pass: the one that fills no step is dropped in both.
    training = ["metric=[]", "nmt.training.batches=2", "nmt.sizes.dropout=0.2"]
    folders = tmp_path / "one", tmp_path / "two"
    for folder in folders:
        folder.mkdir()
    first = run(folders[0], *training)
    two = run(folders[1], *training, "trainer.devices=2", environment=cluster.environment)
    assert (first.returncode, two.returncode) == (0, 0), first.stderr + two.stderr
    weights = [path.read_bytes() for f in folders for path in f.rglob("model.safetensors")]
    assert len(weights) == 2 and weights[0] == weights[1]
    facts = [
        json.loads(path.read_text())["facts"]
        for f in folders
        for path in f.rglob("nmt/*/meta.json")
    ]
    assert facts[0] == facts[1]


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(7))
@pytest.mark.parametrize("victim", ["worker", "run", "node"])
def test_whatever_dies_at_whatever_moment_the_bytes_are_the_same(
    victim, moment, cluster, alone, tmp_path
):
    folder, random = with_system_of(alone, tmp_path), Random(f"{victim} {moment}")
    process = start(folder, cluster.environment, "workers=2")
    time.sleep(random.uniform(1, 12))
    if victim == "run":
        process.kill()
    elif victim == "node":
        cluster.remove_node(cluster.nodes_of_one.pop(0), allow_graceful=False)
        cluster.nodes_of_one.append(cluster.add_node(num_cpus=1, object_store_memory=engine.MEMORY))
    elif workers := workers_of_ray():
        os.kill(random.choice(workers), signal.SIGKILL)
    end(process)
    done = run(folder, "workers=2", environment=cluster.environment)
    assert done.returncode == 0, done.stderr
    assert contents(folder) == contents(alone)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_changes_nothing(rank, cluster, tmp_path):
    training = ["metric=[]", "nmt.training.batches=2", "nmt.training.max_epochs=12"]
    folders = tmp_path / "one", tmp_path / "two"
    for folder in folders:
        folder.mkdir()
    assert run(folders[0], *training).returncode == 0
    process = start(folders[1], cluster.environment, *training, "trainer.devices=2")
    wait_for(lambda: list(folders[1].rglob("last.ckpt")), process)
    names = ["pgrep", "-f", "ray::.*RayTrainWorker"]
    ranks = subprocess.run(names, capture_output=True, text=True).stdout.split()
    os.kill(int(ranks[rank]), signal.SIGKILL)
    assert end(process, 900) == 0, (folders[1] / "errors").read_text()
    weights = [path.read_bytes() for f in folders for path in f.rglob("model.safetensors")]
    assert len(weights) == 2 and weights[0] == weights[1]


def test_more_workers_than_processors_are_refused(cluster, tmp_path):
    done = run(tmp_path, "workers=3", "metric=[]", environment=cluster.environment)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "error: workers=3: the cluster has 2 processors, fewer than there are workers"
    )


def test_a_training_that_was_over_is_not_begun_again(tmp_path, monkeypatch):
    """A run was killed behind the last rank's work, and before the artefact was there."""

    def train(folder):
        raise AssertionError("begun again")

    monkeypatch.setattr(engine, "_crew", SimpleNamespace(ranks=2))
    (tmp_path / engine.FACTS).write_text('{"epochs": 3}')
    assert engine.train_together(train, tmp_path) == {"epochs": 3}
    assert not [*tmp_path.iterdir()]


def test_without_ray_one_line_says_what_to_install(tmp_path):
    (tmp_path / "ray.py").write_text("raise ImportError('no ray')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = run(tmp_path, "workers=2", "metric=[]", environment=environment)
    assert done.returncode == 1
    assert "Ray is not installed; install it with pip install" in done.stderr.splitlines()[-1]


def test_one_process_imports_no_ray(tmp_path):
    process = forked_commands.start(ask_for_ray, arguments(tmp_path, "metric=[]"))
    assert end(process) == 0


def ask_for_ray(arguments):
    """Ends with status 1 where a job by one process imports Ray."""
    from xnmt_bench import commands

    sys.argv = ["train.py", *arguments]
    commands.train()
    sys.exit("ray" in sys.modules)


@pytest.mark.parametrize(
    "changes, problem",
    [
        (["workers=2", "device=cuda:1"], "workers=2: with device=cuda:1 there is one GPU"),
        (["trainer.devices=2"], "should divide nmt.training.batches, 1"),
        (["workers=0"], "workers=0"),
        (["until=proxies"], "until='proxies'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(changes, problem):
    import hydra

    with hydra.initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = hydra.compose("config", changes)
    with pytest.raises(ConfigError) as error:
        check(config)
    assert problem in str(error.value)


def test_workers_inside_of_jobs_that_run_at_once_are_refused():
    from xnmt_bench.run import check_launcher

    for launcher in ("a.joblib_launcher.JoblibLauncher", "b.submitit_launcher.SlurmLauncher"):
        with pytest.raises(ConfigError, match="the launcher already runs several jobs at once"):
            check_launcher(2, launcher)
    check_launcher(2, "hydra._internal.BasicLauncher")


def test_until_ends_with_the_stage_that_it_names(alone, tmp_path):
    folder = with_system_of(alone, tmp_path)
    done = run(folder, "until=labels")
    assert done.returncode == 0, done.stderr
    stages_made = {path.name for path in (folder / "store").iterdir()}
    assert (
        "labels" in stages_made and "rules" not in stages_made and not (folder / "results").exists()
    )
    assert run(folder, "until=rules").returncode == 0
    rules = {path.parent.name for path in (alone / "store" / "rules").glob("*/meta.json")}
    assert {path.parent.name for path in (folder / "store" / "rules").glob("*/meta.json")} == rules
