"""Where and how much at once: the device, precision, and what is done when memory runs out."""

import csv
import logging
import re
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

from proxies.scoring import log_likelihoods
from support.configurations import configure, overrides
from support.forked_commands import command, must_run
from support.systems import batch_of, make_scarce, trained
from xnmt_bench import load_model
from xnmt_bench.corpora.vocabulary.encoded import EncodedSide, EncodedSplit
from xnmt_bench.corpora.vocabulary.subwords import EOS
from xnmt_bench.device import (
    FEWEST,
    KINDS,
    Room,
    arithmetic,
    available_memory,
    device_of,
    find_device,
    move,
)
from xnmt_bench.errors import ConfigError, NotApplicable
from xnmt_bench.explainers.base import decide
from xnmt_bench.judges import RuleSet
from xnmt_bench.judges.masked import base_log_likelihoods
from xnmt_bench.judges.own import Own
from xnmt_bench.judges.trained_proxy import decisions_of
from xnmt_bench.pipeline.job import Job
from xnmt_bench.registry import entries, load_explainer
from xnmt_bench.rules import extract
from xnmt_bench.rules.states import write_states
from xnmt_bench.rules.table import read_columns
from xnmt_bench.store import Store
from xnmt_bench.trainer import TrainerOptions

CPU = torch.device("cpu")
METRICS = "metric=[causes,erasure,infidelity,robustness,soft]"  # they ask the model
NUMBER = re.compile(r"-?\d+\.\d+(e-?\d+)?")  # of a result, and no count or seed
# Results on MPS were never compared.
GPU = next((k for k in KINDS if k != "mps" and torch.get_device_module(k).device_count()), None)
NO_GPU = pytest.mark.skipif(GPU is None, reason="there is no GPU here")


def test_auto_is_a_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.mps, "device_count", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_device("auto") == torch.device("cuda")
    assert find_device("cuda:1") == torch.device("cuda", 1)
    assert find_device("cpu") == CPU
    with pytest.raises(ConfigError, match="device=cuda:2: torch finds 2 cuda device"):
        find_device("cuda:2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert find_device("auto") == CPU
    monkeypatch.setattr(torch.mps, "device_count", lambda: 1)
    assert find_device("auto") == torch.device("mps")


def test_a_gpu_computes_in_float32_whatever_the_environment_says(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    rooms = (torch.backends.cuda.matmul, torch.backends.cudnn)
    for room in rooms:
        room.allow_tf32 = True
    find_device("cuda")
    assert not any(room.allow_tf32 for room in rooms)  # as the CPU's tests leave them too


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("script", ["train.py", "evaluate.py"])
def test_a_device_that_is_not_there_is_one_line(script, tmp_path):
    done = command(script, "device=cuda", f"store={tmp_path}", f"results={tmp_path}", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip() == "error: device=cuda: torch finds no cuda device here"
    done = command(script, "device=gpu", cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "device='gpu': should be auto, cpu, cuda, cuda:1" in done.stderr


def test_shared_weights_stay_shared_on_a_device_that_copies_each(monkeypatch):
    """Some devices are given a new parameter for each module that a weight stands in."""
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False), nn.Linear(3, 3))
    model[1].weight = model[0].weight

    def to(device):
        for module in model:
            module.weight = nn.Parameter(module.weight.detach().clone())
        return model

    monkeypatch.setattr(model, "to", to)
    before = model[0].weight
    assert move(model, CPU) is model
    assert model[1].weight is model[0].weight is not before
    assert len(list(model.parameters())) == 3


def test_the_device_is_in_no_recipe(transformer):
    elsewhere = TrainerOptions(torch.device("meta"), progress_bar=False)
    on_gpu = transformer.settings.changed({"device": "cuda"})
    jobs = [Job(transformer.settings), Job(on_gpu, elsewhere)]
    assert jobs[0].system.trained.fingerprint == jobs[1].system.trained.fingerprint
    assert jobs[0].system.path == jobs[1].system.path  # found, since nothing is trained there


def test_room_on_the_cpu_is_fixed_and_elsewhere_follows_free_memory(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (2**34, 2**37))
    assert Room(None, cpu=512, each=2**20).on(CPU) == 512
    assert Room(None, cpu=512, each=2**20).on(torch.device("cuda")) == 2**14
    assert Room(None, cpu=512, each=2**30).on(torch.device("cuda")) == 512
    both = Room(None, cpu=512, each=2**20)
    assert [both.on(torch.device(kind)) for kind in ("cuda", "cpu", "cuda")] == [2**14, 512, 2**14]
    for device in (CPU, torch.device("cuda")):
        assert Room(77, cpu=512, each=2**20).on(device) == 77


def test_where_memory_runs_out_it_is_halved_for_good(caplog):
    room, sizes = Room(1000, cpu=1, each=1), []

    def work(size):
        sizes.append(size)
        if size > 300:
            raise torch.OutOfMemoryError
        return size

    with caplog.at_level(logging.WARNING):
        assert [room.tried(CPU, work) for _ in range(2)] == [250, 250]
    assert sizes == [1000, 500, 250, 250]
    assert [r.args for r in caplog.records] == [(1000, 500), (500, 250)]
    with pytest.raises(torch.OutOfMemoryError):
        Room(FEWEST, cpu=1, each=1).tried(CPU, lambda _: work(301))


@pytest.mark.parametrize(
    "message",
    [
        "MPS backend out of memory (MPS allocated: 17.66 GB)",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "[enforce fail] DefaultCPUAllocator: can't allocate memory",
    ],
)
def test_whoever_says_that_memory_ran_out(message):
    def work(size):
        if size > 300:
            raise RuntimeError(message)
        return size

    assert Room(400, cpu=1, each=1).tried(CPU, work) == 200


def test_another_error_is_told_as_it_is():
    def work(_):
        raise RuntimeError("the sizes of tensors must match")

    with pytest.raises(RuntimeError, match="must match"):
        Room(400, cpu=1, each=1).tried(CPU, work)


@pytest.mark.parametrize("name, most", [("prediction_difference", 200), ("weighted_gradient", 24)])
def test_an_explainer_goes_on_with_less(transformer, name, most, monkeypatch):
    model, split = transformer.system.model, transformer.texts.split("test")
    batch, _ = decide(model, batch_of(split, range(6)))
    expected = load_explainer(name, positions=200).relevance(model, batch)
    refused = make_scarce(monkeypatch, model, "encode", 0, most)
    relevance = load_explainer(name, positions=4000).relevance(model, batch)
    assert refused
    torch.testing.assert_close(relevance.source_BTS, expected.source_BTS, equal_nan=True)


def test_an_extraction_goes_on_with_smaller_batches(transformer, tmp_path, monkeypatch):
    model, split = transformer.system.model, transformer.texts.split("test")
    options = extract.ExtractionOptions(largest_k=1, shard_sentences=40, batch_tokens=2000)
    extracted = []
    for most in (10**9, 300):

        def limited(pairs, most=most):
            if sum(len(y) for _, y in pairs) > most:
                raise torch.OutOfMemoryError
            return type(model).collate(model, pairs)

        monkeypatch.setattr(model, "collate", limited)
        folder = tmp_path / str(most)
        (folder / "test").mkdir(parents=True)
        attention = load_explainer("attention")
        for _ in extract.extract(model, split, 80, attention, options, folder, "test", False):
            pass
        extracted.append([read_columns(p) for p in sorted(folder.rglob("*.parquet"))])
    for at_once, other in zip(*extracted, strict=True):
        assert (at_once["label"] == other["label"]).all()
        np.testing.assert_allclose(at_once["source_scores"], other["source_scores"], rtol=1e-4)


def test_a_shard_that_is_held_at_once_is_not_padded_to_its_longest(transformer):
    lengths = [5] * 1000 + [80] * 100
    sides = [EncodedSide.of([[7] * (n - 1) + [EOS] for n in lengths]) for _ in range(2)]
    split = EncodedSplit(*sides, np.arange(len(lengths)))
    numbered_batches = extract.batches(transformer.system.model, split, range(len(lengths)), 10**6)
    indices, batches = zip(*numbered_batches, strict=True)
    assert sorted(i for some in indices for i in some) == list(range(len(lengths)))
    assert sum(batch.target_BT.numel() for batch in batches) < 1.2 * sum(lengths)


def test_bf16_rounds_the_relevance_and_not_the_labels(transformer):
    changes = [*overrides("transformer"), f"store={transformer.settings.store}", "corpus.seed=0",
               "rules.test_sentences=40"]  # fmt: skip
    jobs = [
        Job(configure(*changes, "explainer=weighted_gradient", f"rules.precision={precision}"))
        for precision in (32, "bf16")
    ]
    exact, short = (RuleSet(job).test for job in jobs)
    assert jobs[1].explained.name == "weighted_gradient[precision=bf16]"
    assert (exact.label_N == short.label_N).all()
    assert (exact.probability_N == short.probability_N).all()
    assert 0.8 < (exact.source_NK[:, 0] == short.source_NK[:, 0]).mean() < 1


def test_an_lstm_is_of_float32_in_bf16_too(workplace):
    job = trained("rnn_search", workplace)
    model, batch = job.system.model, batch_of(job.texts.split("test"), range(3))
    cast = []  # on a CPU nothing is cast in any case, so the test reads the dtype of the call
    hook = model.encoder.register_forward_pre_hook(
        lambda *_: cast.append(torch.is_autocast_enabled("cpu"))
    )
    with torch.no_grad(), arithmetic("bf16", CPU):
        model.encode(model.embed_source(batch.source_BS), batch.layout)
    hook.remove()
    assert cast == [False]


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(entries("explainers")))
def test_every_explainer_works_in_bf16(system, name):
    model, split = system.system.model, system.texts.split("test")
    few = {"integrated_gradients": {"points": 3}, "shapley": {"permutations": 2}}
    explainer = load_explainer(name, **few.get(name, {}))
    if explainer.needs_gold:
        pytest.skip("it never asks the model")
    explainer.learnt = explainer.prepare(system.texts.split("train"))
    batch, _ = decide(model, batch_of(split, range(2)))
    batch = batch.take([0, 1])  # without the pass that gave the labels
    try:
        exact = explainer.relevance(model, batch).source_BTS
    except NotApplicable as reason:
        pytest.skip(str(reason))
    with arithmetic("bf16", CPU):
        short = explainer.relevance(model, batch).source_BTS
    assert torch.equal(exact.isnan(), short.isnan())
    scale = exact.nan_to_num().abs().max()
    assert (exact - short).nan_to_num().abs().max() < 0.3 * scale
    assert torch.equal(exact.nan_to_num(), short.nan_to_num()) == explainer.blind


def test_tf32_is_of_gpus_alone():
    with pytest.raises(ConfigError, match="tf32 needs a GPU; this job runs on cpu"):
        Job(configure("rules.precision=tf32", "device=cpu"))
    before = torch.backends.cuda.matmul.allow_tf32
    with arithmetic("tf32", CPU):
        assert torch.backends.cuda.matmul.allow_tf32
        assert torch.backends.cudnn.allow_tf32
        assert torch.backends.cudnn.enabled
    assert torch.backends.cuda.matmul.allow_tf32 == before


def test_a_loaded_model_is_where_it_is_asked_to_be(transformer):
    assert device_of(load_model(transformer.system.path)) == CPU
    assert device_of(load_model(transformer.system.path, device="cpu")) == CPU
    with pytest.raises(ConfigError, match="device=cuda:99"):
        load_model(transformer.system.path, device="cuda:99")


# Other tests run Shapley values and integrated gradients in full; the options below draw less.
OPTIONS = [
    *((name, {}) for name in sorted(entries("explainers"))),
    *((name, {"of": of, "foil": foil})
      for name in ("gradient_norm", "weighted_gradient", "prediction_difference")
      for of, foil in (("logit", None), ("log_probability", None), ("probability", "second"))),
    ("integrated_gradients", {"points": 3, "foil": "second", "of": "logit"}),
    ("shapley", {"permutations": 2, "removal": "mean"}),
    ("lime", {"samples": 20, "removal": "attention"}),
    ("gradient_norm", {"norm": "l2"}),
    *(("prediction_difference", {"removal": removal}) for removal in ("unk", "mean", "attention")),
    *((name, {"layer": None, "heads": 1})
      for name in ("attention_norm", "rollout", "alti", "value_zeroing")),
    ("attention", {"heads": "max"}),
    ("cp_lrp", {"foil": "second"}),
]  # fmt: skip


@NO_GPU
@pytest.mark.parametrize(
    ("name", "options"),
    OPTIONS,
    ids=lambda x: x if isinstance(x, str) else "-".join(map(str, x.values())),
)
def test_a_gpu_gives_what_the_cpu_gives(system, name, options):
    split, explainer = system.texts.split("test"), load_explainer(name, **options)
    if explainer.needs_gold:
        pytest.skip("it never asks the model")
    explainer.learnt = explainer.prepare(system.texts.split("train"))
    by_device = []
    for device in ("cpu", GPU):
        model = load_model(system.system.path, device=device)
        pairs = [(split.source[i], split.target[i]) for i in range(40)]
        batch, _ = decide(model, model.collate(pairs))
        with arithmetic(32, device_of(model)):
            try:
                by_device.append(explainer.relevance(model, batch))
            except NotApplicable as reason:
                assert device == "cpu", "there it is no reason of the system's"
                pytest.skip(str(reason))
    for side in ("source_BTS", "prefix_BTT"):
        here, there = (getattr(relevance, side) for relevance in by_device)
        if here is None:
            continue
        there = there.cpu()
        assert torch.equal(here.isnan(), there.isnan())
        # A difference of probabilities is rounded as probabilities are.
        scale = 1.0 if name == "prediction_difference" else here.nan_to_num().abs().max()
        assert (here - there).nan_to_num().abs().max() < 1e-4 * scale
        defined = ~here.isnan().all(-1)
        best = [x.nan_to_num(-torch.inf).argmax(-1)[defined] for x in (here, there)]
        assert (best[0] == best[1]).float().mean() > 0.999


@NO_GPU
def test_a_pipeline_on_a_gpu_stores_what_its_weights_give_on_a_cpu(tmp_path):
    store, results = f"store={tmp_path}/store", f"results={tmp_path}/results"
    changes = [*overrides("transformer"), store, results, "rules.test_sentences=20"]
    on_gpu = [f"device={GPU}" if change == "device=cpu" else change for change in changes]
    must_run("train.py", *on_gpu, cwd=tmp_path)
    # A device decides no artefact, so that the same store has all that the GPU made.
    job = Job(configure(*changes), store=Store(tmp_path / "store", may_make=False))
    rules, proxy = RuleSet(job), Own(RuleSet(job))
    expected, _ = log_likelihoods(proxy.open(), decisions_of(rules.test))
    np.testing.assert_allclose(proxy.scores().log_likelihood_N, expected, rtol=1e-3, atol=1e-3)
    split, first = job.texts.split("test"), rules.test.sentence_N == rules.test.sentence_N[0]
    index = split.number.tolist().index(int(rules.test.sentence_N[0]))
    _, log_p_BT = decide(job.system.model, batch_of(split, [index]))
    np.testing.assert_allclose(rules.test.probability_N[first], log_p_BT[0].exp(), rtol=1e-3)


@NO_GPU
def test_metrics_that_ask_the_model_on_a_gpu_give_the_cpus_numbers(transformer, tmp_path):
    rows = []
    for device in ("cpu", GPU):
        store, results = tmp_path / f"{device}.store", tmp_path / f"{device}.results"
        # One system, and nothing else that the other device made.
        for stage in ("subwords", "encoded", "nmt"):
            shutil.copytree(transformer.store.root / stage, store / stage)
        must_run(
            "train.py", "-m", *[c for c in overrides("transformer") if c != "device=cpu"],
            f"device={device}", f"store={store}", f"results={results}", "rules.test_sentences=6",
            METRICS, "metric.erasure.limited=1",
            "metric.infidelity.samples=10", "metric.robustness.depths=2",
            "explainer=noisy,exchanged",
            "explainer.phi.of=gradient_norm", f"hydra.sweep.dir={tmp_path}/{device}",
            cwd=tmp_path,
        )  # fmt: skip
        must_run("evaluate.py", f"results={results}", METRICS, cwd=tmp_path)
        by_key = {}
        for path in sorted(results.glob("*.csv")):
            for line in csv.DictReader(path.open()):
                values = {k: float(v) for k, v in line.items() if NUMBER.fullmatch(v)}
                by_key[path.name, line["explainer"], line.get("removal", "")] = values
        rows.append(by_key)
    assert len({name for name, _, _ in rows[0]}) == 5
    assert rows[0].keys() == rows[1].keys()
    for key, values in rows[0].items():
        assert values == pytest.approx(rows[1][key], rel=2e-3, abs=2e-3), key


def test_states_go_on_with_less(transformer, tmp_path, monkeypatch):
    model, split = transformer.system.model, transformer.texts.split("test")
    expected = write_states(model, split, 20, tmp_path / "whole")
    refused = make_scarce(monkeypatch, model, "encode", 0)
    room = Room(4000, cpu=1024, each=1)
    monkeypatch.setattr("xnmt_bench.rules.states.states_room", lambda: room)
    states = write_states(model, split, 20, tmp_path / "parts")
    assert refused
    np.testing.assert_allclose(states, expected, rtol=1e-4, atol=1e-5)


def scored(job, store):
    pairs = [(s.source, s.target) for s in job.texts.sentences("test", 20)]
    job.store = store
    return pq.read_table(job.scored(pairs).path / "scores.parquet")["log_probability"].to_numpy()


def translated(job, store):
    translations = job.translations()
    translations._store = store
    text = (translations.made("test").path / "test.txt").read_text()
    return np.array([len(line) for line in text.splitlines()])


def judged(job, _):
    return base_log_likelihoods(job.system.model, job.texts.split("test"), RuleSet(job).test)[0]


@pytest.mark.parametrize("work", [scored, translated, judged])
def test_a_stage_goes_on_with_less(transformer, work, tmp_path, monkeypatch):
    job = Job(transformer.settings)
    expected = work(job, Store(tmp_path / "whole"))
    refused = make_scarce(monkeypatch, job.system.model, "encode", 0)
    result = work(job, Store(tmp_path / "parts"))
    assert refused
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_memory_is_that_of_the_machine_and_at_most_the_containers(tmp_path, monkeypatch):
    meminfo, limit = tmp_path / "meminfo", tmp_path / "memory.max"
    monkeypatch.setattr("xnmt_bench.device.MEMINFO", meminfo)
    monkeypatch.setattr("xnmt_bench.device.LIMITS", (limit, tmp_path / "none"))
    assert available_memory(CPU) is None
    meminfo.write_text("MemTotal:  900 kB\nMemAvailable:  500 kB\n")
    assert available_memory(CPU) == 500 * 1024
    limit.write_text("max\n")
    assert available_memory(CPU) == 500 * 1024
    limit.write_text("4096\n")
    assert available_memory(CPU) == 4096
