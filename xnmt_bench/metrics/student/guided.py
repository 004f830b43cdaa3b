"""A Transformer whose attention to the source is guided by maps.

Shapes: as in `nmt.base`; U rows of a map, X decoder inputs, E dimensions of a head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch.nn.functional as F
from torch import Tensor

from xnmt_bench.corpora.vocabulary.subwords import Subwords
from xnmt_bench.errors import NotApplicable
from xnmt_bench.nmt.batch import Batch, Encoding
from xnmt_bench.nmt.blocks import Blocks
from xnmt_bench.nmt.transformer import Memory, MultiHeadAttention, Transformer, energies

Operator = Literal["add", "multiply", "average", "replace"]


@dataclass(frozen=True, kw_only=True)
class GuidedBatch(Batch):
    """Sentence pairs with their maps.

    Attributes:
        map_BUS: how much each step is to look at each source id; rows sum to 1.
    """

    map_BUS: Tensor

    def take(self, rows: list[int]) -> GuidedBatch:
        """Return some of the sentences with their maps."""
        taken = super().take(rows)
        # Fewer sentences may need less padding, and the map follows.
        map_BUS = self.map_BUS[rows][..., : taken.source_BS.shape[1]]
        return GuidedBatch(**vars(taken), map_BUS=map_BUS)

    def _changed(self, change: Any) -> GuidedBatch:
        return GuidedBatch(**vars(super()._changed(change)), map_BUS=change(self.map_BUS))


class GuidedMemory(NamedTuple):
    """What a guided layer attends to of the source.

    Attributes:
        keys_values: of it; (B, S, 2D).
        mask: True where attention is allowed, broadcast to (B, H, X, S).
        weights: where the weights (B, H, X, S) are appended, or None.
        map_BXS: how much each input is to look at each source id.
    """

    keys_values: Tensor
    mask: Tensor
    weights: list[Tensor] | None
    map_BXS: Tensor


def guide(operator: Operator, energy_BHXS: Tensor, map_BXS: Tensor) -> Tensor:
    """Return attention's weights A with a map M, (B, H, X, S).

    Nourbakhsh et al. (2026) name the four operators; these formulas are ours: `add` A + M,
    `multiply` A M, divided by its sum, `average` (A + M) / 2, `replace` M. So rows of `add` sum to
    2, and those of the others to 1.

    Args:
        operator: which.
        energy_BHXS: the weights before the softmax.
        map_BXS: the same map for every head.
    """
    map_B1XS = map_BXS[:, None]
    if operator == "replace":
        # Nothing of the student's own attention is left, so heads differ only in their values.
        return map_B1XS.expand_as(energy_BHXS)
    if operator == "multiply":
        # Before the softmax, so that a small product does not vanish before it is divided.
        return (energy_BHXS + map_B1XS.log()).softmax(-1)
    summed_BHXS = energy_BHXS.softmax(-1) + map_B1XS
    return summed_BHXS / 2 if operator == "average" else summed_BHXS


class GuidedAttention(MultiHeadAttention):
    """Attention to the source whose weights a map changes."""

    def __init__(self, dimension: int, heads: int, dropout: float, operator: Operator) -> None:
        super().__init__(dimension, heads, dropout)
        self.operator = operator

    def look(self, memory: GuidedMemory, query_BXD: Tensor) -> Tensor:  # type: ignore[override]
        """Return guided attention to the source, (B, X, D)."""
        query_BHXE, key_BHSE, value_BHSE = self.split_heads(query_BXD, memory.keys_values)
        energy_BHXS = energies(query_BHXE, key_BHSE, memory.mask)
        weights_BHXS = guide(self.operator, energy_BHXS, memory.map_BXS)
        if memory.weights is not None:
            memory.weights.append(weights_BHXS)
        # As the unguided attention drops weights, so that students differ only by the map.
        dropped_BHXS = F.dropout(weights_BHXS, self.dropout, self.training)
        return self.join_heads(dropped_BHXS @ value_BHSE)


class GuidedTransformer(Transformer):
    """The student: a Transformer that reads a map of each sentence with its words.

    Args:
        source_subwords: the source vocabulary.
        target_subwords: the target vocabulary.
        operator: how the map changes attention to the source; None for a student without maps.
        sizes: of the Transformer, by its arguments' names.
    """

    def __init__(
        self,
        source_subwords: Subwords,
        target_subwords: Subwords,
        operator: Operator | None,
        **sizes: Any,
    ) -> None:
        super().__init__(source_subwords, target_subwords, **sizes)
        self.operator = operator
        if operator is not None:
            for layer in self.decoder:
                free: MultiHeadAttention = layer.cross_attention  # type: ignore[assignment]
                size = (free.query.in_features, free.heads, free.dropout)
                guided = GuidedAttention(*size, operator)
                # Every student of a seed starts from the same weights.
                guided.load_state_dict(free.state_dict())
                layer.cross_attention = guided

    def encode_batch(self, batch: Batch) -> Encoding:
        """Return the encoding of a batch, with its maps if the student reads any."""
        encoding = self.encode(self.embed_source(batch.source_BS), batch.layout)
        if self.operator is None:
            return encoding
        assert isinstance(batch, GuidedBatch)
        # In `extra`, which a beam's choice of rows carries along.
        return replace(encoding, extra=(*encoding.extra, batch.map_BUS))

    def memories(
        self, encoding: Encoding, positions: Tensor, weights: list[Tensor] | None = None
    ) -> list[Memory]:
        """Return what each decoder layer attends to, with the rows of the map of each input.

        A translation that is longer than its map goes on with the map's last row, that of EOS.
        """
        if self.operator is None:
            return super().memories(encoding, positions, weights)
        *keys_values, map_BUS = encoding.extra
        rows, steps, words = map_BUS.shape
        # By position and not by order of calls, since a beam reads one step at a time.
        row_BX = positions.expand(rows, -1).clamp(max=steps - 1)
        map_BXS = map_BUS.gather(1, row_BX[..., None].expand(-1, -1, words))
        mask = encoding.layout.attended_BS[:, None, None]
        return [GuidedMemory(layer, mask, weights, map_BXS) for layer in keys_values]  # type: ignore[misc]

    def attention_blocks(self, batch: Batch) -> Blocks:
        """Refuse: a block's parts do not know of maps.

        Raises:
            NotApplicable: always.
        """
        raise NotApplicable("a student's attention to the source is not its own")

    def states(self, batch: Batch) -> Tensor:
        """Return decoder states (B, T, D) of every step under teacher forcing, from ids."""
        return self.decode(self.encode_batch(batch), self.embed_target(batch.input_BT))
