"""SA: a self-attention network over the rule's words."""

from __future__ import annotations

from torch import Tensor, nn

from proxies.base import LearnedQueryAttention, Proxy, RuleEmbedding, Vocabulary
from xnmt_bench.options import Few, Rate, Size


class SA(Proxy):
    """Self-attention layers, read by attention from a learned query.

    Args:
        vocabulary: sizes.
        dimension: of embeddings and states.
        layers: self-attention layers.
        heads: heads of each.
        feed_forward: inner dimension of the feed-forward blocks; None for 4 x dimension.
        dropout: share of activations dropped in training.
        sentence_positions: tell the proxy each word's place in the sentence.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        dimension: Size = 256,
        layers: Few = 2,
        heads: Few = 4,
        feed_forward: Size | None = None,
        dropout: Rate = 0.1,
        sentence_positions: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = RuleEmbedding(vocabulary, dimension, True, sentence_positions)
        size = (dimension, heads, feed_forward or 4 * dimension, dropout)
        # Norms come first, with which training is stable without a warm-up.
        layer = nn.TransformerEncoderLayer(*size, batch_first=True, norm_first=True)
        # Norms that come first rule out nested tensors, of which PyTorch warns if they stay on.
        last = nn.LayerNorm(dimension)
        self.encoder = nn.TransformerEncoder(layer, layers, last, enable_nested_tensor=False)
        self.attention = LearnedQueryAttention(dimension)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(dimension, vocabulary.target)

    def forward(self, words_BK: Tensor, positions_BK: Tensor) -> Tensor:
        """Return logits (B, V)."""
        states = self.encoder(self.dropout(self.embedding(words_BK, positions_BK)))
        return self.output(self.dropout(self.attention(states)))
