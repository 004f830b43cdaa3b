"""The multi-encoder: hierarchical attention over the source's context.

The first-level and second-level attention of Miculicich et al. (2018) in the form that Lupo et al.
(2022) train and Dinarelli et al. (2024, section 3.1) analyse: what is gated is the context.

M context sentences of a batch, each of up to L ids; K of one sentence at most; C ids of the current
sentence; other shapes as in `nmt.base`.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from xnmt_bench.corpora.passage import Context
from xnmt_bench.corpora.vocabulary.subwords import Subwords
from xnmt_bench.nmt.base import Prefix, Reader
from xnmt_bench.nmt.batch import AttentionWeights, Encoding, Layout
from xnmt_bench.nmt.context.sentences import Sentences, source_numbers
from xnmt_bench.nmt.context.two_step import TwoStep
from xnmt_bench.nmt.transformer import MultiHeadAttention, feed_forward
from xnmt_bench.options import Few, Rate, Size


class ContextAttention(nn.Module):
    """What is trained of a multi-encoder: from words to their contexts, sentence by sentence.

        w_kt = LN(MHA(h_t, H_k));  s_t = LN(MHA(h_t, w_1t .. w_Kt));  f_t = LN(s_t + FF(s_t))
        g_t = sigmoid(W [h_t; f_t] + b);  out_t = LN((1 - g_t) h_t + g_t f_t)

    A word without any context has g_t = 0.
    """

    def __init__(self, dimension: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.word = MultiHeadAttention(dimension, heads, dropout)
        self.sentence = MultiHeadAttention(dimension, heads, dropout)
        self.feed_forward = feed_forward(dimension, inner, dropout)
        self.gate = nn.Linear(2 * dimension, dimension)
        self.word_norm, self.sentence_norm, self.inner_norm, self.norm = (
            nn.LayerNorm(dimension) for _ in range(4)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        h_BCD: Tensor,
        contexts_MLD: Tensor,
        mask_ML: Tensor,
        row_M: Tensor,
        place_M: Tensor,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Return the current sentences' states with their contexts in them, (B, C, D).

        Args:
            h_BCD: their states.
            contexts_MLD: the states of the context sentences.
            mask_ML: True where these have a word.
            row_M: the row of the batch that each context sentence is of.
            place_M: which of its context sentences it is, from 0.
            weights: where the first level's weights (M, H, C, L) are appended, or None.
        """
        if not len(row_M):
            return self.norm(h_BCD)  # as the formula has it with g = 0
        (rows, steps, _), count = h_BCD.shape, int(place_M.max()) + 1
        h_MCD, visible = h_BCD[row_M], mask_ML[:, None, None]
        w_MCD = self.word(h_MCD, self.word.key_value(contexts_MLD), visible, weights)
        w_MCD = self.word_norm(w_MCD)
        w_BKCD = w_MCD.new_zeros(rows, count, *h_BCD.shape[1:])
        # Rows have unlike numbers of context sentences, so they are laid into K places.
        w_BKCD[row_M, place_M] = w_MCD
        has_BK = torch.zeros(rows, count, dtype=torch.bool, device=h_BCD.device)
        has_BK[row_M, place_M] = True
        has_B = has_BK.any(1)
        # One query for each word, over its own K: words are rows here. A word without any context
        # looks at zeros, since a softmax over nothing is NaN; its gate is shut.
        has_R = (has_BK | ~has_B[:, None]).repeat_interleave(steps, 0)[:, None, None]
        memory_RKD = w_BKCD.transpose(1, 2).flatten(0, 1)
        query_R1D = h_BCD.flatten(0, 1)[:, None]
        mixed = self.sentence(query_R1D, self.sentence.key_value(memory_RKD), has_R, None)
        s_BCD = self.sentence_norm(mixed[:, 0].view_as(h_BCD))
        f_BCD = self.inner_norm(s_BCD + self.dropout(self.feed_forward(s_BCD)))
        g_BCD = self.gate(torch.cat([h_BCD, f_BCD], dim=-1)).sigmoid() * has_B[:, None, None]
        return self.norm((1 - g_BCD) * h_BCD + g_BCD * f_BCD)


class MultiEncoder(TwoStep):
    """A Transformer whose encoder's output reads up to three previous source sentences.

    The decoder reads only the current sentence, and no translation of the context.

    Args:
        source_subwords: the source vocabulary.
        target_subwords: the target vocabulary.
        layers: of the Transformer, on each side.
        heads: of each attention, also to the context.
        dimension: of embeddings and states.
        feed_forward: inner dimension of the feed-forward blocks.
        dropout: share of activations dropped in training, of what reads the context.
        pre_norm: whether the Transformer normalises before each block.
        tied: whether its output layer shares the target embeddings.
    """

    def __init__(
        self,
        source_subwords: Subwords,
        target_subwords: Subwords,
        layers: Few = 2,
        heads: Few = 4,
        dimension: Size = 256,
        feed_forward: Size = 1024,
        dropout: Rate = 0.1,
        pre_norm: bool = False,
        tied: bool = True,
    ) -> None:
        sizes = (layers, heads, dimension, feed_forward, dropout, pre_norm, tied)
        super().__init__(source_subwords, target_subwords, *sizes)
        self.context = ContextAttention(dimension, heads, feed_forward, dropout)

    @classmethod
    def refuses(cls, context: Context) -> str | None:
        """Refuse contexts on the target side."""
        if context.sentences and context.target:
            return "reads no context on the target side (nmt.context.target)"
        return super().refuses(context)

    def encode(self, source_BSD: Tensor, layout: Layout) -> Encoding:
        """Encode each sentence alone, then the current one in its context."""
        out_BSD, current_BS = self._encode(source_BSD, layout)
        # The decoder sees only the current sentence.
        current_layout = Layout(layout.source_BS * current_BS, layout.input_BT)
        return Encoding(out_BSD, current_layout, self.base.keys_values(out_BSD))

    def _encode(
        self, source_BSD: Tensor, layout: Layout, weights: list[Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return states (B, S, D), and where the current sentence is, (B, S).

        The first level's weights (M, H, C, L) are appended to a list, if there is one.
        """
        number_BS = source_numbers(layout)
        sentences, last_B = Sentences(number_BS), number_BS.amax(1)
        h_NLD = self.base.encoder_states(sentences.split(source_BSD), sentences.layout)
        current_N = sentences.number_N == last_B[sentences.row_N]
        before_N = ~current_N
        row_M = sentences.row_N[before_N]
        place_M = (last_B[row_M] - sentences.number_N[before_N]) - 1  # the nearest first
        out_NLD = h_NLD.clone()
        contexts = (h_NLD[before_N], sentences.mask_NL[before_N], row_M, place_M)
        read_BCD = self.context(h_NLD[current_N], *contexts, weights)
        out_NLD[current_N] = read_BCD.to(out_NLD.dtype)  # autocast may have chosen another
        return sentences.join(out_NLD), (number_BS == last_B[:, None]) & layout.mask_BS

    def encoder_attention(self, source_BSD: Tensor, layout: Layout) -> Tensor:
        """Return the first level's attention, as the only layer, (B, 1, H, S, S).

        A current word has weights that sum to 1 over each context sentence, its EOS included, and
        none over its own.
        """
        layers: list[Tensor] = []
        self._encode(source_BSD, layout, layers)
        rows, width = layout.source_BS.shape
        weights_BLHSS = source_BSD.new_zeros(rows, 1, self.context.word.heads, width, width)
        spans = Sentences(source_numbers(layout)).spans()
        current = dict(spans)  # of each row the last one
        contexts = iter(layers[0] if layers else ())
        for row, span in spans:
            if span != current[row]:
                words, size = (s.stop - s.start for s in (current[row], span))
                weights_BLHSS[row, 0, :, current[row], span] = next(contexts)[:, :words, :size]
        return weights_BLHSS

    def decode(self, encoding: Encoding, input_BTD: Tensor) -> Tensor:
        """Decode a teacher-forced prefix: states (B, T, D)."""
        return self.base.decode(encoding, input_BTD)

    def prefix(self, encoding: Encoding) -> Prefix:
        """Return the Transformer's, which keeps the keys and values of what it has read."""
        return self.base.prefix(encoding)

    def logits(self, states: Tensor) -> Tensor:
        """Return unnormalised log-probabilities (..., V)."""
        return self.base.logits(states)

    def logit_parts(self, states_RD: Tensor) -> Iterator[Tensor]:
        """Yield the Transformer's."""
        return self.base.logit_parts(states_RD)

    def attention(self, encoding: Encoding, input_BTD: Tensor) -> AttentionWeights:
        """Return the decoder's attention: to the current sentence and to its own prefix."""
        return self.base.attention(encoding, input_BTD)

    def reader(self, encoding: Encoding) -> Reader:
        """Return the Transformer's, which keeps the keys and values of what it has read."""
        return self.base.reader(encoding)
