"""fairseq's `lstm`: stacked LSTMs, dot-product attention, and its result fed to the next step."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.base import AttentionWeights, Encoding, Layout, NMTModel, Reader
from xnmt_bench.nmt.fairseq.checkpoint import Options, Weights
from xnmt_bench.nmt.fairseq.subwords import DictionarySubwords


class State(NamedTuple):
    """What one step hands to the next; rows first.

    Attributes:
        hidden: of each layer, (B, H).
        cell: of each layer, (B, H).
        feed: what attention made of the step before, (B, H).
    """

    hidden: list[Tensor]
    cell: list[Tensor]
    feed: Tensor


class FairseqLSTM(NMTModel):
    """A checkpoint's LSTM.

    Args:
        source_subwords: the source dictionary.
        target_subwords: the target dictionary.
        options: the checkpoint's.
        weights: the checkpoint's.
    """

    reads_separators = False
    target_subwords: DictionarySubwords
    start_hidden: nn.Module
    start_cell: nn.Module
    narrow: nn.Module

    def __init__(
        self,
        source_subwords: DictionarySubwords,
        target_subwords: DictionarySubwords,
        options: Options,
        weights: Weights,
    ) -> None:
        super().__init__()
        self.source_subwords, self.target_subwords = source_subwords, target_subwords
        if str(options.get("decoder_attention", "1")).lower() not in ("1", "true"):
            raise XnmtError(f"{options.path}: decoder_attention=0 is not supported")
        self.source_embedding, self.target_embedding = (
            nn.Embedding.from_pretrained(
                weights.take(f"{side}.embed_tokens.weight")[subwords.ids.theirs_V]
            )
            for side, subwords in (("encoder", source_subwords), ("decoder", target_subwords))
        )
        layers, hidden = options["decoder_layers"], options["decoder_hidden_size"]
        self.encoder = nn.LSTM(
            options["encoder_embed_dim"],
            options["encoder_hidden_size"],
            options["encoder_layers"],
            batch_first=True,
            bidirectional=bool(options.get("encoder_bidirectional")),
        )
        for name, _ in list(self.encoder.named_parameters()):
            setattr(self.encoder, name, nn.Parameter(weights.take(f"encoder.lstm.{name}")))
        first = options["decoder_embed_dim"] + hidden
        self.cells = nn.ModuleList(
            nn.LSTMCell(hidden if n else first, hidden) for n in range(layers)
        )
        for n, cell in enumerate(self.cells):
            for name, _ in list(cell.named_parameters()):
                setattr(cell, name, nn.Parameter(weights.take(f"decoder.layers.{n}.{name}")))
        self.query = _linear(weights, "decoder.attention.input_proj")
        self.mixed = _linear(weights, "decoder.attention.output_proj")
        optional = {
            "start_hidden": "encoder_hidden_proj",
            "start_cell": "encoder_cell_proj",
            "narrow": "additional_fc",
        }
        for name, theirs in optional.items():
            there = f"decoder.{theirs}.weight" in weights
            setattr(self, name, _linear(weights, f"decoder.{theirs}") if there else nn.Identity())
        if "decoder.fc_out.weight" in weights:
            self.output = _linear(weights, "decoder.fc_out")
            ours = target_subwords.ids.theirs_V
            self.output.weight = nn.Parameter(self.output.weight[ours])
            self.output.bias = nn.Parameter(self.output.bias[ours])
        else:
            self.output = nn.Linear(1, 1, bias=False)
            self.output.weight = nn.Parameter(self.target_embedding.weight.clone())

    def embed_source(self, ids_BS: Tensor) -> Tensor:
        """Source embeddings (B, S, D)."""
        return self.source_embedding(ids_BS)

    def embed_target(self, ids_BT: Tensor) -> Tensor:
        """Embeddings of decoder inputs (B, T, D)."""
        return self.target_embedding(ids_BT)

    def encode(self, source_BSD: Tensor, layout: Layout) -> Encoding:
        """Encodes source embeddings; `extra` holds the decoder's first states, layer by layer."""
        packed = nn.utils.rnn.pack_padded_sequence(
            source_BSD, layout.mask_BS.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        output, last = self.encoder(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            output, batch_first=True, total_length=source_BSD.shape[1]
        )
        layers, rows = len(self.cells), len(source_BSD)
        # Both directions of a layer side by side.
        hidden, cell = (x.view(layers, -1, rows, x.shape[2]).transpose(1, 2).flatten(2)
                        for x in last)  # fmt: skip
        start = [*self.start_hidden(hidden), *self.start_cell(cell)]
        return Encoding(states, layout, tuple(start))

    def start(self, encoding: Encoding) -> State:
        """The state before the first step."""
        layers = len(self.cells)
        hidden, cell = list(encoding.extra[:layers]), list(encoding.extra[layers:])
        return State(hidden, cell, torch.zeros_like(hidden[0]))

    def step(self, encoding: Encoding, x_BD: Tensor, state: State) -> tuple[State, Tensor]:
        """One step: the new state, and the attention over the source (B, S)."""
        seen = torch.cat([x_BD, state.feed], dim=1)
        hidden, cell = [], []
        for layer, h, c in zip(self.cells, state.hidden, state.cell, strict=True):
            seen, c_new = layer(seen, (h, c))
            hidden.append(seen)
            cell.append(c_new)
        energy = (encoding.states_BSD @ self.query(seen)[..., None])[..., 0]
        weight_BS = energy.masked_fill(~encoding.mask_BS, -torch.inf).softmax(-1)
        context = (weight_BS[:, None] @ encoding.states_BSD)[:, 0]
        feed = torch.tanh(self.mixed(torch.cat([context, seen], dim=1)))
        return State(hidden, cell, feed), weight_BS

    def decode(self, encoding: Encoding, input_BTD: Tensor) -> Tensor:
        """Decodes a teacher-forced prefix: states (B, T, D)."""
        return self._decode(encoding, input_BTD)[0]

    def attention(self, encoding: Encoding, input_BTD: Tensor) -> AttentionWeights:
        """Attention over the source; there is none over the prefix."""
        return AttentionWeights(self._decode(encoding, input_BTD)[1][:, None, None], None)

    def _decode(self, encoding: Encoding, input_BTD: Tensor) -> tuple[Tensor, Tensor]:
        state, features, weights = self.start(encoding), [], []
        for x_BD in input_BTD.unbind(1):
            state, weight_BS = self.step(encoding, x_BD, state)
            features.append(state.feed)
            weights.append(weight_BS)
        return self.narrow(torch.stack(features, 1)), torch.stack(weights, 1)

    def reader(self, encoding: Encoding) -> Reader:
        """Keeps the states of the LSTMs."""
        return StateReader(self, encoding)

    def logits(self, states: Tensor) -> Tensor:
        """Unnormalised log-probabilities (..., V); BOS is EOS's input and no word to predict."""
        found = self.output(states)
        found[..., self.target_subwords.ids.unpredictable] = -torch.inf
        return found


class StateReader(Reader):
    """Goes on from the LSTMs' states. Rows read equal numbers of inputs: there is no context."""

    model: FairseqLSTM

    def __init__(self, model: FairseqLSTM, encoding: Encoding) -> None:
        super().__init__(model, encoding)
        self._state = model.start(encoding)

    def read(self, ids_RT: Tensor) -> Tensor:
        """Reads further inputs of every row; the state behind the last, (R, D)."""
        for x_RD in self.model.embed_target(ids_RT).unbind(1):
            self._state, _ = self.model.step(self.encoding, x_RD, self._state)
        return self.model.narrow(self._state.feed)  # type: ignore[no-any-return]

    def select(self, rows: Tensor) -> None:
        """Goes on with some of the rows, in a new order, some perhaps more than once."""
        super().select(rows)
        hidden, cell, feed = self._state
        self._state = State([h[rows] for h in hidden], [c[rows] for c in cell], feed[rows])


def _linear(weights: Weights, stem: str) -> nn.Linear:
    weight = weights.take(f"{stem}.weight")
    bias = weights.take(f"{stem}.bias") if f"{stem}.bias" in weights else None
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    linear.weight = nn.Parameter(weight)
    if bias is not None:
        linear.bias = nn.Parameter(bias)
    return linear
