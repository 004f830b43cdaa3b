"""Proxies of vocabularies too large for weights of every piece, such as a language model's.

Weights are of the pieces that a proxy learns from. All others share one class, whose probability is
divided evenly among them: Q is a distribution over the whole vocabulary still, and perplexities
compare.

Shapes: as in `proxies.base`; C classes, one for each piece that occurs, and the last for the rest.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proxies.base import Proxy

WIDEST = 2**16  # pieces of a vocabulary of which each has weights
PIECES = "the pieces that are learnt from, and one class for the rest"  # as a setting of a row


class Pieces(nn.Module):
    """The classes of a vocabulary's ids.

    Args:
        ids: those that occur, in any order; -1 stands for none.
        size: V.

    Attributes:
        id_C: the id of each class, -1 for the last.
        class_V: the class of each id.
        log_count_C: logarithm of the number of ids of each class.
    """

    id_C: Tensor
    class_V: Tensor
    log_count_C: Tensor

    def __init__(self, ids: np.ndarray, size: int) -> None:
        super().__init__()
        ids_X = np.unique(ids[ids >= 0]).astype(np.int64)
        class_V = np.full(size, len(ids_X))
        class_V[ids_X] = np.arange(len(ids_X))
        count_C = np.ones(len(ids_X) + 1)
        count_C[-1] = max(1, size - len(ids_X))
        tensors = {
            "id_C": np.append(ids_X, -1),
            "class_V": class_V,
            "log_count_C": np.log(count_C).astype(np.float32),
        }
        # Buffers go to the device with the weights; they follow from the ids, so are not kept.
        for name, array in tensors.items():
            self.register_buffer(name, torch.from_numpy(array), persistent=False)

    def __len__(self) -> int:
        return len(self.id_C)

    def classify(self, ids: Tensor) -> Tensor:
        """Return the class of each id; -1 stays."""
        return self.class_V[ids.clamp(min=0)].where(ids >= 0, -1)

    def gather(self, p_BV: Tensor) -> Tensor:
        """Return the probability of each class, (B, C)."""
        p_BC = p_BV.new_zeros(len(p_BV), len(self))
        return p_BC.index_add_(1, self.class_V, p_BV)

    def loss(self, logits_BC: Tensor, label_B: Tensor) -> Tensor:
        """Return the mean of -log Q of labels (B,), or under distributions of labels (B, C)."""
        if label_B.is_floating_point():
            spread = (label_B * self.log_count_C).sum(1)
        else:
            label_B = self.classify(label_B)
            spread = self.log_count_C[label_B]
        # A class's probability is divided evenly among its pieces.
        return F.cross_entropy(logits_BC.float(), label_B) + spread.mean()

    def log_q(self, logits_BC: Tensor) -> Tensor:
        """Return log Q of one piece of each class, (B, C)."""
        return logits_BC.log_softmax(-1) - self.log_count_C

    def decide(self, logits_BC: Tensor, label_B: Tensor) -> tuple[Tensor, Tensor]:
        """Return Q's first choices, -1 for a piece of the last class, and log Q of labels; (B,)."""
        log_q_BC = self.log_q(logits_BC)
        label_log_q = log_q_BC.gather(-1, self.classify(label_B)[:, None])[:, 0]
        return self.id_C[log_q_BC.argmax(-1)], label_log_q


class Narrowed(Proxy):
    """A proxy that has weights of the pieces that occur; it takes ids of the whole vocabulary.

    Args:
        proxy: over the classes of both sides.
        source: classes of source words.
        target: classes of prefix words and labels.
    """

    def __init__(self, proxy: Proxy, source: Pieces, target: Pieces) -> None:
        super().__init__()
        self.proxy, self.source, self.target = proxy, source, target

    def forward(self, words_BK: Tensor, positions_BK: Tensor) -> Tensor:
        """Return logits (B, C)."""
        source, prefix = words_BK.chunk(2, dim=1)
        classes_BK = torch.cat([self.source.classify(source), self.target.classify(prefix)], dim=1)
        return self.proxy(classes_BK, positions_BK)  # type: ignore[no-any-return]

    def loss(self, words_BK: Tensor, positions_BK: Tensor, label_B: Tensor) -> Tensor:
        """Return the mean of -log Q over the whole vocabulary, in nats."""
        return self.target.loss(self(words_BK, positions_BK), label_B)

    def decide(
        self, words_BK: Tensor, positions_BK: Tensor, label_B: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return first choices and log Q of labels, (B,)."""
        return self.target.decide(self(words_BK, positions_BK), label_B)

    def log_distributions(self, words_BK: Tensor, positions_BK: Tensor) -> Tensor:
        """Return log Q of the whole vocabulary, (B, V)."""
        log_q_BC = self.target.log_q(self(words_BK, positions_BK))
        return log_q_BC[:, self.target.class_V]
