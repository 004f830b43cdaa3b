"""RNNSearch of Bahdanau et al. (2015): LSTM encoder and decoder with additive attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from xnmt_bench.corpora.subwords import PAD, Subwords
from xnmt_bench.nmt.base import AttentionWeights, Encoding, Layout, NMTModel, Reader, last_of


class RNNSearch(NMTModel):
    """A 1-layer bidirectional LSTM encoder and an LSTM decoder that attends to it.

    Args:
        source_subwords: the source vocabulary.
        target_subwords: the target vocabulary.
        dimension: of the embeddings.
        encoder_hidden: hidden units of each encoder direction.
        decoder_hidden: hidden units of the decoder and of the attention.
        dropout: share of activations dropped in training.
    """

    def __init__(
        self,
        source_subwords: Subwords,
        target_subwords: Subwords,
        dimension: int = 256,
        encoder_hidden: int = 256,
        decoder_hidden: int = 512,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.source_subwords, self.target_subwords = source_subwords, target_subwords
        self.source_embedding = nn.Embedding(len(source_subwords), dimension, padding_idx=PAD)
        self.target_embedding = nn.Embedding(len(target_subwords), dimension, padding_idx=PAD)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.uniform_(embedding.weight, -0.1, 0.1)
            with torch.no_grad():
                embedding.weight[PAD].zero_()
        memory = 2 * encoder_hidden
        self.encoder = nn.LSTM(dimension, encoder_hidden, batch_first=True, bidirectional=True)
        self.start = nn.Linear(encoder_hidden, decoder_hidden)
        self.attention_query = nn.Linear(decoder_hidden, decoder_hidden, bias=False)
        self.attention_key = nn.Linear(memory, decoder_hidden)
        self.attention_energy = nn.Linear(decoder_hidden, 1, bias=False)
        self.cell = nn.LSTMCell(dimension + memory, decoder_hidden)
        self.readout = nn.Linear(decoder_hidden + memory + dimension, dimension)
        self.output = nn.Linear(dimension, len(target_subwords))
        self.dropout = nn.Dropout(dropout)

    def embed_source(self, ids_BS: Tensor) -> Tensor:
        """Source embeddings (B, S, D)."""
        return self.source_embedding(ids_BS)

    def embed_target(self, ids_BT: Tensor) -> Tensor:
        """Target embeddings (B, T, D)."""
        return self.target_embedding(ids_BT)

    def encode(self, source_BSD: Tensor, layout: Layout) -> Encoding:
        """Encodes source embeddings; `extra` holds the attention's keys and the first state."""
        # Packing keeps the backward direction from starting in the padding.
        packed = nn.utils.rnn.pack_padded_sequence(
            self.dropout(source_BSD),
            layout.mask_BS.sum(1).cpu(),
            batch_first=True,
            enforce_sorted=False,
        )
        output, (hidden, _) = self.encoder(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            output, batch_first=True, total_length=source_BSD.shape[1]
        )
        start = torch.tanh(self.start(hidden[1]))  # the backward direction has read it all
        return Encoding(states, layout, (self.attention_key(states), start))

    def decode(self, encoding: Encoding, input_BTD: Tensor) -> Tensor:
        """Decodes a teacher-forced prefix: read-outs (B, T, D)."""
        return self._decode(encoding, input_BTD)[0]

    def attention(self, encoding: Encoding, input_BTD: Tensor) -> AttentionWeights:
        """Attention over the source; RNNSearch has none over its prefix."""
        return AttentionWeights(self._decode(encoding, input_BTD)[1][:, None, None], None)

    def _decode(self, encoding: Encoding, input_BTD: Tensor) -> tuple[Tensor, Tensor]:
        hidden = encoding.extra[1]
        cell, inputs = torch.zeros_like(hidden), self.dropout(input_BTD)
        features, weights = [], []
        for x_BD in inputs.unbind(1):
            seen, weight_BS, hidden, cell = self.step(encoding, x_BD, hidden, cell)
            features.append(seen)
            weights.append(weight_BS)
        return self.dropout(self.read_out(torch.stack(features, 1))), torch.stack(weights, 1)

    def step(
        self, encoding: Encoding, x_BD: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """One step: what the read-out sees, attention weights, and the LSTM's two new states."""
        weight_BS = self._attend(hidden, encoding.extra[0], encoding.mask_BS)  # Eq. 2
        context = (weight_BS[:, None] @ encoding.states_BSD)[:, 0]
        hidden, cell = self.cell(torch.cat([x_BD, context], -1), (hidden, cell))
        return torch.cat([hidden, context, x_BD], -1), weight_BS, hidden, cell

    def read_out(self, features: Tensor) -> Tensor:
        """The states that `logits` reads, (..., D)."""
        return torch.tanh(self.readout(features))

    def reader(self, encoding: Encoding) -> Reader:
        """Keeps the states of the LSTM."""
        return RecurrentReader(self, encoding)

    def _attend(self, query: Tensor, keys_BSA: Tensor, mask_BS: Tensor) -> Tensor:
        energy = self.attention_energy(torch.tanh(self.attention_query(query)[:, None] + keys_BSA))
        return energy[..., 0].masked_fill(~mask_BS, -torch.inf).softmax(-1)

    def logits(self, states: Tensor) -> Tensor:
        """Unnormalised log-probabilities (..., V)."""
        return self.output(states)


class RecurrentReader(Reader):
    """Goes on from the LSTM's states."""

    model: RNNSearch

    def __init__(self, model: RNNSearch, encoding: Encoding) -> None:
        super().__init__(model, encoding)
        self._hidden = encoding.extra[1]
        self._cell = torch.zeros_like(self._hidden)

    def read(self, ids_RT: Tensor) -> Tensor:
        """Reads further inputs of every row, padded with PAD; the state behind the last, (R, D)."""
        features = []
        for ids_R in ids_RT.unbind(1):
            x_RD = self.model.embed_target(ids_R)
            seen, _, hidden, cell = self.model.step(self.encoding, x_RD, self._hidden, self._cell)
            word = (ids_R != PAD)[:, None]
            self._hidden = torch.where(word, hidden, self._hidden)
            self._cell = torch.where(word, cell, self._cell)
            features.append(seen)
        return self.model.read_out(last_of(torch.stack(features, 1), ids_RT != PAD))

    def select(self, rows: Tensor) -> None:
        """Goes on with some of the rows, in a new order, some perhaps more than once."""
        super().select(rows)
        self._hidden, self._cell = self._hidden[rows], self._cell[rows]
