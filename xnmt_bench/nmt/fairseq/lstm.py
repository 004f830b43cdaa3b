"""fairseq's `lstm`: stacked LSTMs, dot-product attention, and its result fed to the next step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from xnmt_bench.errors import XnmtError
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Encoding, Layout
from xnmt_bench.nmt.fairseq.checkpoint import Options, Weights
from xnmt_bench.nmt.fairseq.subwords import DictionarySubwords
from xnmt_bench.nmt.rnn_search import RNNSearch, States, attend

# Projections that only some checkpoints have, and fairseq's names of them.
OPTIONAL = {
    "start_hidden": "encoder_hidden_proj",
    "start_cell": "encoder_cell_proj",
    "narrow": "additional_fc",
}


class FairseqLSTM(RNNSearch):
    """A checkpoint's LSTM, of its dictionaries, options and weights.

    Its states, in this order: each layer's hidden one, each layer's cell, and what attention made
    of the step before.
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
        NMTModel.__init__(self)  # RNNSearch's would make layers of its own
        self.source_subwords, self.target_subwords = source_subwords, target_subwords
        if str(options.get("decoder_attention", "1")).lower() not in ("1", "true"):  # it is text
            raise XnmtError(f"{options.path}: decoder_attention=0 is not supported")
        self.dropout = nn.Dropout(0.0)  # it is only ever explained
        self.source_embedding = weights.embedding("encoder", source_subwords.ids)
        self.target_embedding = weights.embedding("decoder", target_subwords.ids)
        self.encoder = nn.LSTM(
            options["encoder_embed_dim"],
            options["encoder_hidden_size"],
            options["encoder_layers"],
            batch_first=True,
            bidirectional=bool(options.get("encoder_bidirectional")),
        )
        weights.fill(self.encoder, "encoder.lstm")
        layers, hidden = options["decoder_layers"], options["decoder_hidden_size"]
        # The lowest layer reads the word and what attention made of the step before.
        widths = [options["decoder_embed_dim"] + hidden, *[hidden] * (layers - 1)]
        self.cells = nn.ModuleList(nn.LSTMCell(width, hidden) for width in widths)
        for n, cell in enumerate(self.cells):
            weights.fill(cell, f"decoder.layers.{n}")
        self.query = weights.linear("decoder.attention.input_proj")
        self.mixed = weights.linear("decoder.attention.output_proj")
        for name, fairseq_name in OPTIONAL.items():
            stem = f"decoder.{fairseq_name}"
            there = f"{stem}.weight" in weights
            setattr(self, name, weights.linear(stem) if there else nn.Identity())
        if "decoder.fc_out.weight" in weights:
            self.output = weights.linear("decoder.fc_out")
            for parameter in self.output.parameters():
                parameter.data = parameter.data[target_subwords.ids.theirs_V]  # rows in our order
        else:  # shared with the embeddings, which are in our order already
            self.output = nn.Linear(1, 1, bias=False)
            self.output.weight = self.target_embedding.weight
        self.impossible = target_subwords.ids.unpredictable  # BOS is EOS's input and no word

    def encode(self, source_BSD: Tensor, layout: Layout) -> Encoding:
        """Encode source embeddings; `extra` holds the decoder's first states, layer by layer."""
        states, last = self.run_encoder(source_BSD, layout)
        layers, rows = len(self.cells), len(source_BSD)
        # Both directions of a layer side by side.
        hidden, cell = (
            x.view(layers, -1, rows, x.shape[2]).transpose(1, 2).flatten(2) for x in last
        )
        return Encoding(states, layout, (*self.start_hidden(hidden), *self.start_cell(cell)))

    def begin(self, encoding: Encoding) -> States:
        """Return what the first step is given, rows first."""
        return *encoding.extra, torch.zeros_like(encoding.extra[0])

    def step(
        self, encoding: Encoding, x_BD: Tensor, states: States
    ) -> tuple[Tensor, Tensor, States]:
        """Run a step: return the read-out's input, attention over the source (B, S), states."""
        *kept, feed = states
        layers = len(self.cells)
        state, hidden, cells = torch.cat([x_BD, feed], dim=1), [], []
        for layer, *old in zip(self.cells, kept[:layers], kept[layers:], strict=True):
            state, cell = layer(state, old)
            hidden.append(state)
            cells.append(cell)
        energy = (encoding.states_BSD @ self.query(state)[..., None])[..., 0]
        weight_BS, context = attend(encoding, energy)
        feed = torch.tanh(self.mixed(torch.cat([context, state], dim=1)))
        return feed, weight_BS, (*hidden, *cells, feed)

    def read_out(self, features: Tensor) -> Tensor:
        """Return the states that `logits` reads, (..., D)."""
        return self.narrow(features)  # type: ignore[no-any-return]
