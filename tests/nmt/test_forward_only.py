"""Linear layers by oneDNN: the same numbers, and only where they pay."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from xnmt_bench.explainers.base import decide
from xnmt_bench.explainers.prediction_difference import PredictionDifference
from xnmt_bench.nmt import forward_only as module
from xnmt_bench.nmt.decoding import translate
from xnmt_bench.nmt.forward_only import LARGE, forward_only
from xnmt_bench.nmt.scoring import log_probability

FUSED, ORDER = "mkldnn::_linear_pointwise", "mkldnn::_reorder_linear_weight"
pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="torch was built without oneDNN"
)


class Called(TorchDispatchMode):
    """How often each operator is called."""

    def __init__(self):
        super().__init__()
        self.names = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names[function._schema.name] += 1
        return function(*args, **(kwargs or {}))


def layer(rows, width=512, dtype=torch.float32, bias=True):
    generator = torch.Generator().manual_seed(0)
    shapes = (2, rows // 2, width), (LARGE // (rows * width), width), (LARGE // (rows * width),)
    x, weight, b = (torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes)
    return x, weight, b if bias else None


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [2, 32, 512])
def test_a_large_layer_is_one_operator_and_the_same_function(rows, bias):
    x, weight, b = layer(rows, bias=bias)
    with forward_only(), Called() as called:
        found = F.linear(x, weight, b)
    assert called.names[FUSED] == 1 and not called.names["aten::addmm"]
    expected = F.linear(*(None if y is None else y.double() for y in (x, weight, b)))
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("part", ["rows", "columns", "steps"])
def test_views_are_read_as_what_they_show(part):
    x, weight, b = layer(256)
    weight, b = torch.cat([weight, weight]), torch.cat([b, b])
    if part == "rows":
        weight, b = weight[7 : 7 + 2 * (len(weight) // 3)], b[7 : 7 + 2 * (len(b) // 3)]
        x = torch.cat([x, x])
    elif part == "columns":
        x, weight = torch.cat([x, x], 1)[..., ::2], weight[:, ::2]
    else:
        x = torch.cat([x, x], 1).transpose(0, 1)
    with forward_only(), Called() as called:
        found = F.linear(x, weight, b)
    assert called.names[FUSED] == 1
    expected = x.double() @ weight.double().T + b
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("why", ["small", "float64", "gradient", "autocast"])
def test_everything_else_goes_where_it_went(why):
    x, weight, b = layer(64, dtype=torch.float64 if why == "float64" else torch.float32)
    if why == "small":
        weight, b = weight[:-1], b[:-1]
    gradient = torch.enable_grad() if why == "gradient" else nullcontext()
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=why == "autocast")
    with forward_only(), gradient, autocast, Called() as called:
        found = F.linear(x, weight, b)
    assert not called.names[FUSED]
    with autocast:
        assert torch.equal(found, F.linear(x, weight, b))


def test_weights_are_put_in_order_once_and_where_they_are_used_again():
    x, weight, b = layer(64)
    expected = x.double() @ weight.double().T + b
    weight = nn.Parameter(weight)
    for uses in (1, 2, 5):
        with forward_only(), Called() as called:
            for _ in range(uses):
                torch.testing.assert_close(
                    F.linear(x, weight, b).double(), expected, rtol=0, atol=1e-4
                )
        assert (called.names[FUSED], called.names[ORDER]) == (uses, int(uses > 1))


def test_weights_that_change_are_put_in_order_anew():
    x, weight, b = layer(64)
    weight = nn.Parameter(weight)
    with forward_only(), Called() as called:
        for factor in (1, -1):
            with torch.no_grad():
                weight.mul_(factor)
            for _ in range(2):
                found = F.linear(x, weight, b)
    assert called.names[ORDER] == 2
    expected = x.double() @ weight.detach().double().T + b
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-4)


def test_weights_that_are_gone_are_not_taken_for_others():
    x, weight, b = layer(64)
    with forward_only():
        for factor in range(1, 6):  # Python gives an id again when its object is gone
            fresh = nn.Parameter(weight * factor)
            for _ in range(3):
                found = F.linear(x, fresh, b)
            expected = x.double() @ weight.double().T * factor + b
            torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-3)
            del fresh


def test_parts_of_weights_and_those_of_inference_mode_are_read_as_they_are():
    x, weight, b = layer(64)
    whole = nn.Parameter(torch.cat([weight, weight]))
    with torch.inference_mode():
        fixed = nn.Parameter(weight.clone())
    with forward_only(), Called() as called:
        for part in (whole[: len(weight)], fixed):
            for _ in range(3):
                found = F.linear(x, part, b)
                expected = x.double() @ weight.double().T + b
                torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-4)
    assert called.names[FUSED] == 6 and not called.names[ORDER]


def test_outside_nothing_is_changed():
    x, weight, b = layer(64)
    with forward_only():
        pass
    with Called() as called, torch.no_grad():
        F.linear(x, weight, b)
    assert not called.names[FUSED]


def test_without_one_dnn_torch_computes(monkeypatch):
    monkeypatch.setattr(module.torch.ops, "mkldnn", object())
    x, weight, b = layer(64)
    with forward_only(), Called() as called:
        found = F.linear(x, weight, b)
    assert not called.names[FUSED] and not found.requires_grad
    assert torch.equal(found, F.linear(x, weight, b))


@pytest.fixture
def everything_is_large(monkeypatch):
    monkeypatch.setattr(module, "LARGE", 0)


PAIRS = [([5, 6, 7, 2], [8, 9, 2]), ([6, 5, 2], [9, 8, 7, 2])]


@pytest.mark.parametrize(
    "work",
    [
        lambda model, batch: PredictionDifference().relevance(model, batch).source_BTS,
        lambda model, batch: decide(model, batch)[1],
        lambda model, batch: log_probability(model, PAIRS, 100)[0],
        lambda model, batch: translate(model, [x for x, _ in PAIRS]),
    ],
    ids=["prediction difference", "labels", "scores", "search"],
)
def test_passes_of_whole_models_go_there(work, transformer, everything_is_large, monkeypatch):
    model = transformer.system.model
    labelled, _ = decide(model, model.collate(PAIRS))
    with Called() as called:
        found = work(model, labelled)
    assert called.names[FUSED] and not called.names["aten::addmm"]
    monkeypatch.setattr(module, "LARGE", torch.inf)
    expected = work(model, labelled)
    if isinstance(found, list):
        assert found == expected
    else:
        torch.testing.assert_close(
            torch.as_tensor(found), torch.as_tensor(expected), equal_nan=True
        )


def test_where_a_gpu_computes_nobody_looks_on(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with forward_only(), Called() as called:
        F.linear(*layer(256))
        assert not torch.is_grad_enabled()
    assert not called.names[FUSED]
