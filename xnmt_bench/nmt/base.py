"""The interface of a model under explanation.

Shapes: B sentences, S source ids (EOS included), T target ids (EOS included), D embedding, H heads,
L layers, V target vocabulary. Decoder input t is y_{t-1} (BOS for t = 0), so that step t predicts
y_t; its prefix words are y_0..y_{t-1}, counted from 0 in code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from xnmt_bench.corpora.sentence import Gold
from xnmt_bench.corpora.subwords import BOS, EOS, PAD, SEPARATOR, Subwords

Ids = Sequence[int] | np.ndarray
OUTPUT_ROWS = 1024  # of the output layer at once: its memory is this times V, whatever the batch


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as ids, EOS included and padded with PAD.

    Attributes:
        source_BS: source ids.
        target_BT: the target whose prefixes are the contexts.
        labels_BT: the label of each step, f(c_t) or another; None before anybody has decided.
        gold: the annotation of each pair, for the explainers that ask for it.
    """

    source_BS: Tensor
    target_BT: Tensor
    labels_BT: Tensor | None = None
    gold: tuple[Gold, ...] | None = None

    @classmethod
    def collate(cls, pairs: Sequence[tuple[Ids, Ids]]) -> Batch:
        """Pads pairs of id sequences."""
        return cls(pad(x for x, _ in pairs), pad(y for _, y in pairs))

    @property
    def source_mask_BS(self) -> Tensor:
        """True where there is a source id."""
        return self.source_BS != PAD

    @property
    def target_mask_BT(self) -> Tensor:
        """True where there is a step."""
        return self.target_BT != PAD

    @property
    def layout(self) -> Layout:
        """Where the ids are, and which segment each belongs to."""
        # An input is there where its step is; its own ids would count EOS's place in a shorter row.
        return Layout(segments(self.source_BS), segments(self.input_BT, self.target_mask_BT))

    @property
    def current_BT(self) -> Tensor:
        """True for the steps of the current sentence: those behind the last separator."""
        # Turned around, the running count is of the separators that are still to come.
        to_come_BT = (self.target_BT == SEPARATOR).flip(1).cumsum(1).flip(1)
        return (to_come_BT == 0) & self.target_mask_BT

    @property
    def input_BT(self) -> Tensor:
        """The decoder's inputs: BOS, then the target without its last id."""
        bos = torch.full_like(self.target_BT[:, :1], BOS)
        return torch.cat([bos, self.target_BT[:, :-1]], dim=1)

    def labelled(self, labels_BT: Tensor) -> Batch:
        """The same sentences with labels."""
        return replace(self, labels_BT=labels_BT)

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on a device."""
        labels = None if self.labels_BT is None else self.labels_BT.to(device)
        return Batch(self.source_BS.to(device), self.target_BT.to(device), labels, self.gold)


def pad(rows: Iterable[Ids | Tensor], device: torch.device | None = None) -> Tensor:
    """Rows of ids as one tensor, padded with PAD behind."""
    tensors = [torch.as_tensor(row, dtype=torch.long, device=device) for row in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)


def segments(ids: Tensor, mask: Tensor | None = None) -> Tensor:
    """The segment of each id, counted from 1, 0 in the padding.

    A separator opens a segment, and so does what stands behind an EOS: a following sentence.

    Args:
        ids: (B, X); the very first may be the BOS of a decoder's input, which opens the first.
        mask: True where there is an id; where the ids are not padding, if not given.
    """
    behind = torch.cat([torch.zeros_like(ids[:, :1]), (ids == EOS)[:, :-1]], dim=1)
    opened = ((ids == SEPARATOR) + behind).cumsum(1)
    opened = opened + 1 - opened[:, :1]  # BOS and the separator are one id
    return opened * (ids != PAD if mask is None else mask)


@dataclass(frozen=True)
class Layout:
    """What a model is told of the ids besides their embeddings.

    Attributes:
        source_BS: segment of each source id, counted from 1; 0 in the padding.
        input_BT: the same for decoder inputs. Models that know of no segments read neither.
    """

    source_BS: Tensor
    input_BT: Tensor

    @property
    def mask_BS(self) -> Tensor:
        """True where there is a source id."""
        return self.source_BS > 0

    def tile(self, times: int) -> Layout:
        """The rows repeated as a block, `times` over: b0 b1 b0 b1 ..."""
        return Layout(self.source_BS.repeat(times, 1), self.input_BT.repeat(times, 1))


@dataclass(frozen=True)
class Encoding:
    """What the encoder hands to the decoder, one row for each sentence.

    Attributes:
        states_BSD: the encoder's states.
        layout: where the ids are.
        extra: further tensors a model wants, rows first.
    """

    states_BSD: Tensor
    layout: Layout
    extra: tuple[Tensor, ...] = ()

    @property
    def mask_BS(self) -> Tensor:
        """True where there is a source id."""
        return self.layout.mask_BS

    def tile(self, times: int) -> Encoding:
        """The rows repeated as a block, `times` over: b0 b1 b0 b1 ..."""
        return self.map(lambda x: x.repeat(times, *[1] * (x.dim() - 1)))

    def select(self, rows: Tensor) -> Encoding:
        """The rows of the given indices."""
        return self.map(lambda x: x[rows])

    def map(self, change: Callable[[Tensor], Tensor]) -> Encoding:
        """The same encoding with every tensor changed."""
        layout = Layout(change(self.layout.source_BS), change(self.layout.input_BT))
        return Encoding(change(self.states_BSD), layout, tuple(map(change, self.extra)))

    def decoding(self, input_BT: Tensor) -> Encoding:
        """The same encoding for other decoder inputs, such as a prefix that has grown."""
        return replace(self, layout=Layout(self.layout.source_BS, segments(input_BT)))


@dataclass(frozen=True)
class AttentionWeights:
    """Attention under teacher forcing.

    Every row sums to 1, less what goes to ids that are the model's own and no part of a sentence,
    such as the language codes that some models read around it.

    Attributes:
        cross_BLHTS: decoder over source ids.
        prefix_BLHTT: decoder over its inputs (input 0 is BOS, input j is y_{j-1}); None where the
            model has no such attention.
    """

    cross_BLHTS: Tensor
    prefix_BLHTT: Tensor | None


class NMTModel(nn.Module, ABC):
    """A translation model as explainers see it. A back-end is a subclass and nothing else.

    Attributes:
        source_subwords, target_subwords: the vocabularies.
        fingerprint: of everything that decides its numbers; set by whoever opens the model.
        longest_target: how many target ids it can read; None for any number.
        reads_separators: whether it was trained on concatenations with SEPARATOR between them.
    """

    source_subwords: Subwords
    target_subwords: Subwords
    fingerprint: str
    longest_target: int | None = None
    reads_separators: bool = True

    @abstractmethod
    def embed_source(self, ids_BS: Tensor) -> Tensor:
        """Embeddings of source words, (B, S, D), before any position is added."""

    @abstractmethod
    def embed_target(self, ids_BT: Tensor) -> Tensor:
        """Embeddings of decoder inputs, (B, T, D), before any position is added."""

    @abstractmethod
    def encode(self, source_BSD: Tensor, layout: Layout) -> Encoding:
        """Encodes source embeddings."""

    @abstractmethod
    def decode(self, encoding: Encoding, input_BTD: Tensor) -> Tensor:
        """Decodes a whole teacher-forced prefix in one pass.

        Returns:
            States (B, T, D'), from which `logits` reads the distribution of each step. State t
            depends on inputs 0..t only.
        """

    @abstractmethod
    def logits(self, states: Tensor) -> Tensor:
        """Unnormalised log-probabilities (..., V) of states (..., D')."""

    @abstractmethod
    def attention(self, encoding: Encoding, input_BTD: Tensor) -> AttentionWeights:
        """The attention weights of the same pass as `decode`."""

    def reader(self, encoding: Encoding) -> Reader:
        """What a search reads targets with."""
        return Reader(self, encoding)

    def encoder_attention(self, source_BSD: Tensor, layout: Layout) -> Tensor | None:
        """The encoder's self-attention (B, L, H, S, S); None where the model has none."""
        return None

    def forward(self, batch: Batch) -> Tensor:
        """Logits (B, T, V) of every step under teacher forcing, from ids."""
        return self.logits(self.states(batch))

    def states(self, batch: Batch) -> Tensor:
        """Decoder states (B, T, D') of every step under teacher forcing, from ids."""
        encoding = self.encode(self.embed_source(batch.source_BS), batch.layout)
        return self.decode(encoding, self.embed_target(batch.input_BT))

    def log_probability(self, states: Tensor, labels: Tensor) -> Tensor:
        """Log-probabilities (...) of labels (...) at states (..., D'), with nothing kept over V."""
        flat = (states.flatten(0, -2), labels.flatten())
        parts = [
            self.logits(s).log_softmax(-1).gather(-1, y[:, None])[:, 0]
            for s, y in zip(*(x.split(OUTPUT_ROWS) for x in flat), strict=True)
        ]
        return torch.cat(parts).view(labels.shape)

    def decide(self, states: Tensor) -> Tensor:
        """The model's own choice f(c_t) = argmax P for each state; shape (...) of ids."""
        parts = states.flatten(0, -2).split(OUTPUT_ROWS)
        return torch.cat([self.logits(s).argmax(-1) for s in parts]).view(states.shape[:-1])


class Reader:
    """Reads the decoder inputs of several rows; this one reads all of them anew each time.

    A model that can go on from where it stood has a reader of its own, which gives the same states.
    """

    def __init__(self, model: NMTModel, encoding: Encoding) -> None:
        self.model, self.encoding = model, encoding
        self._read: list[Tensor] = []

    def read(self, ids_RT: Tensor) -> Tensor:
        """Reads further inputs of every row, padded with PAD: the state behind the last, (R, D)."""
        new = [row[row != PAD] for row in ids_RT]  # rows may read unlike numbers of words
        old = self._read or [row[:0] for row in new]
        self._read = [torch.cat(both) for both in zip(old, new, strict=True)]
        input_RT = pad(self._read)
        input_RTD = self.model.embed_target(input_RT)
        states_RTD = self.model.decode(self.encoding.decoding(input_RT), input_RTD)
        return last_of(states_RTD, input_RT != PAD)

    def select(self, rows: Tensor) -> None:
        """Goes on with some of the rows, in a new order, some perhaps more than once."""
        self.encoding = self.encoding.select(rows)
        if self._read:
            self._read = [self._read[row] for row in rows.tolist()]


def last_of(states_RTD: Tensor, mask_RT: Tensor) -> Tensor:
    """Each row's state at its last input that is no padding, (R, D)."""
    last_R = mask_RT.sum(1) - 1
    return states_RTD[torch.arange(len(last_R), device=last_R.device), last_R]
