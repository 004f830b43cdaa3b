"""s-hier-to-2.tied (Bawden et al. 2018; tied: Müller et al. 2018): two sources in, two out.

P ids of the previous source sentence and C of the current one; A units of the attention, M of the
encoder's states; other shapes as in `nmt.base`.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from xnmt_bench.corpora.passage import Context
from xnmt_bench.corpora.vocabulary.subwords import EOS, Subwords
from xnmt_bench.nmt.batch import Encoding, Layout
from xnmt_bench.nmt.context.sentences import Sentences, source_numbers
from xnmt_bench.nmt.context.two_step import closed
from xnmt_bench.nmt.rnn_search import RNNSearch
from xnmt_bench.options import Rate, Size


class SourceAttention(nn.Module):
    """Additive attention to one of the sources, with parameters of its own."""

    def __init__(self, state: int, memory: int, units: int) -> None:
        super().__init__()
        self.query = nn.Linear(state, units, bias=False)
        self.key = nn.Linear(memory, units)
        self.energy = nn.Linear(units, 1, bias=False)

    def forward(self, state_BD: Tensor, keys_BXA: Tensor) -> Tensor:
        """Return unnormalised weights (B, X) of these keys, from a state of the decoder."""
        query_B1A = self.query(state_BD)[:, None]
        energy: Tensor = self.energy(torch.tanh(query_B1A + keys_BXA))[..., 0]
        return energy


class SHierTo2(RNNSearch):
    """RNNSearch with two sources, the previous sentence and the current one, and two out.

    Both are encoded by one encoder. A step looks at each by an attention of its own, and then at
    what these gave (hierarchical combination, Libovický and Helcl 2017): with z the decoder's
    state before it looks,

        c_k = sum_j a_kj h_kj;  b = softmax_k(v tanh(W z + U_k c_k));  c = sum_k b_k V_k c_k

    The target is the previous translation, a separator, and the current one. Of a document's first
    sentence the previous source is only EOS, and the target is its own translation.

    Args:
        source_subwords: the source vocabulary.
        target_subwords: the target vocabulary.
        dimension: of the embeddings.
        encoder_hidden: hidden units of each encoder direction.
        decoder_hidden: hidden units of the decoder and of the attention.
        dropout: share of activations dropped in training.
    """

    reads_alone: ClassVar[bool] = True

    def __init__(
        self,
        source_subwords: Subwords,
        target_subwords: Subwords,
        dimension: Size = 256,
        encoder_hidden: Size = 256,
        decoder_hidden: Size = 512,
        dropout: Rate = 0.2,
    ) -> None:
        super().__init__(
            source_subwords, target_subwords, dimension, encoder_hidden, decoder_hidden, dropout
        )
        # Of the mean of all states of both directions, where RNNSearch reads the backward one's
        # last.
        self.start = nn.Linear(2 * encoder_hidden, decoder_hidden)

    def make_attention(self, memory: int, units: int) -> None:
        """Make attention to each source, and to what both gave."""
        sizes = (units, memory, units)
        self.sources = nn.ModuleList(SourceAttention(*sizes) for _ in range(2))
        self.query = nn.Linear(units, units, bias=False)
        self.keys = nn.ModuleList(nn.Linear(memory, units) for _ in range(2))
        self.energy = nn.Linear(units, 1, bias=False)
        self.values = nn.ModuleList(nn.Linear(memory, memory, bias=False) for _ in range(2))

    @classmethod
    def refuses(cls, context: Context) -> str | None:
        """Refuse other contexts than one previous sentence on both sides."""
        if context.following or context.sentences > 1:
            return "reads exactly one sentence of context, the previous one"
        if context.sentences and not context.target:
            return "needs the context on both sides (nmt.context.target=true)"
        return None

    def embed_source(self, ids_BS: Tensor) -> Tensor:
        """Return source embeddings (B, S, D); a separator is embedded as EOS."""
        return super().embed_source(closed(ids_BS))

    def encode(self, source_BSD: Tensor, layout: Layout) -> Encoding:
        """Encode both sources.

        `extra` is the first hidden state; of each source, the previous one first, its states, its
        attention's keys and where it has words; and for each source id its place among the ids of
        both, the previous one's before the current one's.
        """
        number_BS = source_numbers(layout)
        place_BS = number_BS.amax(1)[:, None] - number_BS
        sides = [self._padded(source_BSD, (place_BS == back) & (number_BS > 0)) for back in (1, 0)]
        means, memories = [], []
        for look, (x_BXD, mask_BX) in zip(self.sources, sides, strict=True):
            states_BXM, _ = self.run_encoder(x_BXD, Layout(mask_BX.long(), mask_BX.long()))
            means.append(states_BXM.sum(1) / mask_BX.sum(1, keepdim=True))
            memories += [states_BXM, look.key(states_BXM), mask_BX]  # type: ignore[operator]
        start_BD = torch.tanh(self.start(torch.stack(means).mean(0)))
        width, length = sides[0][0].shape[1], source_BSD.shape[1]
        own_S = torch.arange(length, device=number_BS.device)
        before_B1 = ((place_BS == 1) & (number_BS > 0)).sum(1, keepdim=True)
        among_BS = torch.where(place_BS == 1, own_S, own_S - before_B1 + width)
        # Padding reads place 0, which exists; masks hide what it gets.
        among_BS = torch.where(number_BS > 0, among_BS, 0)
        both_BXM = torch.cat([memories[0], memories[3]], dim=1)
        states_BSM = both_BXM.gather(1, among_BS[..., None].expand(-1, -1, both_BXM.shape[-1]))
        return Encoding(states_BSM, layout, (start_BD, *memories, among_BS))

    def _padded(self, source_BSD: Tensor, mask_BS: Tensor) -> tuple[Tensor, Tensor]:
        """Return one sentence of each row (B, X, D), and its mask; only EOS for none."""
        sentences = Sentences(mask_BS.long())
        rows, longest = len(source_BSD), max(1, sentences.mask_NL.shape[1])
        eos_D = self.embed_source(torch.tensor(EOS, device=source_BSD.device))
        # Attention over no word at all would be NaN.
        alone_XD = torch.cat([eos_D[None], eos_D.new_zeros(longest - 1, len(eos_D))])
        x_BXD = alone_XD.to(source_BSD.dtype).repeat(rows, 1, 1)
        there_BX = (torch.arange(longest, device=mask_BS.device) == 0).repeat(rows, 1)
        if len(sentences.row_N):
            x_BXD[sentences.row_N] = sentences.split(source_BSD)
            there_BX[sentences.row_N] = sentences.mask_NL
        return x_BXD, there_BX

    def look(self, encoding: Encoding, state_BD: Tensor) -> tuple[Tensor, Tensor]:
        """Return attention over both sources' ids (B, S), and what it mixes.

        What a document's first sentence gives to the EOS before it is left out.
        """
        _, *memories, among_BS = encoding.extra
        weights, contexts = [], []
        for look, memory in zip(self.sources, (memories[:3], memories[3:]), strict=True):
            states_BXM, keys_BXA, mask_BX = memory
            energy_BX = look(state_BD, keys_BXA).masked_fill(~mask_BX, -torch.inf)
            weights.append(energy_BX.softmax(-1))
            contexts.append((weights[-1][:, None] @ states_BXM)[:, 0])
        share_B21 = self.shares(state_BD, contexts)[..., None]
        values = [value(c) for value, c in zip(self.values, contexts, strict=True)]
        mixed_BM = (share_B21 * torch.stack(values, dim=1)).sum(1)
        both_BX = torch.cat([w * share_B21[:, k] for k, w in enumerate(weights)], dim=1)
        return both_BX.gather(1, among_BS) * encoding.mask_BS, mixed_BM

    def shares(self, state_BD: Tensor, contexts: list[Tensor]) -> Tensor:
        """Return how much of each source a step takes, b of the combination; (B, 2)."""
        query_BD = self.query(state_BD)
        energies = [
            self.energy(torch.tanh(query_BD + key(c_BM)))
            for key, c_BM in zip(self.keys, contexts, strict=True)
        ]
        return torch.cat(energies, dim=1).softmax(-1)
