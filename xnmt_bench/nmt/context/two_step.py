"""What the context-aware systems that are trained in two steps share.

The first step is a sentence-level Transformer; the second trains what reads the context, and leaves
the weights of the first unchanged.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from torch import Tensor

from xnmt_bench.corpora.passage import Context
from xnmt_bench.corpora.vocabulary.subwords import EOS, SEPARATOR, Subwords
from xnmt_bench.nmt.base import NMTModel, copy_weights
from xnmt_bench.nmt.transformer import Transformer

FARTHEST = 3  # context sentences, of Voita et al. 2019 as of Lupo et al. 2022


class TwoStep(NMTModel):
    """A model on top of a sentence-level Transformer, whose weights stay.

    Sentences are read one by one, as `base` has learnt to: positions from 0, each closed by EOS.

    Attributes:
        base: the Transformer; never in training mode, so that nothing of it is dropped.
    """

    reads_alone: ClassVar[bool] = True
    starts_trained: ClassVar[bool] = True
    base: Transformer

    def __init__(self, source_subwords: Subwords, target_subwords: Subwords, *sizes: Any) -> None:
        super().__init__()
        self.source_subwords, self.target_subwords = source_subwords, target_subwords
        self.base = Transformer(source_subwords, target_subwords, *sizes)
        self.base.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> Self:
        """Return training mode, for all but the base."""
        super().train(mode)
        # With dropout in the base, the second step would never read the same first step twice.
        self.base.eval()
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Ask for gradients of all weights but the base's, whose training is over."""
        super().requires_grad_(requires_grad)
        self.base.requires_grad_(False)
        return self

    @classmethod
    def refuses(cls, context: Context) -> str | None:
        """Refuse more than three sentences, and any after the current one."""
        if context.following:
            return "reads no following sentence"
        if context.sentences > FARTHEST:
            return f"reads at most {FARTHEST} sentences of context"
        return None

    def start_from(self, trained: NMTModel) -> None:
        """Take the weights of a model of its own kind, or of a base.

        Raises:
            ValueError: it is of another architecture or of other sizes.
        """
        if type(trained) is Transformer:
            copy_weights(trained, self.base)
        else:
            super().start_from(trained)

    def embed_source(self, ids_BS: Tensor) -> Tensor:
        """Return scaled source embeddings (B, S, D) of the base."""
        return self.base.embed_source(closed(ids_BS))

    def embed_target(self, ids_BT: Tensor) -> Tensor:
        """Return scaled target embeddings (B, T, D) of the base."""
        return self.base.embed_target(ids_BT)


def closed(ids: Tensor) -> Tensor:
    """Return ids of a concatenation with each sentence closed by EOS, as a lone one is."""
    return ids.masked_fill(ids == SEPARATOR, EOS)
