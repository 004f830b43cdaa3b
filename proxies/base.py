"""What the proxies share: rule words in, a distribution over labels out.

Shapes: B decisions, K words of a rule (k source words, then k prefix words, best first on each
side), D dimension, V labels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LONGEST = 512  # places in a sentence with embeddings of their own


@dataclass(frozen=True)
class Vocabulary:
    """What a proxy must know of the rules it reads.

    Attributes:
        source: number of source ids.
        target: number of target ids, which are also the labels.
        k: words a side.
    """

    source: int
    target: int
    k: int


class RuleEmbedding(nn.Module):
    """Embeds a rule's words, (B, K) to (B, K, D).

    Args:
        vocabulary: sizes.
        dimension: D.
        places: add an embedding of a word's place in the rule (its rank and its side).
        sentence_positions: add one of its place in the sentence. That tells the proxy more than
            the words, so it measures words and their order together.
    """

    def __init__(
        self, vocabulary: Vocabulary, dimension: int, places: bool, sentence_positions: bool
    ) -> None:
        super().__init__()
        self.k = vocabulary.k
        # One entry more than the vocabulary has: the symbol that pads short rules.
        self.source = nn.Embedding(vocabulary.source + 1, dimension)
        self.prefix = nn.Embedding(vocabulary.target + 1, dimension)
        self.place = nn.Embedding(2 * vocabulary.k, dimension) if places else None
        self.position = nn.Embedding(LONGEST + 1, dimension) if sentence_positions else None
        for table in (self.source, self.prefix, self.place, self.position):
            if table is not None:
                # Embeddings of norm about 1 at any dimension: one learning rate fits all sizes.
                nn.init.normal_(table.weight, std=dimension**-0.5)

    def forward(self, words_BK: Tensor, positions_BK: Tensor) -> Tensor:
        """Embed words (-1 for none) and, where asked for, their places."""
        source, prefix = words_BK.split(self.k, dim=1)
        # Two tables, since the same number is another word on the other side.
        x = torch.cat([_look_up(self.source, source), _look_up(self.prefix, prefix)], dim=1)
        if self.place is not None:
            x = x + self.place.weight  # (2k, D), broadcast over B
        if self.position is not None:
            x = x + _look_up(self.position, positions_BK)
        return x


def _look_up(table: nn.Embedding, ids: Tensor) -> Tensor:
    """Look ids up; -1, a place that no word fills, is the table's last entry."""
    return table(torch.where(ids < 0, table.num_embeddings - 1, ids))


class LearnedQueryAttention(nn.Module):
    """Attn(s_0, h): attention over a rule's states from a learned initial query s_0 (Eq. 3)."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(dimension) * dimension**-0.5)  # of norm about 1
        self.key = nn.Linear(dimension, dimension)

    def forward(self, states_BKD: Tensor) -> Tensor:
        """Return the weighted sum of the states, (B, D)."""
        energy_BK = torch.tanh(self.key(states_BKD)) @ self.query
        return (energy_BK.softmax(-1)[:, None] @ states_BKD)[:, 0]


class Proxy(nn.Module, ABC):
    """A proxy model Q."""

    @abstractmethod
    def forward(self, words_BK: Tensor, positions_BK: Tensor) -> Tensor:
        """Return logits (B, V) of the label.

        Args:
            words_BK: ids of the rule's words, k of the source and k of the prefix, -1 for none.
            positions_BK: their places in the sentence, below `LONGEST`, -1 for none.
        """

    def loss(self, words_BK: Tensor, positions_BK: Tensor, label_B: Tensor) -> Tensor:
        """Return the mean of -log Q of labels, in nats.

        A label that is a distribution gives its cross-entropy.
        """
        # In float32 under every precision of training, since sums over V lose digits otherwise.
        return F.cross_entropy(self(words_BK, positions_BK).float(), label_B)

    def decide(
        self, words_BK: Tensor, positions_BK: Tensor, label_B: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return Q's first choices and log Q of labels, (B,)."""
        log_q_BV = self.log_distributions(words_BK, positions_BK)
        return log_q_BV.argmax(-1), log_q_BV.gather(-1, label_B[:, None])[:, 0]

    def log_distributions(self, words_BK: Tensor, positions_BK: Tensor) -> Tensor:
        """Return log Q of the whole vocabulary, (B, V)."""
        return self(words_BK, positions_BK).log_softmax(-1)  # type: ignore[no-any-return]
