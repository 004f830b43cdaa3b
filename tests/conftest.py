"""Small real systems for all tests, and the paths of real data."""

from __future__ import annotations

import copy
import gc
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import faster
import forked
import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from safetensors import safe_open

from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data"
WEIGHTS = ROOT / "tests" / "fixtures" / "systems"
SYSTEMS = ("transformer", "rnn_search")
CONTEXT_AWARE = ("multi_encoder", "cadec", "s_hier_to_2")
# A system that has learnt enough of the toy corpus for its explanations to mean something.
SMALL = [
    "corpus.train=3000",
    "corpus.valid=60",
    "corpus.test=100",
    "corpus.subwords.source_size=500",
    "corpus.subwords.target_size=600",
    "rules.train_sentences=300",
    "rules.shard_sentences=150",
    "rules.largest_k=3",
    "nmt.training.max_epochs=8",
    "nmt.training.batch_tokens=800",
    "nmt.training.learning_rate=0.003",
    "nmt.training.warmup_steps=200",
    "proxy.training.max_epochs=6",
    "trainer.progress_bar=false",
    "device=cpu",
    "threads=1",
]
# Trains in seconds, and knows nothing: what holds by construction holds of it too.
GENERATED = [
    "corpus=toy_discourse", "corpus.train=400", "corpus.valid=30", "corpus.test=30",
    "corpus.families=5", "corpus.subwords.source_size=300", "corpus.subwords.target_size=300",
    "nmt.sizes.dimension=32", "nmt.training.max_epochs=1", "nmt.training.batch_tokens=1500",
    "nmt.beam=1", "trainer.progress_bar=false", "device=cpu", "threads=1",
]  # fmt: skip
TRANSFORMER = ["nmt.sizes.feed_forward=32", "nmt.sizes.layers=1"]
DISCOURSE = [*GENERATED, *TRANSFORMER]
DISCOURSE_SIZES = {
    "multi_encoder": TRANSFORMER,
    "cadec": [*TRANSFORMER, "nmt.sizes.second_layers=2"],
    "s_hier_to_2": ["nmt.sizes.encoder_hidden=24", "nmt.sizes.decoder_hidden=40"],
}
SIZES = {
    "transformer": [
        "nmt.sizes.dimension=64",
        "nmt.sizes.feed_forward=128",
        "nmt.sizes.dropout=0",
        "nmt.training.max_epochs=6",
        "nmt.training.batch_tokens=1000",
        "nmt.training.learning_rate=0.005",
        "nmt.training.warmup_steps=80",
    ],
    "rnn_search": [
        "nmt.sizes.dimension=64",
        "nmt.sizes.encoder_hidden=64",
        "nmt.sizes.decoder_hidden=96",
        "nmt.training.max_epochs=6",
        "nmt.training.learning_rate=0.008",
        "nmt.training.warmup_steps=100",
    ],
}


def overrides(system: str) -> list[str]:
    """The command line of a small job."""
    return [f"nmt={system}", *SMALL, *SIZES[system]]


def configure(*changes: str) -> DictConfig:
    """The configuration of a command line."""
    return pickle.loads(_composed(changes))


@cache
def _composed(changes: tuple[str, ...]) -> bytes:
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return pickle.dumps(compose("config", overrides=list(changes)))


def command(script: str, *changes: str, fresh: bool = False, **more) -> subprocess.CompletedProcess:
    """Runs train.py or evaluate.py as a user does.

    Args:
        script: which of the two.
        changes: its arguments.
        fresh: in a new Python instead of a fork: where it is about what Python imports, and for
            joblib, whose processes outlive a fork by minutes.
        more: `env`, added to the environment, and `cwd`.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **more.pop("env", {})}
    if not fresh:
        folder = more.pop("cwd", Path.cwd())
        assert not more
        return forked.run(ROOT / script, [*changes], folder, environment)
    return subprocess.run(
        [sys.executable, str(ROOT / script), *changes],
        env=environment,
        capture_output=True,
        text=True,
        **more,
    )


def pytest_configure(config):
    """Start the server of commands for all workers, before they are started."""
    if config.getoption("numprocesses", None) and forked.ADDRESS not in os.environ:
        forked.start_server()


def pytest_runtest_setup(item):
    """Skip a test where a folder or file of `shared/data` that it reads is absent."""
    for mark in item.iter_markers("shared"):
        for name in mark.args:
            if not (DATA / name).exists():
                pytest.skip(f"needs shared/data/{name}")


def pytest_collection_finish():
    """Let no collection look again through all that the tests have imported."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def one_thread():
    """Two threads in two processes on two cores are slower than one each."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def session_folder(tmp_path_factory) -> Path:
    """A folder of the whole session, shared between the workers of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    # Each worker's base is a folder inside the session's own.
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base


@pytest.fixture(scope="session")
def workplace(session_folder) -> Path:
    """One store for the whole session, with the systems of `SYSTEMS` in it."""
    folder = session_folder / "workplace"
    for name in SYSTEMS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("xnmt_bench.fitting.fit", partial(take_stored_weights, name))
            trained(name, folder)
    return folder


def take_stored_weights(name: str, build, *_, **__):
    """Stands for the training of a system: gives the weights and facts of `fixtures/systems`.

    A training gives other weights on another processor, and tests look at what weights give.
    """
    module = build()
    with safe_open(WEIGHTS / f"{name}.safetensors", "pt") as file:
        weights = {key: file.get_tensor(key) for key in module.model.state_dict()}
        module.model.load_state_dict(weights)
        return module.eval(), json.loads(file.metadata()["facts"])


@pytest.fixture(scope="session", autouse=True)
def composed_once(session_folder):
    """Processes of a session compose a configuration once for all of them."""
    folder = session_folder / "composed"
    folder.mkdir(exist_ok=True)
    os.environ[faster.KEPT] = str(folder)


@pytest.fixture(scope="session", params=SYSTEMS)
def system(request, workplace):
    """A job on each of `SYSTEMS`."""
    return trained(request.param, workplace)


@pytest.fixture(scope="session")
def transformer(workplace):
    """The Transformer's alone, where the other system would show nothing more."""
    return trained("transformer", workplace)


def trained(name: str, workplace: Path):
    """A job on a system that was trained on the toy corpus."""
    from xnmt_bench.pipeline.job import Job

    torch.set_num_threads(1)
    job = Job(configure(*overrides(name), f"store={workplace}/store", "corpus.seed=0"))
    _ = job.system.trained.artefact  # here, before a test changes what decides its fingerprint
    return job


def context_aware(name: str, workplace: Path, *changes: str):
    """A job on a small context-aware system, trained on generated documents."""
    from xnmt_bench.pipeline.job import Job

    torch.set_num_threads(1)
    store = f"store={workplace}/store"
    initial = []
    if name != "s_hier_to_2":
        first = Job(configure("nmt=transformer", *DISCOURSE, store))
        initial = [f"nmt.initial={first.system.path}"]
    sizes = DISCOURSE_SIZES[name]
    job = Job(configure(f"nmt={name}", *GENERATED, *sizes, *initial, store, *changes))
    _ = job.system.trained.artefact
    return job


def batch_of(split: EncodedSplit, indices) -> Batch:
    """Some sentences of a split."""
    return Batch.collate([(split.source[i], split.target[i]) for i in indices])


@pytest.fixture
def generated_anew(monkeypatch):
    """Let toy corpora make their sentences each time, as they do outside of tests."""
    monkeypatch.setattr(ToyCorpus, "sentences", faster.generate)


def double(model: NMTModel) -> NMTModel:
    """A copy in float64, where rounding hides nothing."""
    return copy.deepcopy(model).double().eval().requires_grad_(False)


@pytest.fixture
def unmade(monkeypatch):
    """Lets the store name the artefacts of some stages without making them.

    For tests of what decides a fingerprint, which is known before hours of work.
    """
    from xnmt_bench.store import Store

    make = Store.make

    def leave(*stages):
        def name(self, stage):
            if stage.name not in stages:
                return make(self, stage)
            return SimpleNamespace(path=stage.folder, fingerprint=stage.fingerprint)

        monkeypatch.setattr(Store, "make", name)

    return leave


class Hostile:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium, driven by Selenium."""
    webdriver = pytest.importorskip("selenium.webdriver")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (program and driver):
        pytest.skip("no chromium and chromedriver are installed")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(argument)
    service = webdriver.ChromeService(executable_path=driver)
    opened = webdriver.Chrome(options=options, service=service)
    yield opened
    opened.quit()


@contextmanager
def screen(browser, width: int, scheme: str) -> Iterator[None]:
    """Give a browser a window of some width, whose reader likes `light` or `dark` pages."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def make_scarce(monkeypatch, model, method, argument, most=200):
    """Lets a method of a model run out of memory beyond some positions; the shapes it refused."""
    given, refused = getattr(model, method), []

    def scarce(*arguments):
        rows, positions = arguments[argument].shape[:2]
        if rows * positions > most:
            refused.append((rows, positions))
            raise torch.OutOfMemoryError
        return given(*arguments)

    monkeypatch.setattr(model, method, scarce)
    return refused
