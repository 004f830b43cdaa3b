"""Distributions beside each other, in parts: they are as wide as the vocabulary."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.nmt.base import NMTModel


def beside_references(
    model: NMTModel, states_RD: Tensor, references_ND: Tensor, reference_R: np.ndarray
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the distributions of some rows at a time, and those of their references, (P, V) each.

    Args:
        model: whose states they are.
        states_RD: of the rows.
        references_ND: states that rows are compared with.
        reference_R: the reference of each row. Rows of one reference should follow each other,
            since a reference's distribution is computed once for each part that has it.
    """
    rows = model.output_rows(states_RD)
    for start in range(0, len(reference_R), rows):
        part = slice(start, start + rows)
        distinct_N, place_P = (
            torch.as_tensor(x, device=states_RD.device)
            for x in np.unique(reference_R[part], return_inverse=True)
        )
        of_reference_NV = model.logits(references_ND[distinct_N]).softmax(-1)
        yield model.logits(states_RD[part]).softmax(-1), of_reference_NV[place_P]
