"""The interface of a model under explanation.

Shapes: B sentences, S source ids (EOS included), T target ids (EOS included), D embedding, H heads,
L layers, V target vocabulary. Decoder input t is y_{t-1} (BOS for t = 0), so that step t predicts
y_t; its prefix words are y_0..y_{t-1}, counted from 0 in code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from xnmt_bench.corpora.encoded import Context
from xnmt_bench.corpora.sentence import Gold
from xnmt_bench.corpora.subwords import BOS, EOS, PAD, SEPARATOR, Subwords
from xnmt_bench.device import device_of
from xnmt_bench.nmt import output
from xnmt_bench.nmt.prefix import Prefix

Ids = Sequence[int] | np.ndarray
# Logits of whole vocabularies that are held at once: elsewhere, and on the CPU, where less is
# faster; yet there of so many states at least, since for few the weights are read in vain.
OUTPUT_NUMBERS, OUTPUT_ROWS = (1 << 27, 1 << 22), (1, 64)


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as ids, EOS included and padded with PAD.

    Attributes:
        source_BS: source ids.
        target_BT: the target whose prefixes are the contexts.
        labels_BT: the label of each step, f(c_t) or another; None before anybody has decided.
        draft_BU: a first translation of the current sentence, for models that read one too.
        gold: the annotation of each pair, for the explainers that ask for it.
        forced: a model's pass over these sentences, from which others go on.
    """

    source_BS: Tensor
    target_BT: Tensor
    labels_BT: Tensor | None = None
    draft_BU: Tensor | None = None
    gold: tuple[Gold, ...] | None = None
    forced: Forced | None = field(default=None, compare=False, repr=False)

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
        inputs = input_segments(self.input_BT, self.target_mask_BT)
        return Layout(segments(self.source_BS), inputs, self.draft_BU)

    @property
    def current_BT(self) -> Tensor:
        """True for the steps of the current sentence: those behind the last separator."""
        # Turned around, the running count is of the separators that are still to come.
        to_come_BT = (self.target_BT == SEPARATOR).flip(1).cumsum(1).flip(1)
        return (to_come_BT == 0) & self.target_mask_BT

    @property
    def input_BT(self) -> Tensor:
        """The decoder's inputs: BOS, then the target without its last id."""
        return shifted(self.target_BT)

    def labelled(self, labels_BT: Tensor) -> Batch:
        """The same sentences with labels."""
        return replace(self, labels_BT=labels_BT)

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on a device."""
        return self._changed(lambda x: x.to(device, non_blocking=x.is_pinned()))

    def pin_memory(self) -> Batch:
        """The same batch where a GPU reads it while others are computed."""
        return self._changed(Tensor.pin_memory)

    def _changed(self, change: Callable[[Tensor], Tensor]) -> Batch:
        labels, draft = (x if x is None else change(x) for x in (self.labels_BT, self.draft_BU))
        return Batch(change(self.source_BS), change(self.target_BT), labels, draft, self.gold)

    def take(self, rows: list[int]) -> Batch:
        """Some of the sentences, without the padding of the others."""
        s, t = (int(mask[rows].sum(1).max()) for mask in (self.source_mask_BS, self.target_mask_BT))
        labels, draft = self.labels_BT, self.draft_BU
        gold = None if self.gold is None else tuple(self.gold[row] for row in rows)
        return Batch(
            self.source_BS[rows, :s],
            self.target_BT[rows, :t],
            None if labels is None else labels[rows, :t],
            None if draft is None else draft[rows, : int((draft[rows] != PAD).sum(1).max())],
            gold,
        )


def shifted(ids_BT: Tensor) -> Tensor:
    """Decoder inputs of target ids: BOS, then all but the last."""
    return torch.cat([torch.full_like(ids_BT[:, :1], BOS), ids_BT[:, :-1]], dim=1)


def pad(rows: Iterable[Ids | Tensor], device: torch.device | None = None) -> Tensor:
    """Rows of ids as one tensor, padded with PAD behind."""
    rows = list(rows)
    if any(isinstance(row, Tensor) for row in rows):
        tensors = [torch.as_tensor(row, dtype=torch.long, device=device) for row in rows]
        return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)
    lengths = [len(row) for row in rows]
    ids = np.full((len(rows), max(lengths)), PAD, dtype=np.int64)
    for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        ids[place, :length] = row
    return torch.from_numpy(ids).to(device)


def segments(ids: Tensor) -> Tensor:
    """The segment of each source id (B, S), counted from 1, 0 in the padding.

    A separator opens a segment, and so does what stands behind an EOS: a following sentence.
    """
    behind = torch.cat([torch.zeros_like(ids[:, :1]), (ids == EOS)[:, :-1]], dim=1)
    return (((ids == SEPARATOR) + behind).cumsum(1) + 1) * (ids != PAD)


def input_segments(ids: Tensor, mask: Tensor | None = None) -> Tensor:
    """The same of decoder inputs (B, T), of which BOS, the separator's own id, opens the first.

    Args:
        ids: the inputs.
        mask: True where there is one; where they are not padding, if not given.
    """
    return (ids == SEPARATOR).cumsum(1) * (ids != PAD if mask is None else mask)


@dataclass(frozen=True)
class Layout:
    """What a model is told of the ids besides their embeddings.

    Attributes:
        source_BS: segment of each source id, counted from 1; 0 in the padding.
        input_BT: the same for decoder inputs. Models that know of no segments read neither.
        draft_BU: ids of a first translation of the current sentence, for models that read one.
    """

    source_BS: Tensor
    input_BT: Tensor
    draft_BU: Tensor | None = None

    @property
    def mask_BS(self) -> Tensor:
        """True where there is a source id."""
        return self.source_BS > 0

    def select(self, rows: Tensor) -> Layout:
        """The rows of the given indices."""
        return self.map(lambda x: x[rows])

    def map(self, change: Callable[[Tensor], Tensor]) -> Layout:
        """The same layout with every tensor changed."""
        draft = None if self.draft_BU is None else change(self.draft_BU)
        return Layout(change(self.source_BS), change(self.input_BT), draft)


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

    def select(self, rows: Tensor) -> Encoding:
        """The rows of the given indices."""
        return self.map(lambda x: x[rows])

    def map(self, change: Callable[[Tensor], Tensor]) -> Encoding:
        """The same encoding with every tensor changed."""
        extra = tuple(map(change, self.extra))
        return Encoding(change(self.states_BSD), self.layout.map(change), extra)

    def decoding(self, input_BT: Tensor) -> Encoding:
        """The same encoding for other decoder inputs, such as a prefix that has grown."""
        return self.reading(input_segments(input_BT))

    def reading(self, segment_BT: Tensor) -> Encoding:
        """The same by the segments of the inputs."""
        return replace(self, layout=replace(self.layout, input_BT=segment_BT))


@dataclass(frozen=True)
class AttentionWeights:
    """Attention under teacher forcing.

    Every row sums to 1, less what goes to ids that are the model's own and no part of a sentence,
    such as the language codes that some models read around it, or a draft.

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


class NMTModel(nn.Module, ABC):
    """A translation model as explainers see it. A back-end is a subclass and nothing else.

    Attributes:
        source_subwords, target_subwords: the vocabularies.
        fingerprint: of everything that decides its numbers; set by whoever opens the model.
        longest_target: how many target ids it can read; None for any number.
        reads_separators: whether it was trained on concatenations with SEPARATOR between them.
        trained_context: the sentences around each that it was trained with, where that is known.
        reads_alone: whether it encodes each sentence of a source by itself, closed by EOS.
        starts_trained: whether training it starts from a trained system.
    """

    source_subwords: Subwords
    target_subwords: Subwords
    fingerprint: str
    longest_target: int | None = None
    reads_separators: bool = True
    trained_context: Context | None = None
    reads_alone: ClassVar[bool] = False
    starts_trained: ClassVar[bool] = False

    @classmethod
    def refuses(cls, context: Context) -> str | None:
        """Why it cannot read such a context; None if it can."""
        if cls.reads_separators or not (context.sentences or context.following):
            return None
        return "knows no separator, so it reads no context"

    def start_from(self, trained: NMTModel) -> None:
        """Takes the weights of a trained model.

        Raises:
            ValueError: it is of another architecture or of other sizes; the message says in what.
        """
        if type(trained) is not type(self):
            raise ValueError(f"a {type(trained).__name__}, which {type(self).__name__} cannot take")
        copy_weights(trained, self)

    def draft(self, source_BS: Tensor) -> Tensor | None:
        """A first translation of each current sentence (B, U), of models that read one too."""
        return None

    def training_draft(self, batch: Batch, options: DraftOptions) -> Tensor | None:
        """What stands for it in training."""
        return None

    def collate(self, pairs: Sequence[tuple[Ids, Ids]]) -> Batch:
        """Pairs of ids as this model reads them, on its device."""
        batch = Batch.collate(pairs).to(device_of(self))
        return replace(batch, draft_BU=self.draft(batch.source_BS))

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

    def prefix(self, encoding: Encoding) -> Prefix[Any]:
        """What reads decoder inputs part by part, and forks."""
        return Prefix(self, encoding)

    def encoder_attention(self, source_BSD: Tensor, layout: Layout) -> Tensor | None:
        """The encoder's self-attention (B, L, H, S, S); None where the model has none."""
        return None

    def forward(self, batch: Batch) -> Tensor:
        """Logits (B, T, V) of every step under teacher forcing, from ids."""
        return self.logits(self.states(batch))

    def states(self, batch: Batch) -> Tensor:
        """Decoder states (B, T, D') of every step under teacher forcing, from ids."""
        return Forced(self, batch).states_BTD

    def logit_parts(self, states_RD: Tensor) -> Iterator[Tensor]:
        """The logits of one part of V after another, (R, P).

        Here all V in one. Who has others is asked of many states at once: on a CPU they are narrow.
        """
        yield self.logits(states_RD)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        of = next(c for c in cls.__mro__ if vars(c).keys() & {"logits", "logit_parts"})
        if "logit_parts" not in vars(of):  # parts of what a subclass has other logits for
            cls.logit_parts = NMTModel.logit_parts  # type: ignore[method-assign]

    def output_rows(self, states: Tensor) -> int:
        """How many of some states (R, D') the output layer is asked of at once."""
        vocabulary, cpu = getattr(self, "target_subwords", None), states.device.type == "cpu"
        width = len(vocabulary) if vocabulary else self.logits(states[:1]).shape[-1]
        return max(OUTPUT_ROWS[cpu], OUTPUT_NUMBERS[cpu] // width)

    def log_probability(self, states: Tensor, labels: Tensor) -> Tensor:
        """Log-probabilities (...) of labels (...) at states (..., D')."""
        flat = states.flatten(0, -2)
        found = [
            output.log_probability(self.logit_parts(s), y)
            for s, y in self._asked(flat, labels.flatten())
        ]
        return torch.cat(found).view(labels.shape)

    def decide(self, states: Tensor, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The model's own choices f(c_t) = argmax P at states (..., D'), as ids (...).

        Beside them log-probabilities (...): of the labels (...), if there are any, else of the
        choices.
        """
        flat = states.flatten(0, -2)
        asked = self._asked(flat, flat if labels is None else labels.flatten())
        found = [
            output.decide(self.logit_parts(s), None if labels is None else y) for s, y in asked
        ]
        choices, log_p = (torch.cat(x).view(states.shape[:-1]) for x in zip(*found, strict=True))
        return choices, log_p

    def _asked(self, flat: Tensor, beside: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """States that the output layer is asked of at once, and what stands beside them."""
        whole = type(self).logit_parts is NMTModel.logit_parts
        parts = flat.device.type == "cpu" and not whole
        rows = output.ROWS if parts else self.output_rows(flat)
        return zip(flat.split(rows), beside.split(rows), strict=True)


_READ = ("source_BS", "target_BT", "draft_BU")  # of a batch, what a model reads


class Forced:
    """A model's pass over a batch under teacher forcing, of which each part is computed once."""

    def __init__(self, model: NMTModel, batch: Batch) -> None:
        self.model, self._batch = model, batch

    @classmethod
    def of(cls, model: NMTModel, batch: Batch) -> Forced:
        """The batch's own, where it is this model's and of these ids; else another."""
        known = batch.forced
        if known is None or known.model is not model:
            return cls(model, batch)
        pairs = ((getattr(b, name) for b in (batch, known._batch)) for name in _READ)
        return known if all(a is b for a, b in pairs) else cls(model, batch)

    @cached_property
    def encoding(self) -> Encoding:
        """Of the source."""
        batch = self._batch
        return self.model.encode(self.model.embed_source(batch.source_BS), batch.layout)

    @cached_property
    def input_BTD(self) -> Tensor:
        """The decoder's inputs."""
        return self.model.embed_target(self._batch.input_BT)

    @cached_property
    def attention(self) -> AttentionWeights:
        """Its weights; whoever wants states as well asks for these first."""
        return self.model.attention(self.encoding, self.input_BTD)

    @cached_property
    def states_BTD(self) -> Tensor:
        """The decoder's states."""
        asked = self.__dict__.get("attention")
        if asked is not None and asked.states_BTD is not None:
            return asked.states_BTD
        return self.model.decode(self.encoding, self.input_BTD)


def copy_weights(trained: nn.Module, fresh: nn.Module) -> None:
    """Gives a module the weights of another one; a ValueError that names the first misfit."""
    theirs, ours = trained.state_dict(), fresh.state_dict()
    for name in sorted(theirs.keys() | ours.keys()):
        here, there = (tuple(w[name].shape) if name in w else None for w in (ours, theirs))
        if here != there:
            raise ValueError(f"of other sizes: {name} is {there}, here {here}")
    fresh.load_state_dict(theirs)


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
