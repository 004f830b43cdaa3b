"""Where work runs: in this process, in workers of a Ray cluster, or in ranks that train together.

A *shard* is a file of an artefact that is made alone. A worker gets what makes a stage's shards and
a number; it opens everything else from the store, where all that the shard needs lies. A shard is
done when its file is there, so that it does no harm if an engine makes it twice. This is the only
file that imports Ray, and it does so only for more than one process.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from xnmt_bench import device
from xnmt_bench.errors import ConfigError, XnmtError
from xnmt_bench.progress import track
from xnmt_bench.store import write_atomically

log = logging.getLogger(__name__)
Result = TypeVar("Result")
Shards = Callable[[Sequence[int]], Iterator[Any]]  # writes shards, and yields once after each
INSTALL = "install it with pip install 'xnmt_bench[cluster]'"
RETRIES = 10  # of a shard whose worker or node was lost
STARTS = 5  # of ranks of which one was lost
MEMORY = 128 * 2**20  # bytes of Ray's own store, through which nothing large goes
FACTS = "facts.json"  # what the first rank hands to the process that started it


@dataclass(frozen=True)
class Crew:
    """The processes that work for a job.

    Attributes:
        folder: where relative paths of its configuration begin.
        threads: of each process.
        memory: bytes that every process takes as free on its GPU; None on a CPU.
        workers: how many make shards.
        devices: ranks a node that train together.
        nodes: of these ranks.
        on_gpu: each has a GPU of its own.
    """

    folder: str
    threads: int
    memory: int | None
    workers: int
    devices: int
    nodes: int
    on_gpu: bool

    @property
    def ranks(self) -> int:
        """How many train together."""
        return self.devices * self.nodes

    @property
    def resources(self) -> dict[str, float]:
        """What one process takes of a node, as Ray counts it."""
        return {"CPU": 1, **({"GPU": 1} if self.on_gpu else {})}


_crew: Crew | None = None  # of the job that runs in this process
_rank: int | None = None  # of this process, where several train together
_opened: dict[tuple[str, str], Shards] = {}  # in a worker: what makes the latest shards


@contextmanager
def employ(crew: Crew) -> Iterator[None]:
    """Let a crew work for everything inside; a crew of one is this process."""
    global _crew
    starts_ray = False
    if crew.workers > 1 or crew.ranks > 1:
        starts_ray = _connect(crew)
        _crew = crew
    try:
        yield
    finally:
        _crew = None
        if starts_ray:
            import ray

            # The next job of a sweep may want another number of processors.
            ray.shutdown()


def make_shards(
    folder: Path,
    name: str,
    paths: Sequence[Path],
    make: Shards,
    title: str,
    shown: bool = True,
    is_there: Callable[[Path], bool] = Path.exists,
) -> None:
    """Make the missing shards of an artefact, in this process or by workers.

    Args:
        folder: of the unfinished artefact.
        name: tells the shards from others in the folder.
        paths: of all shards.
        make: writes the shards of some numbers whole or not at all, and yields after each.
        title: of the progress line.
        shown: show it.
        is_there: whether a shard is finished; it may raise an error for a damaged one.

    Raises:
        XnmtError: a shard could not be made.
    """
    missing = [number for number, path in enumerate(paths) if not is_there(path)]
    before, total = len(paths) - len(missing), len(paths)
    if _crew and _crew.workers > 1 and len(missing) > 1:
        done, note = (
            _make_by_workers(_crew, make, folder, name, missing),
            f"{_crew.workers} workers",
        )
    else:
        note, done = "", make(missing) if missing else iter(())
    # Counted from the shards of an earlier run on.
    for _ in track(done, title, total, "shards", shown, before, note):
        pass  # each is on disk already
    if gone := [str(path) for path in paths if not is_there(path)]:
        raise XnmtError(
            f"{gone[0]}: the shard is missing; is the store on a disk that all nodes share?"
        )


def _make_by_workers(
    crew: Crew, make: Shards, folder: Path, name: str, missing: list[int]
) -> Iterator[None]:
    """Let workers make shards, and yield after each."""
    import ray
    from ray import cloudpickle

    # As bytes, and by name: a worker unpacks them once, and not for each shard.
    packed, key = ray.put(cloudpickle.dumps(make)), (str(folder.resolve()), name)
    size: dict[str, Any] = {"num_cpus": 1, "num_gpus": crew.resources.get("GPU", 0)}
    # Without `max_calls=0` a worker with a GPU would end after each shard, and its model with it.
    remote = ray.remote(**size, max_retries=RETRIES, max_calls=0)(_make_shard)
    # No more at once than there are workers, so that a cluster that others use too is shared.
    waiting = missing[::-1]
    under_way: dict[Any, int] = {}
    try:
        while waiting or under_way:
            while waiting and len(under_way) < crew.workers:
                number = waiting.pop()
                under_way[remote.remote(crew, key, [packed], number)] = number
            # Not for ever, so that a signal is noticed.
            finished, _ = ray.wait(list(under_way), timeout=0.5)
            for reference in finished:
                number = under_way.pop(reference)
                try:
                    ray.get(reference)
                except ray.exceptions.RayTaskError as error:
                    raise error.cause if isinstance(error.cause, Exception) else error from None
                except ray.exceptions.RayError as error:
                    lost = (
                        f"{folder}: shard {number} of {name}: its worker was lost {RETRIES} times"
                    )
                    raise XnmtError(f"{lost}: {type(error).__name__}") from None
                yield
    finally:
        for reference in under_way:  # of a stage that ended by an error or a signal
            ray.cancel(reference)


def _make_shard(crew: Crew, key: tuple[str, str], packed: list[Any], number: int) -> None:
    """Make one shard, in a worker; what makes it stays open for the next one.

    Args:
        crew: whose worker this is.
        key: folder and name of the shards.
        packed: a reference to what makes them, in a list, since Ray would fetch it each time.
        number: of the shard.
    """
    if key not in _opened:
        import ray
        from ray import cloudpickle

        _opened.clear()
        _settle(crew)
        _opened[key] = cloudpickle.loads(ray.get(packed[0]))
    for _ in _opened[key]([number]):
        pass


def _settle(crew: Crew) -> None:
    """Let this process run as the one does that has the crew."""
    os.chdir(crew.folder)
    torch.set_num_threads(crew.threads)
    device.agree_on_memory(crew.memory)
    logging.getLogger().setLevel(logging.ERROR)  # the process that has the crew reports


def train_together(train: Callable[[Path], dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Train an artefact in this process, or in several ranks, if the job has them.

    Args:
        train: does what each rank does.
        folder: of the unfinished artefact.

    Returns:
        The facts of the artefact.

    Raises:
        XnmtError: training failed, or ranks were lost too often.
    """
    if _crew is None or _crew.ranks == 1 or _rank is not None:
        return train(folder)
    crew, path = _crew, folder.resolve()
    if (path / FACTS).exists():  # written last: a run was killed when its training was over
        return _take_facts(path)
    from ray import cloudpickle
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer
    from ray.train.v2.api.exceptions import TrainingFailedError

    packed = cloudpickle.dumps(train)
    scaling = ScalingConfig(
        num_workers=crew.ranks, use_gpu=crew.on_gpu, resources_per_worker=crew.resources
    )
    backend = TorchConfig(backend="nccl" if crew.on_gpu else "gloo")
    for start in range(1, STARTS + 1):
        trainer = TorchTrainer(
            _train_as_rank,
            train_loop_config={"crew": crew, "train": packed, "folder": str(path)},
            scaling_config=scaling,
            torch_config=backend,
            # Ray's own notes; all that training goes on with is in `checkpoints`.
            run_config=RunConfig(name="ranks", storage_path=str(path / "ray")),
        )
        try:
            with _own_signals():
                trainer.fit()
        except SystemExit:
            # Ray's handler of Ctrl-C ends a training as if it had finished.
            signal.raise_signal(signal.SIGINT)
            raise
        except TrainingFailedError as error:
            failures = getattr(error, "worker_failures", {})
            for failure in failures.values():
                cause = getattr(failure, "_base_exc", failure)
                if isinstance(cause, XnmtError | OSError):  # it would fail again
                    raise cause from None
            if start == STARTS:
                raise XnmtError(f"{folder}: training failed {STARTS} times: {error}") from None
            log.warning("a rank was lost; all start again from the last checkpoint")
        else:
            break
        finally:
            shutil.rmtree(path / "ray", ignore_errors=True)
    return _take_facts(path)


def _take_facts(folder: Path) -> dict[str, Any]:
    """Return what the first rank wrote, and remove the file from the artefact."""
    facts: dict[str, Any] = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    (folder / FACTS).unlink()
    return facts


def _train_as_rank(settings: Mapping[str, Any]) -> None:
    """Do the work of an artefact as one of several ranks."""
    global _rank
    from ray import cloudpickle
    from ray.train import get_context

    folder = Path(settings["folder"])
    _settle(settings["crew"])
    _rank = get_context().get_world_rank()
    facts = cloudpickle.loads(settings["train"])(folder)
    if _rank == 0:
        write_atomically(folder / FACTS, json.dumps(facts))


def leave_to_first_rank(compute: Callable[[], Result]) -> Result:
    """Return what a function gives in the first rank; the others wait for it."""
    if _rank is None:
        return compute()
    results = [compute() if _rank == 0 else None]
    torch.distributed.broadcast_object_list(results)
    return results[0]  # type: ignore[return-value]


def lightning_ranks() -> dict[str, Any]:
    """Return how Lightning's trainer joins the ranks, as its arguments; none for one process."""
    if _rank is None:
        return {}
    from ray.train import get_context
    from ray.train.lightning import RayDDPStrategy, RayLightningEnvironment

    context = get_context()
    local = context.get_local_world_size()
    return {
        # Buffers are constants here, and their broadcast would cost a message a step.
        "strategy": RayDDPStrategy(broadcast_buffers=False),
        "plugins": [RayLightningEnvironment()],
        "devices": local,
        "num_nodes": context.get_world_size() // local,
        "use_distributed_sampler": False,  # batches are sliced by rank here
    }


def rank_and_ranks() -> tuple[int, int]:
    """Return the number of this process among those that train together, and how many they are."""
    return (0, 1) if _rank is None else (_rank, torch.distributed.get_world_size())


def _connect(crew: Crew) -> bool:
    """Join the cluster that `RAY_ADDRESS` names, or start Ray on this machine.

    Returns:
        Whether Ray was started here, and has to end with the job.

    Raises:
        XnmtError: Ray is not installed, or the cluster runs another version of it.
        ConfigError: there are fewer processors or GPUs than processes.
    """
    # Without a token every user of the machine could send code to the cluster.
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault("RAY_worker_niceness", "0")  # workers do the work of this process
    os.environ.setdefault("RAY_TRAIN_V2_ENABLED", "1")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise XnmtError(f"{_option(crew)}: Ray is not installed; {INSTALL}") from None
    address = os.environ.get("RAY_ADDRESS")
    if starts := not ray.is_initialized():
        # A cluster that is there has its own size.
        size: dict[str, Any] = (
            {} if address else {"num_cpus": _processes(crew), "object_store_memory": MEMORY}
        )
        with _own_signals():
            try:
                ray.init(
                    address=address or "local",
                    include_dashboard=None if address else False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    **size,
                )
            except (RuntimeError, ConnectionError, ValueError) as error:
                reason = str(error).strip().splitlines()[0]
                raise XnmtError(f"Ray cluster {address or 'on this machine'}: {reason}") from None
    there = ray.cluster_resources()
    for kind in crew.resources:
        if (count := int(there.get(kind, 0))) < _processes(crew):
            noun = {"CPU": "processors", "GPU": "GPUs"}[kind]
            if starts and not address:  # or the next job of a sweep would find it
                ray.shutdown()
            problem = f"the cluster has {count} {noun}, fewer than there are workers"
            raise ConfigError([f"{_option(crew)}: {problem}"])
    return starts and not address


def _option(crew: Crew) -> str:
    """Return the option that asks for several processes, as on the command line."""
    if crew.workers >= crew.ranks:
        return f"workers={crew.workers}"
    return f"trainer.devices x trainer.nodes={crew.ranks}"


def _processes(crew: Crew) -> int:
    """Return how many run at once: shards and ranks are never made at the same time."""
    return max(crew.workers, crew.ranks)


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep this program's handlers of signals, which Ray replaces by its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
