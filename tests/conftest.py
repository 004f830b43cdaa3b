"""Fixtures of all tests, and what a session of tests starts and skips."""

from __future__ import annotations

import gc
import os
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

# Its assertions show values when they fail, as those of test files do.
pytest.register_assert_rewrite("support")

from support import caches, forked_commands
from support.configurations import STORED, SYSTEMS
from support.paths import DATA
from support.systems import take_stored_weights, trained
from xnmt_bench.corpora.toy import ToyCorpus


def pytest_configure(config):
    """Start the server of commands for all workers, before they are started."""
    if config.getoption("numprocesses", None) and forked_commands.ADDRESS not in os.environ:
        forked_commands.start_server()


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
    """One store for the whole session, with the systems of `STORED` in it."""
    folder = session_folder / "workplace"
    for name in STORED:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("xnmt_bench.fitting.fit", partial(take_stored_weights, name))
            trained(name, folder)
    return folder


@pytest.fixture(scope="session", autouse=True)
def composed_once(session_folder):
    """Processes of a session compose a configuration once for all of them."""
    folder = session_folder / "composed"
    folder.mkdir(exist_ok=True)
    os.environ[caches.KEPT] = str(folder)


@pytest.fixture(scope="session", params=SYSTEMS)
def system(request, workplace):
    """A job on each of `SYSTEMS`."""
    return trained(request.param, workplace)


@pytest.fixture(scope="session")
def transformer(workplace):
    """The Transformer's alone, where the other system would show nothing more."""
    return trained("transformer", workplace)


@pytest.fixture
def generated_anew(monkeypatch):
    """Let toy corpora make their sentences each time, as they do outside of tests."""
    monkeypatch.setattr(ToyCorpus, "sentences", caches.generate)


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
