"""What every model's `prefix` has to be, against `decode`."""

import torch


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
    same(torch.cat(parts, 1)[there], whole_BTD[there], tolerance)
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
        same(read_states[there[rows, start:]], expected[there[rows, start:]], tolerance)
        assert not torch.equal(read_states, whole_BTD[rows, start:])
        other_RTD = input_BTD[rows]
    # Nothing that a fork has read shows in the prefix.
    again = prefix.fork(steps // 2, torch.arange(len(input_BTD)))
    again = again.read(input_BTD[:, steps // 2 :])
    same(
        again[there[:, steps // 2 :]], whole_BTD[:, steps // 2 :][there[:, steps // 2 :]], tolerance
    )


def same(actual, expected, tolerance):
    """Equal relative to the greatest value."""
    assert (actual - expected).abs().max() <= tolerance * expected.abs().max()
