"""CADec (Voita et al. 2019, section 4.2): a second pass over a sentence, its context and a draft.

U ids of the draft, X rows of a memory, C ids of the current sentence, N sentences; other shapes as
in `nmt.base`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xnmt_bench.corpora.passage import Context
from xnmt_bench.corpora.vocabulary.subwords import BOS, PAD, Subwords
from xnmt_bench.nmt.base import NMTModel, Reader, last_of
from xnmt_bench.nmt.batch import (
    AttentionWeights,
    Batch,
    DraftOptions,
    Encoding,
    Layout,
    pad,
    segments,
    shifted,
)
from xnmt_bench.nmt.context.drafts import NOISE, Drafts, corrupted, sample
from xnmt_bench.nmt.context.second_pass import Memories, SecondPass, Weights
from xnmt_bench.nmt.context.sentences import Sentences, source_numbers
from xnmt_bench.nmt.context.two_step import TwoStep, closed
from xnmt_bench.nmt.output import LinearOutput
from xnmt_bench.nmt.transformer import Cache, causal
from xnmt_bench.options import Few, Rate, Size


class CADec(LinearOutput, TwoStep):
    """A decoder behind a sentence-level Transformer, which reads what that made of each sentence.

    Its memories are the encoder's states of the current sentence and of up to three before it, and
    the decoder's states of a draft of the current one and of the others' translations, each state
    with the embedding of the word that it predicts, and each with its sentence's place.

    Args:
        source_subwords: the source vocabulary.
        target_subwords: the target vocabulary.
        layers: of the Transformer, on each side.
        heads: of each attention, also of the second pass.
        dimension: of embeddings and states.
        feed_forward: inner dimension of the feed-forward blocks.
        dropout: share of activations dropped in training, of the second pass.
        pre_norm: whether layers normalise before each block.
        tied: whether the Transformer's output layer shares the target embeddings.
        second_layers: of the second pass.
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
        second_layers: Few = 6,
    ) -> None:
        sizes = (layers, heads, dimension, feed_forward, dropout, pre_norm, tied)
        super().__init__(source_subwords, target_subwords, *sizes)
        size = (dimension, heads, feed_forward, dropout, pre_norm)
        self.second = SecondPass(second_layers, *size)
        # A layer of its own, since the base's does not learn.
        self.output = nn.Linear(dimension, len(target_subwords), bias=False)
        self.drafts = Drafts(self.base)

    def start_from(self, trained: NMTModel) -> None:
        """Take the weights of a CADec, or of a base, whose output layer it begins with."""
        super().start_from(trained)
        self.drafts.forget()  # they were the old base's
        if not isinstance(trained, CADec):
            with torch.no_grad():
                self.output.weight.copy_(self.base.output.weight)

    @classmethod
    def refuses(cls, context: Context) -> str | None:
        """Refuse contexts on only one side."""
        if context.sentences and not context.target:
            return "needs the context on both sides (nmt.context.target=true)"
        return super().refuses(context)

    def embed_target(self, ids_BT: Tensor) -> Tensor:
        """Return scaled target embeddings (B, T, D) of the base; a separator is embedded as EOS.

        A separator is read as the word that closes the sentence before it. As the first input of
        the sentence behind it, it is BOS for the base and zero for the second pass.
        """
        return super().embed_target(closed(ids_BT))

    def draft(self, source_BS: Tensor) -> Tensor:
        """Return the base's translation of each current sentence (B, U), by beam search."""
        sources = [tuple(row[row != PAD].tolist()) for row in _current_sources(source_BS)]
        return pad(self.drafts(sources), source_BS.device)

    def training_draft(self, batch: Batch, options: DraftOptions) -> Tensor:
        """Return the corrupted reference or a sample of the base (a coin a batch)."""
        vocabulary = len(self.target_subwords)
        pairs = zip(batch.target_BT, batch.current_BT, strict=True)
        target_BC = pad([row[now] for row, now in pairs], batch.target_BT.device)
        if torch.rand(()) < options.corrupted:
            return corrupted(target_BC, options.corruption, vocabulary)
        # A sample may not end; the reference's length bounds it.
        limit_B = (1.2 * (target_BC != PAD).sum(1) + 3).long()
        source_BC = _current_sources(batch.source_BS)
        drawn_BU = sample(self.base, source_BC, limit_B, options.temperature)
        return corrupted(drawn_BU, NOISE, vocabulary)

    def encode(self, source_BSD: Tensor, layout: Layout) -> Encoding:
        """Encode each sentence alone, and the draft of the current one.

        `extra` is the source's keys and values, then the draft's, of each layer of the second pass;
        where the draft is; and the source's of each layer of the base's decoder.

        Raises:
            ValueError: the layout has no draft.
        """
        if layout.draft_BU is None:
            raise ValueError("the batch has no draft: make it with the model's `collate`")
        number_BS = source_numbers(layout)
        sentences, last_B = Sentences(number_BS), number_BS.amax(1)
        alone = self.base.encode(sentences.split(source_BSD), sentences.layout)
        states_BSD = sentences.join(alone.states_BSD)
        current_N = sentences.number_N == last_B[sentences.row_N]
        input_BU = shifted(layout.draft_BU)
        # Sentences are in the order of rows, so that these are one for each row of the batch.
        current = alone.select(current_N.nonzero()[:, 0]).decoding(input_BU)
        # All of the draft in one teacher-forced pass: its words are known.
        draft_BUD = self.base.decode(current, self.base.embed_target(input_BU))
        # Unscaled, as the context's words are in `memories`.
        word_BUD = self.base.target_embedding(layout.draft_BU)
        extra = (
            *self.second.source_memory(states_BSD, last_B[:, None] - number_BS),
            *self.second.target_memory(word_BUD, draft_BUD, torch.zeros_like(input_BU)),
            layout.draft_BU != PAD,
            *map(sentences.join, alone.extra),
        )
        return Encoding(states_BSD, layout, extra)

    def memories(self, encoding: Encoding, input_BTD: Tensor) -> Memories:
        """Return what the second pass reads of sources, drafts, and the context's translations."""
        count, input_BT = len(self.second.layers), encoding.layout.input_BT
        source, drafts = encoding.extra[:count], encoding.extra[count : 2 * count]
        place_BT = source_numbers(encoding.layout).amax(1)[:, None] - input_BT
        states_BTD = self._first_pass(encoding, input_BTD)
        # The state of an input predicts the word that is the next one.
        word_BTD = F.pad(input_BTD[:, 1:], (0, 0, 0, 1)) / self.base.scale
        contexts = self.second.target_memory(word_BTD, states_BTD, place_BT)
        target = [torch.cat(both, dim=1) for both in zip(drafts, contexts, strict=True)]
        # Place 0 is the current sentence, whose own words the second pass reads as its inputs.
        mask_BX = torch.cat([encoding.extra[2 * count], (place_BT > 0) & (input_BT > 0)], dim=1)
        return Memories(source, encoding.mask_BS, target, mask_BX)

    def _first_pass(self, encoding: Encoding, input_BTD: Tensor) -> Tensor:
        """Return the base's states (B, T, D) at the context's translations, each read alone."""
        number_BS, input_BT = source_numbers(encoding.layout), encoding.layout.input_BT
        # The current sentence is left out: the second pass reads it.
        context_BT = torch.where(input_BT < number_BS.amax(1)[:, None], input_BT, 0)
        targets, sources = Sentences(context_BT), Sentences(number_BS)
        if not len(targets.row_N):
            return torch.zeros_like(input_BTD)
        own_N = sources.find(targets)
        layout = Layout(sources.layout.source_BS[own_N], targets.layout.input_BT)
        kept = encoding.extra[2 * len(self.second.layers) + 1 :]
        states, *keys_values = (sources.split(x)[own_N] for x in (encoding.states_BSD, *kept))
        bos_D = self.base.embed_target(torch.full_like(input_BT[0, 0], BOS))
        # A sentence behind another begins with a separator; the base reads it alone, from BOS on.
        behind_NLD = targets.split(input_BTD)[:, 1:]
        input_NLD = torch.cat([bos_D.expand(len(own_N), 1, -1), behind_NLD], dim=1)
        alone = Encoding(states, layout, tuple(keys_values))
        return targets.join(self.base.decode(alone, input_NLD))

    def decode(self, encoding: Encoding, input_BTD: Tensor) -> Tensor:
        """Return states (B, T, D) of the current sentence's steps; zero at those of its context."""
        return self._decode(encoding, input_BTD)[0]

    def _decode(
        self, encoding: Encoding, input_BTD: Tensor, weights: Weights | None = None
    ) -> tuple[Tensor, Sentences]:
        """Return states, and where the current sentences are; attention's weights go into lists."""
        current = current_inputs(encoding.layout)
        if not len(current.row_N):  # all that is there is context
            return torch.zeros_like(input_BTD), current
        x_BCD = begun(current.split(input_BTD))
        memories = self.memories(encoding, input_BTD).select(current.row_N)
        positions = torch.arange(x_BCD.shape[1], device=x_BCD.device)
        states_BCD = self.second(x_BCD, positions, causal(x_BCD), memories, weights)
        return current.join(states_BCD), current

    def attention(self, encoding: Encoding, input_BTD: Tensor) -> AttentionWeights:
        """Return the second pass's attention to sources, and to translations but the draft.

        A translation has the mean of the attention to the own prefix and of that to the memory,
        where the row of a state counts for the word next to it.
        """
        weights = Weights([], [], [])
        _, current = self._decode(encoding, input_BTD, weights)
        prefix_NLHCC, cross_NLHCS, memory_NLHCX = (torch.stack(w, dim=1) for w in weights)
        # Behind the draft stands the row of each input, which is of the word behind that.
        # Shifted by one: the state of input t belongs to word t, which input t + 1 is.
        word_NLHCT = F.pad(memory_NLHCX[..., -input_BTD.shape[1] : -1], (1, 0))
        # The steps of the current sentences, as steps of the whole inputs.
        cross_BLHTS, memory_BLHTT = (
            current.join(x.movedim(3, 1)).movedim(1, 3) for x in (cross_NLHCS, word_NLHCT)
        )
        # The mean, so that a row's weights sum to at most 1.
        prefix_BLHTT = (memory_BLHTT + current.square(prefix_NLHCC)) / 2
        return AttentionWeights(cross_BLHTS, prefix_BLHTT)

    def encoder_attention(self, source_BSD: Tensor, layout: Layout) -> Tensor:
        """Return the encoder's self-attention (B, L, H, S, S), which never leaves a sentence."""
        sentences = Sentences(source_numbers(layout))
        layers: list[Tensor] = []
        self.base.encoder_states(sentences.split(source_BSD), sentences.layout, layers)
        return sentences.square(torch.stack(layers, dim=1))

    def reader(self, encoding: Encoding) -> Reader:
        """Keep the memories, and the keys and values of what it has read."""
        return CADecReader(self, encoding)


class CADecReader(Reader):
    """Reads the context's translations once, and each further input once."""

    model: CADec

    def __init__(self, model: CADec, encoding: Encoding) -> None:
        super().__init__(model, encoding)
        self._memories: Memories | None = None
        self._cache = Cache(encoding.states_BSD, len(model.second.layers))

    def read(self, ids_RT: Tensor) -> Tensor:
        """Read further inputs of every row, padded with PAD; the state behind the last, (R, D).

        The first inputs hold all of the context, and the current sentence's beginning.
        """
        x_RCD, mask_RC = self.model.embed_target(ids_RT), ids_RT != PAD
        if self._memories is None:
            encoding = self.encoding.decoding(ids_RT)
            self._memories = self.model.memories(encoding, x_RCD)
            current = current_inputs(encoding.layout)
            if len(current.row_N) < len(ids_RT):
                raise ValueError("a source has a context that its target's first inputs have not")
            x_RCD, mask_RC = begun(current.split(x_RCD)), current.mask_NL
        positions, allowed = self._cache.open(mask_RC)
        x_RCD = self.model.second(x_RCD, positions, allowed, self._memories, grow=self._cache.grow)
        return last_of(x_RCD, mask_RC)

    def select(self, rows: Tensor) -> None:
        """Go on with some of the rows, in a new order, some perhaps more than once."""
        self._cache.select(rows)
        if self._memories is not None:  # which hold all of the encoding that is read again
            self._memories = self._memories.select(rows)


def current_inputs(layout: Layout) -> Sentences:
    """Return where the current sentence's inputs are, in the rows that have come to it."""
    last_B = source_numbers(layout).amax(1)
    return Sentences((layout.input_BT == last_B[:, None]).long())


def begun(x_BCD: Tensor) -> Tensor:
    """Return inputs of sentences, the first of which is zero (the authors' code)."""
    return torch.cat([torch.zeros_like(x_BCD[:, :1]), x_BCD[:, 1:]], dim=1)


def _current_sources(source_BS: Tensor) -> Tensor:
    """Return the current sentence of each source, padded."""
    number_BS = source_numbers(Layout(segments(source_BS), source_BS))
    rows = zip(source_BS, number_BS, strict=True)
    return pad([row[number == number.max()] for row, number in rows], source_BS.device)
