"""Commands in processes forked from one server, which has imported what takes seconds to import."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from collections.abc import Callable, Mapping
from importlib import invalidate_caches
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory

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
        "warm",
    ]
)


def start(target: Callable[..., None], *arguments: object) -> BaseProcess:
    """Starts a function in a new process."""
    folder, path = str(Path(__file__).parent), os.environ.get("PYTHONPATH")
    # The server takes no other path from here, and has to find `warm`.
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *([path] if path else [])])
    try:
        forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH")
        if path is not None:
            os.environ["PYTHONPATH"] = path
    process = server.Process(target=target, args=arguments)
    process.start()
    return process


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
