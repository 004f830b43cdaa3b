"""Changed models: word embeddings moved a little, weights permuted.

Explainers ask a changed model as they ask any other, and cannot tell.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from xnmt_bench.corpora.vocabulary.subwords import WORDS
from xnmt_bench.device import device_of
from xnmt_bench.nmt.base import NMTModel

EMBEDDINGS, ENCODER, OUTPUT = "embeddings", "encoder", "output"


def move_embeddings(model: NMTModel, radius: float, seeds: Sequence[int]) -> NMTModel:
    """Return a model that reads the embedding of each word a little off.

    Every word of the vocabulary is moved by its own noise, uniform in each dimension, wherever it
    stands; the unknown word, BOS, EOS and padding stay. The weights are the given model's, so that
    an output layer that shares them is not moved.

    Args:
        model: is not changed.
        radius: the greatest noise, as a share of the root mean square of the side's embeddings.
        seeds: of the noise.
    """
    # By the functions and not by a table of weights, which each back-end keeps elsewhere.
    sides = zip(model.vocabularies, (model.embed_source, model.embed_target), strict=True)
    noise_of_source, noise_of_target = (
        _draw_noise(embed(torch.arange(len(words), device=device_of(model))[None])[0], radius, seed)
        for (words, embed), seed in zip(sides, ([*seeds, 0], [*seeds, 1]), strict=True)
    )

    # A subclass, so that everything but the embedding of ids stays the model's own code.
    class Moved(type(model)):  # type: ignore[misc]
        def embed_source(self, ids_BS: Tensor) -> Tensor:
            return super().embed_source(ids_BS) + noise_of_source[ids_BS]

        def embed_target(self, ids_BT: Tensor) -> Tensor:
            return super().embed_target(ids_BT) + noise_of_target[ids_BT]

    moved = copy.copy(model)  # shares weights and modules
    moved.__class__ = Moved
    return moved


def _draw_noise(embedded_VD: Tensor, radius: float, seeds: Sequence[int]) -> Tensor:
    rng = np.random.default_rng(seeds)
    # By numpy, whose draws do not depend on the device.
    noise_VD = torch.from_numpy(rng.uniform(-1, 1, tuple(embedded_VD.shape)).astype(np.float32))
    noise_VD[:WORDS] = 0  # special symbols
    # Relative to the side's own embeddings, whose size differs between systems.
    scale = embedded_VD[WORDS:].square().mean().sqrt()
    return noise_VD.to(embedded_VD) * radius * scale


def group_weights(model: NMTModel) -> dict[str, list[str]]:
    """Return the names of a model's weights in groups, from the output down to the embeddings.

    A group is the output (all that is in no other group), a layer of the decoder, a layer of
    the encoder, what an encoder has outside its layers, or the embeddings. A layer is an item of a
    list of modules. Positions that are not learnt are in no group. A weight that several modules
    share is named once; where output and embeddings share theirs, it is with the embeddings.
    """
    modules, groups = dict(model.named_modules()), dict[str, list[str]]()
    for name, _ in model.named_parameters():
        owner = modules[name.rpartition(".")[0]]
        # Such a module registers its table as a weight, although nothing learns it.
        if not type(owner).__name__.endswith("SinusoidalPositionalEmbedding"):
            groups.setdefault(_group(name, owner, modules), []).append(name)

    def depth(group: str) -> int:
        """Return the place of a group: permuting runs from the output down, the decoder first."""
        depth_of = {OUTPUT: 0, ENCODER: 2, EMBEDDINGS: 4}
        return depth_of.get(group, 3 if ENCODER in group else 1)

    # Layers are listed from the input up; sorting keeps the order of those of one depth.
    return {group: groups[group] for group in sorted(reversed(groups), key=depth)}


def _group(name: str, owner: nn.Module, modules: dict[str, nn.Module]) -> str:
    parts = name.split(".")
    for end in range(1, len(parts) - 1):
        path = ".".join(parts[:end])
        if isinstance(modules[path], nn.ModuleList):
            # The outermost list: a layer may hold lists of its own.
            return f"{path} {parts[end]}"
    if isinstance(owner, nn.Embedding):
        return EMBEDDINGS
    return ENCODER if any(ENCODER in part for part in parts) else OUTPUT


@torch.no_grad()
def permute_weights(model: NMTModel, names: Collection[str], seed: int) -> NMTModel:
    """Return a copy of a model whose named weights are permuted, each within itself.

    A weight's new order follows only from the seed and its name. So it is the same at every depth.
    """
    # A copy of the weights, since other explainers still ask the system.
    changed = copy.deepcopy(model)
    for name, weight in changed.named_parameters():
        if name in names:
            # By name, so that a weight is permuted alike at every depth that reaches it.
            order = np.random.default_rng([seed, *name.encode()]).permutation(weight.numel())
            order_N = torch.from_numpy(order).to(weight.device)
            weight.copy_(weight.flatten()[order_N].view_as(weight))
    return changed
