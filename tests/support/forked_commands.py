"""Commands in processes forked from one server, which has imported what takes seconds to import."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import invalidate_caches
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory

from support.paths import ROOT

# No fork of pytest itself: threads, patches and seeds of a test stay with the test.
server = multiprocessing.get_context("forkserver")
server.set_forkserver_preload(
    [
        "captum.attr",
        "hydra_plugins.hydra_joblib_launcher.joblib_launcher",
        "matplotlib.backends.backend_agg",
        "matplotlib.backends.backend_svg",
        "matplotlib.pyplot",
        "proxies.training",
        "pyarrow.dataset",
        "pytorch_lightning.loggers",
        "sacrebleu",
        "wandb",
        "xnmt_bench.analyses.curves",
        "xnmt_bench.commands",
        "xnmt_bench.explain",
        "xnmt_bench.judges.evalx",
        "xnmt_bench.judges.kl",
        "xnmt_bench.judges.tuning",
        "xnmt_bench.metrics.fidelity",
        "xnmt_bench.metrics.quality",
        "xnmt_bench.nmt.training",
        "xnmt_bench.report.debug",
        "xnmt_bench.report.page",
        "xnmt_bench.run",
        "support.server_preload",
    ]
)


# Of the processes of a test session, where the one that distributes tests started it.
ADDRESS = "XNMT_BENCH_TESTS_SERVER"


def start_server() -> None:
    """Start one server for all processes of a test session."""
    folder, path = str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")
    # The server takes no other path from here, and has to find `support`.
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *([path] if path else [])])
    try:
        forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH")
        if path is not None:
            os.environ["PYTHONPATH"] = path
    # Python 3.14 lets only those connect that hold a key.
    if sys.version_info < (3, 14):
        os.environ[ADDRESS] = forkserver._forkserver._forkserver_address


@cache
def _join_server() -> None:
    """Let this process use the session's server, or start one."""
    if ADDRESS not in os.environ:
        return start_server()
    own_server = forkserver._forkserver
    own_server._forkserver_address, own_server._forkserver_alive_fd = (
        os.environ[ADDRESS],
        os.pipe()[1],
    )
    own_server.ensure_running = lambda: None


def command(script: str, *changes: str, fresh: bool = False, **options) -> CompletedProcess:
    """Runs train.py or evaluate.py as a user does.

    Args:
        script: which of the two.
        changes: its arguments.
        fresh: in a new Python instead of a fork: where it is about what Python imports, and for
            joblib, whose processes outlive a fork by minutes.
        options: `env`, added to the environment, and `cwd`.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **options.pop("env", {})}
    if not fresh:
        folder = options.pop("cwd", Path.cwd())
        assert not options
        return run(ROOT / script, [*changes], folder, environment)
    return subprocess.run(
        [sys.executable, str(ROOT / script), *changes],
        env=environment,
        capture_output=True,
        text=True,
        **options,
    )


def must_run(script: str, *changes: str, **options) -> CompletedProcess:
    """Runs a command that has to succeed, as `command` does."""
    done = command(script, *changes, **options)
    assert done.returncode == 0, done.stderr
    return done


def start(target: Callable[..., None], *arguments: object) -> BaseProcess:
    """Starts a function in a new process, in this one's environment."""
    _join_server()
    process = server.Process(target=_start, args=(dict(os.environ), target, arguments))
    process.start()
    return process


def _start(environment: dict[str, str], target: Callable[..., None], arguments: tuple) -> None:
    os.environ.clear()
    os.environ.update(environment)
    target(*arguments)


def run(
    script: Path, arguments: list[str], folder: Path, environment: Mapping[str, str]
) -> CompletedProcess:
    """Runs a script as `subprocess.run` does, in a folder and an environment."""
    with TemporaryDirectory() as outputs:
        out, errors = Path(outputs, "out"), Path(outputs, "errors")
        process = start_script(script, arguments, folder, environment, out, errors)
        process.join()
        texts = (path.read_text(encoding="utf-8") for path in (out, errors))
        return CompletedProcess([str(script), *arguments], process.exitcode, *texts)


def start_script(
    script: Path,
    arguments: list[str],
    folder: Path,
    environment: Mapping[str, str],
    out: Path,
    errors: Path,
) -> BaseProcess:
    """Starts a script whose output goes into two files."""
    return start(_run, script, arguments, folder, dict(environment), out, errors)


def redirect(out: Path, errors: Path) -> None:
    """Lets this process write into two files."""
    for stream, path in ((sys.stdout, out), (sys.stderr, errors)):
        with path.open("w") as file:
            os.dup2(file.fileno(), stream.fileno())


def _run(
    script: Path,
    arguments: list[str],
    folder: Path,
    environment: dict[str, str],
    out: Path,
    errors: Path,
) -> None:
    import torch

    from xnmt_bench import registry

    redirect(out, errors)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    # Packages in its path are found as a new Python would find them.
    sys.path[1:1] = [*filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    invalidate_caches()
    registry.installed.cache_clear()
    # OpenMP read its environment when the server began.
    torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))
    sys.argv = [str(script), *arguments]
    runpy.run_path(str(script), run_name="__main__")
