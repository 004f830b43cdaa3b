"""Small trained systems, and their models made exact or short of memory."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import torch
from safetensors import safe_open

from support.configurations import DISCOURSE, DISCOURSE_SIZES, GENERATED, configure, overrides
from support.paths import ROOT
from xnmt_bench.corpora.vocabulary.encoded import EncodedSplit
from xnmt_bench.explainers.base import decide
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch

WEIGHTS = ROOT / "tests" / "fixtures" / "systems"


def take_stored_weights(name: str, build, *_, **__):
    """Stands for the training of a system: gives the weights and facts of `fixtures/systems`.

    A training gives other weights on another processor, and tests look at what weights give.
    """
    module = build()
    with safe_open(WEIGHTS / f"{name}.safetensors", "pt") as file:
        weights = {key: file.get_tensor(key) for key in module.model.state_dict()}
        module.model.load_state_dict(weights)
        return module.eval(), json.loads(file.metadata()["facts"])


def small_job(workplace: Path, name: str, *changes: str):
    """A job on one of `SYSTEMS`."""
    from xnmt_bench.pipeline.job import Job

    return Job(configure(*overrides(name, workplace), *changes))


def trained(name: str, workplace: Path):
    """A job on a system that was trained on the toy corpus."""
    torch.set_num_threads(1)
    job = small_job(workplace, name)
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


def double_and_batch(job, sentences) -> tuple[NMTModel, Batch]:
    """A job's model in float64, and a labelled batch of some of its test sentences."""
    model = double(job.system.model)
    return model, decide(model, batch_of(job.texts.split("test"), sentences))[0]


def double(model: NMTModel) -> NMTModel:
    """A copy in float64, where rounding hides nothing."""
    return copy.deepcopy(model).double().eval().requires_grad_(False)


def make_scarce(monkeypatch, model, method, argument, most=200):
    """Lets a method of a model run out of memory beyond some positions; the shapes it refused."""
    method_of_model, refused = getattr(model, method), []

    def scarce(*arguments):
        rows, positions = arguments[argument].shape[:2]
        if rows * positions > most:
            refused.append((rows, positions))
            raise torch.OutOfMemoryError
        return method_of_model(*arguments)

    monkeypatch.setattr(model, method, scarce)
    return refused
