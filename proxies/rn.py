"""RN: a recurrent network over the rule's words."""

from __future__ import annotations

from torch import Tensor, nn

from proxies.base import LearnedQueryAttention, Proxy, RuleEmbedding, Vocabulary
from xnmt_bench.options import Rate, Size


class RN(Proxy):
    """One bidirectional LSTM layer, read by attention from a learned query.

    Args:
        vocabulary: sizes.
        dimension: of the embeddings.
        hidden: units of each direction.
        dropout: share of activations dropped in training.
        sentence_positions: tell the proxy each word's place in the sentence.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        dimension: Size = 256,
        hidden: Size = 256,
        dropout: Rate = 0.1,
        sentence_positions: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = RuleEmbedding(vocabulary, dimension, True, sentence_positions)
        self.lstm = nn.LSTM(dimension, hidden, batch_first=True, bidirectional=True)
        self.attention = LearnedQueryAttention(2 * hidden)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Sequential(
            nn.Linear(2 * hidden, dimension), nn.Tanh(), nn.Linear(dimension, vocabulary.target)
        )

    def forward(self, words_BK: Tensor, positions_BK: Tensor) -> Tensor:
        """Return logits (B, V)."""
        # All states and not the last: attention reads them, as in the paper.
        states, _ = self.lstm(self.dropout(self.embedding(words_BK, positions_BK)))
        return self.output(self.dropout(self.attention(states)))
