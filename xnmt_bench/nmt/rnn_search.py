"""RNNSearch of Bahdanau et al. (2015): LSTM encoder and decoder with additive attention."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from xnmt_bench.corpora.vocabulary.subwords import PAD, Subwords
from xnmt_bench.nmt.base import NMTModel, Prefix, Reader, last_of
from xnmt_bench.nmt.batch import AttentionWeights, Encoding, Layout
from xnmt_bench.nmt.output import LinearOutput
from xnmt_bench.options import Rate, Size

States = tuple[Tensor, ...]


class RNNSearch(LinearOutput, NMTModel):
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
        dimension: Size = 256,
        encoder_hidden: Size = 256,
        decoder_hidden: Size = 512,
        dropout: Rate = 0.2,
    ) -> None:
        super().__init__()
        self.source_subwords, self.target_subwords = source_subwords, target_subwords
        self.source_embedding = nn.Embedding(len(source_subwords), dimension, padding_idx=PAD)
        self.target_embedding = nn.Embedding(len(target_subwords), dimension, padding_idx=PAD)
        # Behind both, since the order of these draws is part of what a seed means.
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.uniform_(embedding.weight, -0.1, 0.1)
            with torch.no_grad():
                embedding.weight[PAD].zero_()
        memory = 2 * encoder_hidden  # both directions side by side
        self.encoder = nn.LSTM(dimension, encoder_hidden, batch_first=True, bidirectional=True)
        self.start = nn.Linear(encoder_hidden, decoder_hidden)
        self.make_attention(memory, decoder_hidden)
        # A cell and not an LSTM layer: attention of step t is part of its input.
        self.cell = nn.LSTMCell(dimension + memory, decoder_hidden)
        # State, attended source and word, as the paper's deep output reads them.
        self.readout = nn.Linear(decoder_hidden + memory + dimension, dimension)
        self.output = nn.Linear(dimension, len(target_subwords))
        self.dropout = nn.Dropout(dropout)

    def make_attention(self, memory: int, units: int) -> None:
        """Make the layers of `look`.

        Args:
            memory: dimension of the encoder's states.
            units: of the decoder's state, and of the attention.
        """
        self.attention_query = nn.Linear(units, units, bias=False)
        self.attention_key = nn.Linear(memory, units)
        self.attention_energy = nn.Linear(units, 1, bias=False)

    def embed_source(self, ids_BS: Tensor) -> Tensor:
        """Return source embeddings (B, S, D)."""
        return self.source_embedding(ids_BS)

    def embed_target(self, ids_BT: Tensor) -> Tensor:
        """Return target embeddings (B, T, D)."""
        return self.target_embedding(ids_BT)

    def encode(self, source_BSD: Tensor, layout: Layout) -> Encoding:
        """Encode source embeddings; `extra` holds the first hidden state and attention's keys."""
        states, (hidden, _) = self.run_encoder(source_BSD, layout)
        start = torch.tanh(self.start(hidden[1]))  # the backward direction has read it all
        # Keys do not depend on the step, so they are computed once for all steps.
        return Encoding(states, layout, (start, self.attention_key(states)))

    def run_encoder(self, source_BSD: Tensor, layout: Layout) -> tuple[Tensor, States]:
        """Return the encoder's states (B, S, D), and its layers' last hidden and cell states."""
        lengths_B = layout.mask_BS.sum(1).cpu()  # where packing wants them
        # Packing keeps the backward direction from starting in the padding.
        packed = nn.utils.rnn.pack_padded_sequence(
            self.dropout(source_BSD), lengths_B, batch_first=True, enforce_sorted=False
        )
        # Autocast makes a GPU's LSTM compute in float16 under every precision.
        with torch.autocast(source_BSD.device.type, enabled=False):
            output, last = self.encoder(packed)
        states_BSD, _ = nn.utils.rnn.pad_packed_sequence(
            output, batch_first=True, total_length=source_BSD.shape[1]
        )
        return states_BSD, last

    def begin(self, encoding: Encoding) -> States:
        """Return what the first step is given, rows first."""
        return encoding.extra[0], torch.zeros_like(encoding.extra[0])

    def step(
        self, encoding: Encoding, x_BD: Tensor, states: States
    ) -> tuple[Tensor, Tensor, States]:
        """Run a step: return the read-out's input, attention over the source (B, S), states."""
        weight_BS, context = self.look(encoding, states[0])
        states = self.cell(torch.cat([x_BD, context], -1), states)
        return torch.cat([states[0], context, x_BD], -1), weight_BS, states

    def look(self, encoding: Encoding, state_BD: Tensor) -> tuple[Tensor, Tensor]:
        """Return attention over the source (B, S) from a state, and the attended mixture."""
        query = self.attention_query(state_BD)[:, None]
        energy = self.attention_energy(torch.tanh(query + encoding.extra[1]))[..., 0]
        return attend(encoding, energy)

    def read_out(self, features: Tensor) -> Tensor:
        """Return the states that `logits` reads, (..., D)."""
        return torch.tanh(self.readout(features))

    def _decode(self, encoding: Encoding, input_BTD: Tensor) -> tuple[Tensor, Tensor]:
        states, features, weights = self.begin(encoding), [], []
        # Step by step: a state depends on what the step before attended to.
        for x_BD in self.dropout(input_BTD).unbind(1):
            feature, weight_BS, states = self.step(encoding, x_BD, states)
            features.append(feature)
            weights.append(weight_BS)
        return self.dropout(self.read_out(torch.stack(features, 1))), torch.stack(weights, 1)

    def decode(self, encoding: Encoding, input_BTD: Tensor) -> Tensor:
        """Decode a teacher-forced prefix: read-outs (B, T, D)."""
        return self._decode(encoding, input_BTD)[0]

    def attention(self, encoding: Encoding, input_BTD: Tensor) -> AttentionWeights:
        """Return attention over the source; there is none over the prefix."""
        states_BTD, weight_BTS = self._decode(encoding, input_BTD)
        # One layer of one head.
        return AttentionWeights(weight_BTS[:, None, None], None, states_BTD)

    def prefix(self, encoding: Encoding) -> Prefix:
        """Keep the decoder's states."""
        return RecurrentPrefix(self, encoding)

    def reader(self, encoding: Encoding) -> Reader:
        """Keep the decoder's states."""
        return RecurrentReader(self, encoding)


class RecurrentPrefix(Prefix):
    """Goes on from the decoder's states behind any input."""

    model: RNNSearch

    def __init__(self, model: RNNSearch, encoding: Encoding) -> None:
        super().__init__(model, encoding)
        # The state behind every input is kept, since a fork may go on from any of them.
        self._states = [model.begin(encoding)]

    def read(self, input_BXD: Tensor) -> Tensor:
        """Read further inputs of every row: the read-out behind each, (B, X, D)."""
        features = []
        for x_BD in input_BXD.unbind(1):
            feature, _, states = self.model.step(self.encoding, x_BD, self._states[-1])
            self._states.append(states)
            features.append(feature)
        self.steps += input_BXD.shape[1]
        return self.model.read_out(torch.stack(features, 1))

    def _keep(self, forked: Self, steps: int, rows: Tensor) -> None:
        forked._states = [tuple(x[rows] for x in states) for states in self._states[: steps + 1]]


class RecurrentReader(Reader):
    """Goes on from the decoder's states."""

    model: RNNSearch

    def __init__(self, model: RNNSearch, encoding: Encoding) -> None:
        super().__init__(model, encoding)
        self._states = model.begin(encoding)

    def read(self, ids_RT: Tensor) -> Tensor:
        """Read further inputs of every row, padded with PAD; the state behind the last, (R, D)."""
        features = []
        for ids_R in ids_RT.unbind(1):
            x_RD, word_R1 = self.model.embed_target(ids_R), (ids_R != PAD)[:, None]
            feature, _, states = self.model.step(self.encoding, x_RD, self._states)
            # A row that has no word here waits for the others.
            pairs = zip(states, self._states, strict=True)
            self._states = tuple(torch.where(word_R1, new, old) for new, old in pairs)
            features.append(feature)
        return self.model.read_out(last_of(torch.stack(features, 1), ids_RT != PAD))

    def select(self, rows: Tensor) -> None:
        """Go on with some of the rows, in a new order, some perhaps more than once."""
        super().select(rows)
        self._states = tuple(state[rows] for state in self._states)


def attend(encoding: Encoding, energy_BS: Tensor) -> tuple[Tensor, Tensor]:
    """Return attention's weights over the source (B, S) and what they mix of its states (B, D)."""
    # Every source has an EOS, so no row is masked as a whole.
    weight_BS = energy_BS.masked_fill(~encoding.mask_BS, -torch.inf).softmax(-1)
    return weight_BS, (weight_BS[:, None] @ encoding.states_BSD)[:, 0]
