"""FN: a feed-forward network over bags of words."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from proxies.base import Proxy, RuleEmbedding, Vocabulary
from xnmt_bench.options import Rate, Size


class FN(Proxy):
    """The sum of the source words' features and of the prefix words', through three layers.

    Args:
        vocabulary: sizes.
        dimension: of the features and of the last hidden layer.
        hidden: of the first hidden layer.
        dropout: share of activations dropped in training.
    """

    def __init__(
        self, vocabulary: Vocabulary, dimension: Size = 256, hidden: Size = 512, dropout: Rate = 0.1
    ) -> None:
        super().__init__()
        self.k = vocabulary.k
        self.embedding = RuleEmbedding(vocabulary, dimension, False, False)  # a bag has no places
        self.layers = nn.Sequential(
            nn.Linear(2 * dimension, hidden),  # the two sides' bags side by side
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, dimension),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(dimension, vocabulary.target),
        )

    def forward(self, words_BK: Tensor, positions_BK: Tensor) -> Tensor:
        """Return logits (B, V)."""
        x = self.embedding(words_BK, positions_BK)
        # A sum, as in the paper: the order of words is invisible to FN.
        bags = [side.sum(1) for side in x.split(self.k, dim=1)]
        return self.layers(torch.cat(bags, dim=-1))
