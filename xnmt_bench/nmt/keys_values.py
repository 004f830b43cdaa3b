"""Keys and values that a language model has read, part by part, and what goes on from them.

Masks count positions, and not places among the keys: padding, and words that are not read, move no
other word.

Shapes: as in `nmt.causal_lm`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache

from xnmt_bench.corpora.vocabulary.subwords import PAD
from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.base import Prefix, Reader
from xnmt_bench.nmt.batch import Encoding

FULL, SLIDING = "full_attention", "sliding_attention"  # kinds of layers that are read here
# Families whose layers see other keys than their configuration says, or count places of keys.
OTHER_WINDOWS = ("gpt_neo", "moshi")


@dataclass(frozen=True)
class KeysValues:
    """What is kept of inputs that the stack has read.

    Attributes:
        seen_BK: True for keys that states may attend to.
        position_BK: of the keys.
        keys_values: keys and values (B, H, K, E) of each layer in turn.
    """

    seen_BK: Tensor
    position_BK: Tensor
    keys_values: tuple[Tensor, ...]

    @classmethod
    def of(cls, tensors: Sequence[Tensor]) -> Self:
        """Return what `tensors` gave."""
        return cls(tensors[0], tensors[1], tuple(tensors[2:]))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All of it, rows first."""
        return self.seen_BK, self.position_BK, *self.keys_values

    def select(self, rows: Tensor, length: int | None = None) -> KeysValues:
        """Return some rows, cut behind so many keys."""
        seen_BK, position_BK = (x[rows, :length] for x in (self.seen_BK, self.position_BK))
        return KeysValues(
            seen_BK, position_BK, tuple(x[rows, :, :length] for x in self.keys_values)
        )

    @staticmethod
    def join(parts: Sequence[KeysValues], rows: int) -> KeysValues:
        """Return what was read one after another; a part of one row is of all rows."""
        seen_BK, position_BK = join_sides(parts, rows)
        layers = zip(*(part.keys_values for part in parts), strict=True)
        return KeysValues(seen_BK, position_BK, tuple(join_keys(layer, rows) for layer in layers))


def join_sides(parts: Sequence[KeysValues], rows: int) -> tuple[Tensor, Tensor]:
    """Return `seen_BK` and `position_BK` of parts that follow on each other, or have one row."""
    sides = ([part.seen_BK for part in parts], [part.position_BK for part in parts])
    seen_BK, position_BK = (torch.cat([x.expand(rows, -1) for x in side], dim=1) for side in sides)
    return seen_BK, position_BK


def join_keys(parts: Iterable[Tensor], rows: int) -> Tensor:
    """Return keys or values (B, H, K, E) of parts that follow on each other, or have one row."""
    return torch.cat([part.expand(rows, -1, -1, -1) for part in parts], dim=2)


class JoinedCache(DynamicCache):
    """Gives each layer the keys and values of what was read before; keeps those of the inputs.

    It joins them layer by layer, so that only one layer's are there twice.

    Args:
        earlier: the parts that were read before.

    Attributes:
        keys_values: of the inputs, of each layer in turn.
    """

    def __init__(self, earlier: Sequence[KeysValues]) -> None:
        super().__init__()
        self._earlier, self.keys_values = earlier, list[Tensor]()

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Return a layer's keys and values, those of earlier parts first."""
        new, rows = (key_states, value_states), len(key_states)
        self.keys_values += new
        before = [part.keys_values[2 * layer_idx :][:2] for part in self._earlier]
        keys, values = (join_keys(parts, rows) for parts in zip(*before, new, strict=True))
        return keys, values

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return how many keys there are before the inputs."""
        return sum(part.seen_BK.shape[1] for part in self._earlier)


def find_windows(model: PreTrainedModel) -> dict[str, int | None]:
    """Return how far layers of each kind see, None for any distance.

    Raises:
        XnmtError: layers of another kind are in it.
    """
    # A model of text and images has its language model's options in a config of their own.
    name, config = type(model).__name__, model.config.get_text_config()
    if config.model_type in OTHER_WINDOWS:
        raise XnmtError(f"{name} cannot be read: its windows of attention are of another kind")
    window = getattr(config, "sliding_window", None)
    kinds = {*(getattr(config, "layer_types", None) or [SLIDING if window else FULL])}
    if other := kinds - {FULL, SLIDING}:
        raise XnmtError(f"{name} cannot be read: it has {min(other)} layers")
    return {kind: window if kind == SLIDING else None for kind in sorted(kinds)}


def attention_masks(
    windows: Mapping[str, int | None],
    seen_BK: Tensor,
    position_BK: Tensor,
    position_BX: Tensor,
    dtype: torch.dtype,
) -> Any:
    """Return what is added to energies, (B, 1, X, K); by kind of layer where they differ.

    Args:
        windows: how far layers of each kind see; see `find_windows`.
        seen_BK: True for keys that states may attend to.
        position_BK: of the keys.
        position_BX: of the inputs.
        dtype: of the energies.
    """
    distance_BXK = position_BX[..., None] - position_BK[:, None]
    allowed_BXK = seen_BK[:, None] & (distance_BXK >= 0)
    # Some models have their softmax in float32, where the least float64 would be infinite.
    least = max(torch.finfo(dtype).min, torch.finfo(torch.float32).min)
    masks = {}
    for kind, window in windows.items():
        near = allowed_BXK if window is None else allowed_BXK & (distance_BXK < window)
        zeros = torch.zeros(near.shape, dtype=dtype, device=near.device)
        masks[kind] = zeros.masked_fill(~near, least)[:, None]
    return masks if len(masks) > 1 else masks.popitem()[1]


class CausalPrefix(Prefix):
    """Computes each input once; `model` is a `CausalLM`."""

    model: Any

    def __init__(self, model: Any, encoding: Encoding) -> None:
        super().__init__(model, encoding)
        self._kept: KeysValues | None = None

    def read(self, input_BXD: Tensor) -> Tensor:
        """Read further inputs of every row: the state behind each, (B, X, D)."""
        output, read = self.model.go_on(self.encoding, input_BXD, self._kept)
        parts = [self._kept, read] if self._kept else [read]
        self._kept = KeysValues.join(parts, len(input_BXD))
        self.steps += input_BXD.shape[1]
        return output.last_hidden_state  # type: ignore[no-any-return]

    def _keep(self, forked: Self, steps: int, rows: Tensor) -> None:
        if steps:
            assert self._kept is not None
            forked._kept = self._kept.select(rows, steps)


class CausalReader(Reader):
    """Computes each input once. Rows read equal numbers of inputs."""

    reads_padding = False
    model: Any

    def __init__(self, model: Any, encoding: Encoding) -> None:
        super().__init__(model, encoding)
        self._prefix = CausalPrefix(model, encoding)

    def read(self, ids_RT: Tensor) -> Tensor:
        """Read further inputs of every row; the state behind the last, (R, D)."""
        assert (ids_RT != PAD).all()
        return self._prefix.read(self.model.embed_target(ids_RT))[:, -1]

    def select(self, rows: Tensor) -> None:
        """Go on with some of the rows, in a new order, some perhaps more than once."""
        self._prefix = self._prefix.fork(self._prefix.steps, rows)
        self.encoding = self._prefix.encoding
