"""The interface of a model under explanation.

Shapes: B sentences, S source ids (EOS included), T target ids (EOS included), D embedding, H heads,
L layers, V target vocabulary, X further decoder inputs. Decoder input t is y_{t-1} (BOS for t = 0),
so that step t predicts y_t; its prefix words are y_0..y_{t-1}, counted from 0 in code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from xnmt_bench.corpora.passage import Context
from xnmt_bench.corpora.vocabulary.subwords import PAD, Subwords
from xnmt_bench.device import device_of, keeps_in_cache
from xnmt_bench.errors import NotApplicable
from xnmt_bench.nmt import output
from xnmt_bench.nmt.batch import (
    AttentionWeights,
    Batch,
    DraftOptions,
    Encoding,
    Forced,
    Ids,
    Layout,
    pad,
)
from xnmt_bench.nmt.blocks import AttentionBlock, Blocks
from xnmt_bench.nmt.vocabulary import fit_vocabularies

# Logits of whole vocabularies that are held at once: elsewhere, and on the CPU, where less is
# faster; yet there of so many states at least, since for few the weights are read in vain.
OUTPUT_NUMBERS, OUTPUT_ROWS = (1 << 27, 1 << 22), (1, 64)


class NMTModel(nn.Module, ABC):
    """A translation model as explainers see it. A back-end is a subclass and nothing else.

    Attributes:
        source_subwords, target_subwords: the vocabularies.
        fingerprint: of everything that decides its numbers; set when the model is opened.
        longest_source: how many source ids it can read, EOS included; None for any number.
        longest_target: the same of target ids.
        reads_separators: of the class: whether it is trained on concatenations with SEPARATOR.
        languages: what it translates from and to, in the model's own codes, where that is known.
        trained_context: the sentences around each that it was trained with, where that is known.
        reads_alone: whether it encodes each source sentence alone, closed by EOS.
        starts_trained: whether training it starts from a trained system.
        one_stack: whether each decoder layer attends to itself and then to the states of one
            encoder, so that attention can be followed through its layers.
        joint_attention: whether one softmax is over source and prefix words, so that attention to
            the source sums to less than 1.
        hides_words: whether it reads `Layout.hidden_BS` and `hidden_BT`.
        task_pieces: a task prefix before every source, which other tools count as its words.
    """

    source_subwords: Subwords
    target_subwords: Subwords
    fingerprint: str
    longest_source: int | None = None
    longest_target: int | None = None
    reads_separators: ClassVar[bool] = True
    languages: tuple[str, str] | None = None
    trained_context: Context | None = None
    reads_alone: ClassVar[bool] = False
    starts_trained: ClassVar[bool] = False
    one_stack: ClassVar[bool] = False
    joint_attention: ClassVar[bool] = False
    hides_words: ClassVar[bool] = False
    task_pieces: Sequence[str] = ()

    @classmethod
    def refuses(cls, context: Context) -> str | None:
        """Return why it cannot read such a context; None if it can."""
        if cls.reads_separators or not (context.sentences or context.following):
            return None
        return (
            "has no separator of sentences, so it cannot read a context; of a model that was "
            "trained with one nmt.reader.separator names it"
        )

    def start_from(self, trained: NMTModel) -> None:
        """Take the weights of a trained model; see `fit_vocabularies` for other vocabularies.

        Raises:
            ValueError: it is of another architecture or of other sizes; the message says in what.
        """
        if type(trained) is not type(self):
            raise ValueError(
                f"the trained system is a {type(trained).__name__}, expected a "
                f"{type(self).__name__}"
            )
        copy_weights(trained, self)

    @property
    def vocabularies(self) -> tuple[Subwords, Subwords]:
        """Those of source and target."""
        return self.source_subwords, self.target_subwords

    def draft(self, source_BS: Tensor) -> Tensor | None:
        """Return a first translation of each current sentence (B, U), for models that read one."""
        return None

    def training_draft(self, batch: Batch, options: DraftOptions) -> Tensor | None:
        """Return what replaces the first translation in training."""
        return None

    def collate(self, pairs: Sequence[tuple[Ids, Ids]]) -> Batch:
        """Return pairs of ids as this model reads them, on its device."""
        # The draft is searched on the device, so ids move there first.
        batch = Batch.collate(pairs).to(device_of(self))
        return replace(batch, draft_BU=self.draft(batch.source_BS))

    @abstractmethod
    def embed_source(self, ids_BS: Tensor) -> Tensor:
        """Return embeddings of source words, (B, S, D), before any position is added."""

    @abstractmethod
    def embed_target(self, ids_BT: Tensor) -> Tensor:
        """Return embeddings of decoder inputs, (B, T, D), before any position is added."""

    @abstractmethod
    def encode(self, source_BSD: Tensor, layout: Layout) -> Encoding:
        """Encode source embeddings."""

    def encode_again(
        self, encoding: Encoding, rows: Tensor, start: int, source_BSD: Tensor, layout: Layout
    ) -> Encoding:
        """Encode sources of which the ids before a place have been encoded.

        Here all is read anew. A model whose states see only what stands before them goes on from
        that place.

        Args:
            encoding: in which the ids before the place were the same.
            rows: of it, one for each source, some perhaps more than once.
            start: the place, from 0.
            source_BSD: the embeddings of all ids.
            layout: of the rows.
        """
        return self.encode(source_BSD, layout)

    @abstractmethod
    def decode(self, encoding: Encoding, input_BTD: Tensor) -> Tensor:
        """Decode a whole teacher-forced prefix in one pass.

        Returns:
            States (B, T, D'), from which `logits` reads the distribution of each step. State t
            depends on inputs 0..t only.
        """

    def decode_steps(
        self, encoding: Encoding, input_BTD: Tensor, row_N: Tensor, step_N: Tensor
    ) -> Tensor:
        """Return the states of some steps, (N, D').

        Args:
            encoding: of the source.
            input_BTD: embeddings of decoder inputs.
            row_N: the row of each step.
            step_N: the steps.
        """
        return self.decode(encoding, input_BTD)[row_N, step_N]

    @abstractmethod
    def logits(self, states: Tensor) -> Tensor:
        """Return unnormalised log-probabilities (..., V) of states (..., D')."""

    @abstractmethod
    def attention(self, encoding: Encoding, input_BTD: Tensor) -> AttentionWeights:
        """Return the attention weights of the same pass as `decode`."""

    def reader(self, encoding: Encoding) -> Reader:
        """Return what a search reads targets with."""
        return Reader(self, encoding)

    def prefix(self, encoding: Encoding) -> Prefix:
        """Return what reads decoder inputs part by part, and forks."""
        return Prefix(self, encoding)

    def encoder_attention(self, source_BSD: Tensor, layout: Layout) -> Tensor | None:
        """Return the encoder's self-attention (B, L, H, S, S); None for a model without it."""
        return None

    def attention_layers(self, batch: Batch) -> Blocks[Tensor]:
        """Return the attention weights of each block, (B, H, Q, K), under teacher forcing.

        Raises:
            NotApplicable: the layers of the model are not one stack of attention.
        """
        if not self.one_stack:
            # A second encoder or pass is another way down, which one product of layers leaves out.
            raise NotApplicable("it needs a model whose layers are one stack of attention")
        encoder = self.encoder_attention(self.embed_source(batch.source_BS), batch.layout)
        weights = Forced.of(self, batch).attention
        assert encoder is not None and weights.prefix_BLHTT is not None, "it is one stack"
        sides = (weights.prefix_BLHTT, weights.cross_BLHTS)
        decoder = [*zip(*(side.unbind(1) for side in sides), strict=True)]
        return Blocks([*encoder.unbind(1)], decoder, slice(batch.source_BS.shape[1]))

    def attention_blocks(self, batch: Batch) -> Blocks[AttentionBlock]:
        """Return what each attention block adds, under teacher forcing, in evaluation mode.

        Raises:
            NotApplicable: of this model it cannot be read.
        """
        raise NotApplicable(
            f"the attention blocks of {type(self).__name__} cannot be read; this needs a "
            "Transformer of one stack, or with one encoder and one decoder"
        )

    def forward(self, batch: Batch) -> Tensor:
        """Return logits (B, T, V) of every step under teacher forcing, from ids."""
        return self.logits(self.states(batch))

    def states(self, batch: Batch) -> Tensor:
        """Return decoder states (B, T, D') of every step under teacher forcing, from ids."""
        return Forced(self, batch).states_BTD

    def logit_parts(self, states_RD: Tensor) -> Iterator[Tensor]:
        """Yield the logits of one part of V after another, (R, P).

        Here all V in one. A subclass gives parts for many states at once, narrow on a CPU.
        """
        yield self.logits(states_RD)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Whichever of the two methods stands lowest in the tree decides. A subclass that changes
        # `logits` must not answer with the parts of the class above it.
        of = next(c for c in cls.__mro__ if vars(c).keys() & {"logits", "logit_parts"})
        if "logit_parts" not in vars(of):  # parts of what a subclass has other logits for
            cls.logit_parts = NMTModel.logit_parts  # type: ignore[method-assign]

    def output_rows(self, states: Tensor) -> int:
        """Return how many of some states (R, D') the output layer reads at once."""
        vocabulary, cpu = getattr(self, "target_subwords", None), keeps_in_cache(states.device)
        # A model without subwords shows its width by its logits.
        width = len(vocabulary) if vocabulary else self.logits(states[:1]).shape[-1]
        return max(OUTPUT_ROWS[cpu], OUTPUT_NUMBERS[cpu] // width)

    def log_probability(self, states: Tensor, labels: Tensor) -> Tensor:
        """Return log-probabilities (...) of labels (...) at states (..., D')."""
        flat = states.flatten(0, -2)
        parts = [
            output.log_probability(self.logit_parts(s), y)
            for s, y in self._asked(flat, labels.flatten())
        ]
        return torch.cat(parts).view(labels.shape)

    def decide(self, states: Tensor, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the model's own choices f(c_t) = argmax P at states (..., D'), as ids (...).

        Beside them log-probabilities (...): of the labels (...), if there are any, else of the
        choices.
        """
        flat = states.flatten(0, -2)
        rows_asked = self._asked(flat, flat if labels is None else labels.flatten())
        parts = [
            output.decide(self.logit_parts(s), None if labels is None else y) for s, y in rows_asked
        ]
        choices, log_p = (torch.cat(x).view(states.shape[:-1]) for x in zip(*parts, strict=True))
        return choices, log_p

    def _asked(self, flat: Tensor, paired: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield states that the output layer reads at once, and the tensors that go with them."""
        # Parts of V keep memory small however many states there are; whole logits have to be
        # bounded by rows.
        has_whole_logits = type(self).logit_parts is NMTModel.logit_parts
        parts = keeps_in_cache(flat.device) and not has_whole_logits
        rows = output.ROWS if parts else self.output_rows(flat)
        return zip(flat.split(rows), paired.split(rows), strict=True)


def copy_weights(trained: NMTModel, fresh: NMTModel) -> None:
    """Give a model the weights of another one; a ValueError that names the first misfit."""
    trained_weights, fresh_weights = trained.state_dict(), fresh.state_dict()
    trained_weights = fit_vocabularies(trained_weights, trained.vocabularies, fresh.vocabularies)
    # Sorted, so that the same misfit gives the same message.
    for name in sorted(trained_weights.keys() | fresh_weights.keys()):
        here, there = (
            tuple(w[name].shape) if name in w else None for w in (fresh_weights, trained_weights)
        )
        if here != there:
            raise ValueError(f"weight {name} has shape {there}, expected {here}")
    # Shapes have been compared above, so that the error names sizes and not torch's keys.
    fresh.load_state_dict(trained_weights)


class Reader:
    """Reads the decoder inputs of several rows; this one reads all of them anew each time.

    A model that can go on from where it stood has a reader of its own, which gives the same states.

    Attributes:
        reads_padding: of the class: whether rows may read unlike numbers of inputs at once.
    """

    reads_padding: ClassVar[bool] = True

    def __init__(self, model: NMTModel, encoding: Encoding) -> None:
        self.model, self.encoding = model, encoding
        self._read: list[Tensor] = []

    def read(self, ids_RT: Tensor) -> Tensor:
        """Read further inputs of every row, padded with PAD: the state behind the last, (R, D)."""
        new = [row[row != PAD] for row in ids_RT]  # rows may read unlike numbers of words
        old = self._read or [row[:0] for row in new]  # before the first read no row has any
        self._read = [torch.cat(both) for both in zip(old, new, strict=True)]
        input_RT = pad(self._read)
        input_RTD = self.model.embed_target(input_RT)
        states_RTD = self.model.decode(self.encoding.decoding(input_RT), input_RTD)
        return last_of(states_RTD, input_RT != PAD)

    def select(self, rows: Tensor) -> None:
        """Go on with some of the rows, in a new order, some perhaps more than once."""
        self.encoding = self.encoding.select(rows)
        if self._read:
            self._read = [self._read[row] for row in rows.tolist()]


class Prefix:
    """Decoder inputs that have been read as embeddings: it goes on from any step, with any inputs.

    A state depends on the inputs up to its own, so what stands before a change is computed once.
    This one reads all inputs anew each time. A model that can go on from where it stood has a
    prefix of its own, which gives the same states.

    Attributes:
        model: that reads.
        encoding: of the source; its layout is of all inputs, those that are yet to be read too.
        steps: how many inputs have been read.
    """

    def __init__(self, model: NMTModel, encoding: Encoding) -> None:
        self.model, self.encoding, self.steps = model, encoding, 0
        self._inputs: list[Tensor] = []

    def read(self, input_BXD: Tensor) -> Tensor:
        """Read further inputs of every row: the state behind each, (B, X, D')."""
        self._inputs.append(input_BXD)
        self.steps += input_BXD.shape[1]
        encoding = self.encoding.reading(self.encoding.layout.input_BT[:, : self.steps])
        states_BTD = self.model.decode(encoding, torch.cat(self._inputs, dim=1))
        return states_BTD[:, self.steps - input_BXD.shape[1] :]

    def fork(self, steps: int, rows: Tensor) -> Self:
        """Return the first steps of some rows, each perhaps more than once, to go on from.

        What is read there never shows here.
        """
        forked = type(self)(self.model, self.encoding.select(rows))
        forked.steps = steps
        self._keep(forked, steps, rows)
        return forked

    def _keep(self, forked: Self, steps: int, rows: Tensor) -> None:
        """Hand on what was computed of the first steps."""
        if steps:
            forked._inputs = [torch.cat(self._inputs, dim=1)[rows, :steps]]


def last_of(states_RTD: Tensor, mask_RT: Tensor) -> Tensor:
    """Return each row's state at its last real input, (R, D)."""
    last_R = mask_RT.sum(1) - 1
    return states_RTD[torch.arange(len(last_R), device=last_R.device), last_R]
