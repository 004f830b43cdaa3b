"""A batch whose words can be switched off: their embeddings replaced, by zero as a rule.

What Base (Li et al. 2020, section 3.3) and prediction difference (Li et al. 2019) both ask. BOS,
EOS and padding are the caller's to keep. Shapes: as in `nmt.base`; R rows, of any sentences of the
batch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from xnmt_bench.corpora.vocabulary.subwords import SPECIAL, UNK, WORDS
from xnmt_bench.device import device_of
from xnmt_bench.errors import NotApplicable
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch, Encoding

Removal = Literal["zero", "mean", "unk", "attention"]
REFUSALS = {
    "attention": "this model cannot leave words out of its attention",
    "unk": "this model has no unknown word",
}
SOURCE, TARGET = 0, 1


class SwitchedOff:
    """The embeddings of a batch, without some words.

    Args:
        model: whose embeddings.
        batch: the sentences.
        removal: what replaces an embedding, see `replacement`. With `attention` that is zero, and
            no state attends to the word, in any layer. Zero is needed too: the input of a
            word is where the next one is predicted, and its state would go on to hold the word.

    Attributes:
        source_BSD, input_BTD: the embeddings of all words.
        layout: of the batch.

    Raises:
        NotApplicable: the model does not allow the removal.
    """

    def __init__(self, model: NMTModel, batch: Batch, removal: Removal = "zero") -> None:
        if not allows(model, removal):
            raise NotApplicable(f"removal={removal}: {REFUSALS[removal]}")
        self._model, self.layout = model, batch.layout
        self._special: tuple[Tensor, Tensor] | None = None
        if removal == "attention":
            self._special = is_special(batch.source_BS), is_special(batch.input_BT)
        self.source_BSD = model.embed_source(batch.source_BS)
        self.input_BTD = model.embed_target(batch.input_BT)
        self._off: list[Tensor] | None = None  # for zero
        if removal in ("mean", "unk"):
            self._off = [replacement(model, side, removal) for side in (SOURCE, TARGET)]

    def encoding(
        self, rows_R: Tensor, keep_RS: Tensor, unchanged: Encoding | None = None, start: int = 0
    ) -> Encoding:
        """Encode some rows, keeping the source words that are not 0.

        Args:
            rows_R: of which sentences.
            keep_RS: 0 for a word that is off.
            unchanged: the encoding of the batch with all words, from which the rows go on.
            start: the first place that may be off.
        """
        source_RSD = self._switch(self.source_BSD[rows_R], keep_RS, SOURCE)
        layout = self.layout.select(rows_R)
        if self._special:
            layout = replace(layout, hidden_BS=(keep_RS == 0) & ~self._special[SOURCE][rows_R])
        if unchanged is None or not start:
            return self._model.encode(source_RSD, layout)
        return self._model.encode_again(unchanged, rows_R, start, source_RSD, layout)

    def reading(
        self, encoding: Encoding, rows_R: Tensor, keep_RX: Tensor, start: int = 0
    ) -> Encoding:
        """Return an encoding of some rows for inputs of which those from one on are kept or not.

        With it `inputs` are decoded; without removal by attention it is the one that is given.
        """
        if not self._special:
            return encoding
        off_RX = (keep_RX == 0) & ~self._special[TARGET][rows_R, start : start + keep_RX.shape[1]]
        hidden_BT = torch.nn.functional.pad(off_RX, (start, 0), value=False)
        return replace(encoding, layout=replace(encoding.layout, hidden_BT=hidden_BT))

    def inputs(self, rows_R: Tensor, keep_RX: Tensor, start: int = 0) -> Tensor:
        """Return decoder inputs (R, X, D) of some rows, from one on, with the kept words."""
        input_RXD = self.input_BTD[rows_R, start : start + keep_RX.shape[1]]
        return self._switch(input_RXD, keep_RX, TARGET)

    def _switch(self, embedded_RXD: Tensor, keep_RX: Tensor, side: int) -> Tensor:
        # Multiplied and not masked in place: the embeddings of all words serve every other row.
        keep_RX1 = keep_RX[..., None].to(embedded_RXD)
        switched_RXD = embedded_RXD * keep_RX1
        return switched_RXD + (1 - keep_RX1) * self._off[side] if self._off else switched_RXD


def allows(model: NMTModel, removal: Removal) -> bool:
    """Return whether a model can lose words in this way."""
    if removal == "attention":
        return model.hides_words
    return removal != "unk" or all(subwords.has_unknown for subwords in model.vocabularies)


def is_special(ids: Tensor) -> Tensor:
    """Return True for BOS, EOS and padding: attention keeps them, since it needs one key."""
    return torch.isin(ids, torch.tensor(SPECIAL, device=ids.device))


def replacement(model: NMTModel, side: int, removal: Literal["mean", "unk"]) -> Tensor:
    """Return what replaces a word that is switched off, (D,).

    Args:
        model: whose embeddings.
        side: SOURCE or TARGET.
        removal: the unweighted mean of the vocabulary's embeddings, without special symbols; or
            the embedding of the unknown word.
    """
    vocabulary, embed = model.vocabularies[side], (model.embed_source, model.embed_target)[side]
    ids = [UNK] if removal == "unk" else range(WORDS, len(vocabulary))
    embedded_1XD = embed(torch.tensor([*ids], device=device_of(model))[None])
    return embedded_1XD[0].mean(0)
