"""What goes into a model and between its parts: batches of sentences, layouts, encodings.

Shapes: as in `nmt.base`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.corpora.sentence import Gold
from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS, PAD, SEPARATOR

Ids = Sequence[int] | np.ndarray


@dataclass(frozen=True)
class HostIds:
    """A batch's ids on the host, whose lengths are known there without asking the device.

    Attributes:
        of: the tensors of source and target that they are the ids of.
        source_BS, target_BT: the ids.
    """

    of: tuple[Tensor, Tensor]
    source_BS: np.ndarray
    target_BT: np.ndarray

    @property
    def source_mask_BS(self) -> np.ndarray:
        """True where there is a source id."""
        return self.source_BS != PAD

    @property
    def target_mask_BT(self) -> np.ndarray:
        """True where there is a step."""
        return self.target_BT != PAD

    @property
    def current_BT(self) -> np.ndarray:
        """True for the steps of the current sentence; as `Batch.current_BT`."""
        to_come_BT = (self.target_BT == SEPARATOR)[:, ::-1].cumsum(1)[:, ::-1]
        return (to_come_BT == 0) & self.target_mask_BT

    @property
    def input_BT(self) -> np.ndarray:
        """The decoder's inputs; as `Batch.input_BT`."""
        return np.pad(self.target_BT[:, :-1], ((0, 0), (1, 0)), constant_values=BOS)

    @property
    def lengths(self) -> np.ndarray:
        """How many ids each sentence has on both sides, (B, 2)."""
        return np.stack([self.source_mask_BS.sum(1), self.target_mask_BT.sum(1)], axis=1)


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as ids, EOS included and padded with PAD.

    Attributes:
        source_BS: source ids.
        target_BT: the target whose prefixes are the contexts.
        labels_BT: the label of each step, f(c_t) or another; None until they are decided.
        draft_BU: a first translation of the current sentence, for models that read one too.
        gold: the annotation of each pair, for the explainers that ask for it.
        words: for it, the word of each source id and of each target id of each pair, which the
            annotation counts from 0; below 0 for ids of no word of the current sentence.
        forced: a model's pass over these sentences, from which others go on.
        host: its ids on the host, where they are known; see `on_host`.
    """

    source_BS: Tensor
    target_BT: Tensor
    labels_BT: Tensor | None = None
    draft_BU: Tensor | None = None
    gold: tuple[Gold, ...] | None = None
    words: tuple[tuple[np.ndarray, np.ndarray], ...] | None = None
    # A cache, which does not decide whether two batches are equal.
    forced: Forced | None = field(default=None, compare=False, repr=False)
    host: HostIds | None = field(default=None, compare=False, repr=False)

    @classmethod
    def collate(cls, pairs: Sequence[tuple[Ids, Ids]]) -> Batch:
        """Pad pairs of id sequences."""
        ids = [_pad_on_host(side) for side in zip(*pairs, strict=True)]
        x_BS, y_BT = map(torch.from_numpy, ids)
        return cls(x_BS, y_BT, host=HostIds((x_BS, y_BT), *ids))

    @property
    def on_host(self) -> HostIds:
        """Its ids on the host; where other tensors replaced those it was made with, a copy."""
        sides, stored = (self.source_BS, self.target_BT), self.host
        # Compared by identity: equality would read whole tensors, and wait for the device.
        if stored is not None and all(a is b for a, b in zip(sides, stored.of, strict=True)):
            return stored
        return HostIds(sides, *(ids.cpu().numpy() for ids in sides))

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
        inputs = input_segments(self.input_BT, self.target_mask_BT)
        return Layout(segments(self.source_BS), inputs, self.draft_BU)

    @property
    def current_BS(self) -> Tensor:
        """True for the source ids of the current sentence, EOS included."""
        ends_BS = self.source_BS == EOS
        # Behind its EOS stand following sentences.
        return _behind_separators(self.source_BS) & (ends_BS.cumsum(1) - ends_BS.int() == 0)

    @property
    def current_BT(self) -> Tensor:
        """True for the steps of the current sentence: those behind the last separator."""
        return _behind_separators(self.target_BT) & self.target_mask_BT

    @property
    def input_BT(self) -> Tensor:
        """The decoder's inputs: BOS, then the target without its last id."""
        return shifted(self.target_BT)

    def labelled(self, labels_BT: Tensor) -> Batch:
        """Return the same sentences with labels."""
        return replace(self, labels_BT=labels_BT)

    def to(self, device: torch.device | str) -> Batch:
        """Return the same batch on a device."""
        # A copy that does not block is safe only from pinned memory.
        return self._changed(lambda x: x.to(device, non_blocking=x.is_pinned()))

    def pin_memory(self) -> Batch:
        """Return the same batch where a GPU reads it while others are computed."""
        return self._changed(Tensor.pin_memory)

    def _changed(self, change: Callable[[Tensor], Tensor]) -> Batch:
        labels, draft = (x if x is None else change(x) for x in (self.labels_BT, self.draft_BU))
        # `forced` is dropped: its tensors lie where the batch lay before.
        sides, host = (change(self.source_BS), change(self.target_BT)), self.on_host
        host = HostIds(sides, host.source_BS, host.target_BT)
        return Batch(*sides, labels, draft, self.gold, self.words, host=host)

    def take(self, rows: list[int]) -> Batch:
        """Return some of the sentences, without the padding of the others."""
        # Padding stands behind the words, so that a slice up to the longest row loses none.
        host = self.on_host
        s, t = host.lengths[rows].max(0).tolist()
        sides = self.source_BS[rows, :s], self.target_BT[rows, :t]
        labels, draft = self.labels_BT, self.draft_BU
        gold = None if self.gold is None else tuple(self.gold[row] for row in rows)
        words = None if self.words is None else tuple(self.words[row] for row in rows)
        return Batch(
            *sides,
            None if labels is None else labels[rows, :t],
            None if draft is None else draft[rows, : int((draft[rows] != PAD).sum(1).max())],
            gold,
            words,
            host=HostIds(sides, host.source_BS[rows, :s], host.target_BT[rows, :t]),
        )


def shifted(ids_BT: Tensor) -> Tensor:
    """Return decoder inputs of target ids: BOS, then all but the last."""
    return torch.cat([torch.full_like(ids_BT[:, :1], BOS), ids_BT[:, :-1]], dim=1)


def pad(rows: Iterable[Ids | Tensor], device: torch.device | None = None) -> Tensor:
    """Return rows of ids as one tensor, padded with PAD behind."""
    rows = list(rows)
    # A copy of every row to the host would wait for the device, so tensors are padded where they
    # lie.
    if any(isinstance(row, Tensor) for row in rows):
        tensors = [torch.as_tensor(row, dtype=torch.long, device=device) for row in rows]
        return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)
    return torch.from_numpy(_pad_on_host(rows)).to(device)


def _pad_on_host(rows: Sequence[Ids | Tensor]) -> np.ndarray:
    lengths = [len(row) for row in rows]
    ids = np.full((len(rows), max(lengths)), PAD, dtype=np.int64)
    for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        ids[place, :length] = row
    return ids


def _behind_separators(ids: Tensor) -> Tensor:
    # Turned around, the running count is of the separators that are still to come.
    return (ids == SEPARATOR).flip(1).cumsum(1).flip(1) == 0


def segments(ids: Tensor) -> Tensor:
    """Return the segment of each source id (B, S), counted from 1, 0 in the padding.

    A separator opens a segment, and so does what stands behind an EOS: a following sentence.
    """
    # An EOS belongs to the segment that it closes, so the count rises one place behind it.
    behind = torch.cat([torch.zeros_like(ids[:, :1]), (ids == EOS)[:, :-1]], dim=1)
    return (((ids == SEPARATOR) + behind).cumsum(1) + 1) * (ids != PAD)


def input_segments(ids: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the sentence's number of each decoder input (B, T).

    BOS, whose id is the separator's, opens the first sentence.

    Args:
        ids: the inputs.
        mask: True where there is one; where they are not padding, if not given.
    """
    return (ids == SEPARATOR).cumsum(1) * (ids != PAD if mask is None else mask)


@dataclass(frozen=True)
class Layout:
    """What a model reads of the ids besides their embeddings.

    Attributes:
        source_BS: segment of each source id, counted from 1; 0 in the padding.
        input_BT: the same for decoder inputs. Models that know of no segments read neither.
        draft_BU: ids of a first translation of the current sentence, for models that read one.
        hidden_BS: True for source ids that no state attends to, itself included; None for none.
            Models with `hides_words` read it.
        hidden_BT: the same for decoder inputs.
    """

    source_BS: Tensor
    input_BT: Tensor
    draft_BU: Tensor | None = None
    hidden_BS: Tensor | None = None
    hidden_BT: Tensor | None = None

    @property
    def mask_BS(self) -> Tensor:
        """True where there is a source id."""
        return self.source_BS > 0

    @property
    def attended_BS(self) -> Tensor:
        """True where there is a source id that states may attend to."""
        return self.mask_BS if self.hidden_BS is None else self.mask_BS & ~self.hidden_BS

    def select(self, rows: Tensor) -> Layout:
        """Return the rows of the given indices."""
        return self.map(lambda x: x[rows])

    def map(self, change: Callable[[Tensor], Tensor]) -> Layout:
        """Return the same layout with every tensor changed."""
        optional = (self.draft_BU, self.hidden_BS, self.hidden_BT)
        changed = (None if x is None else change(x) for x in optional)
        return Layout(change(self.source_BS), change(self.input_BT), *changed)


@dataclass(frozen=True)
class Encoding:
    """What the encoder hands to the decoder, one row for each sentence.

    Attributes:
        states_BSD: the encoder's states.
        layout: where the ids are.
        extra: further tensors a model wants, rows first.
        shared: tensors that all rows share, such as the keys of a prompt.
    """

    states_BSD: Tensor
    layout: Layout
    extra: tuple[Tensor, ...] = ()
    shared: tuple[Tensor, ...] = ()

    @property
    def mask_BS(self) -> Tensor:
        """True where there is a source id."""
        return self.layout.mask_BS

    def select(self, rows: Tensor) -> Encoding:
        """Return the rows of the given indices."""
        return self.map(lambda x: x[rows])

    def map(self, change: Callable[[Tensor], Tensor]) -> Encoding:
        """Return the same encoding with every tensor of the rows changed."""
        extra = tuple(map(change, self.extra))
        return Encoding(change(self.states_BSD), self.layout.map(change), extra, self.shared)

    def decoding(self, input_BT: Tensor) -> Encoding:
        """Return the same encoding for other decoder inputs, such as a prefix that has grown."""
        return self.reading(input_segments(input_BT))

    def reading(self, segment_BT: Tensor) -> Encoding:
        """Return the encoding for inputs of these segments."""
        return replace(self, layout=replace(self.layout, input_BT=segment_BT))


@dataclass(frozen=True)
class AttentionWeights:
    """Attention under teacher forcing.

    Every row of each side sums to 1, less what goes to ids that are the model's own and no part of
    a sentence, such as the language codes that some models read around it, or a draft. In a
    decoder-only model one softmax is over both sides, so that a row sums to 1 over both.

    Attributes:
        cross_BLHTS: decoder over source ids.
        prefix_BLHTT: decoder over its inputs (input 0 is BOS, input j is y_{j-1}); None where the
            model has no such attention.
        states_BTD: what `decode` gives, which the same pass has computed; None where it has not.
    """

    cross_BLHTS: Tensor
    prefix_BLHTT: Tensor | None
    states_BTD: Tensor | None = None


@dataclass(frozen=True)
class DraftOptions:
    """What a second pass is trained on in the place of a draft (Voita et al. 2019, section 5.1).

    Attributes:
        corrupted: how often, batch by batch, it is the reference with noise, else a sample of the
            first pass.
        corruption: share of the reference's words that are replaced by random ones.
        temperature: of the samples.
    """

    corrupted: float = 0.5
    corruption: float = 0.2
    temperature: float = 0.5


# Labels do not enter a pass: it may be shared by batches that are labelled otherwise.
_READ = ("source_BS", "target_BT", "draft_BU")  # of a batch, what a model reads


class Forced:
    """A model's pass over a batch under teacher forcing; each part is computed once.

    Args:
        model: an `NMTModel`.
        batch: the sentences.
    """

    def __init__(self, model: Any, batch: Batch) -> None:
        self.model, self._batch = model, batch

    @classmethod
    def of(cls, model: Any, batch: Batch) -> Forced:
        """Return the batch's pass if it is this model's and of these ids, else a new one."""
        stored = batch.forced
        if stored is None or stored.model is not model:
            return cls(model, batch)
        pairs = ((getattr(b, name) for b in (batch, stored._batch)) for name in _READ)
        # Compared by identity: equality would read whole tensors, and wait for the device.
        return stored if all(a is b for a, b in pairs) else cls(model, batch)

    @cached_property
    def encoding(self) -> Encoding:
        """The encoding of the source."""
        batch = self._batch
        return self.model.encode(self.model.embed_source(batch.source_BS), batch.layout)

    @cached_property
    def input_BTD(self) -> Tensor:
        """The embeddings of the decoder's inputs."""
        return self.model.embed_target(self._batch.input_BT)

    @cached_property
    def attention(self) -> AttentionWeights:
        """The attention weights. Ask for them before the states: one pass then gives both."""
        return self.model.attention(self.encoding, self.input_BTD)

    @cached_property
    def states_BTD(self) -> Tensor:
        """The decoder's states."""
        weights = self.__dict__.get("attention")
        if weights is not None and weights.states_BTD is not None:
            return weights.states_BTD
        return self.model.decode(self.encoding, self.input_BTD)
