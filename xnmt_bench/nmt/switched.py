"""A batch whose words can be switched off: their embeddings replaced by zero.

What Base (Li et al. 2020, section 3.3) and prediction difference (Li et al. 2019) both ask. BOS,
EOS and padding are the caller's to keep. Shapes: as in `nmt.base`; R rows, of any sentences of the
batch.
"""

from __future__ import annotations

from torch import Tensor

from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch, Encoding


class SwitchedOff:
    """The embeddings of a batch, without some words.

    Attributes:
        source_BSD, input_BTD: the embeddings of all words.
    """

    def __init__(self, model: NMTModel, batch: Batch) -> None:
        self._model, self._layout = model, batch.layout
        self.source_BSD = model.embed_source(batch.source_BS)
        self.input_BTD = model.embed_target(batch.input_BT)

    def encoding(self, rows_R: Tensor, keep_RS: Tensor) -> Encoding:
        """Encode some rows, keeping the source words that are not 0."""
        source_RSD = self.source_BSD[rows_R]
        # Multiplied and not masked in place: the whole embeddings serve every other row.
        source_RSD = source_RSD * keep_RS[..., None].to(source_RSD)
        return self._model.encode(source_RSD, self._layout.select(rows_R))

    def inputs(self, rows_R: Tensor, keep_RX: Tensor, start: int = 0) -> Tensor:
        """Return decoder inputs (R, X, D) of some rows, from one on, with the kept words."""
        input_RXD = self.input_BTD[rows_R, start : start + keep_RX.shape[1]]
        return input_RXD * keep_RX[..., None].to(input_RXD)
