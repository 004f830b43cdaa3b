"""Laws of every model under explanation: of its prefix, its scores, its state and its relevance."""

import copy

import numpy as np
import pytest
import torch

from xnmt_bench.corpora.vocabulary.subwords import SEPARATOR, current_start
from xnmt_bench.nmt.scoring import log_probability


@torch.no_grad()
def assert_encodes_again(model, batch, tolerance=1e-9):
    """Sources that are other from a place on: what is decoded is as if all were read anew."""
    source_BSD, rows = model.embed_source(batch.source_BS), torch.tensor([1, 0, 1])
    whole, there = model.encode(source_BSD, batch.layout), batch.current_BT[rows]
    input_RTD, layout = model.embed_target(batch.input_BT)[rows], batch.layout.select(rows)
    for start in (1, source_BSD.shape[1] // 2, source_BSD.shape[1] - 2):
        other_RSD = source_BSD[rows].clone()
        other_RSD[:, start] = 0
        again = model.encode_again(whole, rows, start, other_RSD, layout)
        anew = model.encode(other_RSD, layout)
        assert_close(again.states_BSD, anew.states_BSD, tolerance)
        decoded = [model.decode(encoding, input_RTD)[there] for encoding in (again, anew)]
        assert_close(*decoded, tolerance)


@torch.no_grad()
def assert_reads_as_decode(model, batch, tolerance=1e-9):
    """Read in uneven parts, forked to other rows and other inputs: the states are `decode`'s."""
    encoding = model.encode(model.embed_source(batch.source_BS), batch.layout)
    input_BTD = model.embed_target(batch.input_BT)
    whole_BTD = model.decode(encoding, input_BTD)
    there = batch.current_BT  # of a context's steps not every model says something
    prefix, steps, parts, start = model.prefix(encoding), input_BTD.shape[1], [], 0
    for stop in sorted({1, 3, steps // 2, steps}):
        parts.append(prefix.read(input_BTD[:, start:stop]))
        assert prefix.steps == stop
        start = stop
    assert_close(torch.cat(parts, 1)[there], whole_BTD[there], tolerance)
    rows = torch.tensor([2, 0, 2, 1])
    other_RTD = input_BTD[rows]
    for start in (0, 1, steps // 2):
        other_RTD = other_RTD.clone()
        other_RTD[:, start] = 0
        expected = model.decode(encoding.select(rows), other_RTD)[:, start:]
        forked = prefix.fork(start, rows)
        read_states = torch.cat(
            [forked.read(x) for x in other_RTD[:, start:].split(5, dim=1)], dim=1
        )
        assert_close(read_states[there[rows, start:]], expected[there[rows, start:]], tolerance)
        assert not torch.equal(read_states, whole_BTD[rows, start:])
        other_RTD = input_BTD[rows]
    # Nothing that a fork has read shows in the prefix.
    again = prefix.fork(steps // 2, torch.arange(len(input_BTD)))
    again = again.read(input_BTD[:, steps // 2 :])
    assert_close(
        again[there[:, steps // 2 :]], whole_BTD[:, steps // 2 :][there[:, steps // 2 :]], tolerance
    )


def assert_close(actual, expected, tolerance):
    """Equal relative to the greatest value."""
    assert (actual - expected).abs().max() <= tolerance * expected.abs().max()


def assert_same_relevance(actual, expected, scale=None):
    """Equal to 1e-5 of the scale, by default the greatest value; absent in the same places."""
    assert torch.equal(actual.isnan(), expected.isnan())
    scale = scale or torch.nan_to_num(expected).abs().max().clamp_min(1e-6)
    assert (torch.nan_to_num(actual - expected).abs().max() / scale) < 1e-5


def state_of(model):
    hooks = sum(
        len(getattr(m, name))
        for m in model.modules()
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    )
    flags = [(p.requires_grad, p.grad is None) for p in model.parameters()]
    return hooks, flags, [m.training for m in model.modules()], copy.deepcopy(model.state_dict())


def assert_untouched(before, model):
    after = state_of(model)
    assert before[:3] == after[:3]
    for name, weight in before[3].items():
        assert torch.equal(weight, after[3][name]), name


@torch.no_grad()
def assert_scores_alike(model, pairs):
    """Targets that share the encoding of a source, against logits of each pair alone."""
    crossed = [
        (x, y) for x, _ in pairs[:3] for _, y in pairs if count_context(x) == count_context(y)
    ]
    scored, ids = log_probability(model, crossed, 300)
    for (source, target), value, count in zip(crossed, scored, ids, strict=True):
        log_p = model(model.collate([(source, target)]))[0].double().log_softmax(-1)
        own_log_p = log_p[torch.arange(len(target)), torch.as_tensor(np.asarray(target))]
        start = current_start(target)
        assert count == len(target) - start
        assert value == pytest.approx(float(own_log_p[start:].sum()), rel=1e-4, abs=1e-4)


def count_context(ids):
    """Context sentences before the current one."""
    return int((np.asarray(ids) == SEPARATOR).sum())
