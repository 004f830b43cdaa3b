"""A model's states with words switched off: their embeddings replaced by zero.

What Base (Li et al. 2020, section 3.3) and prediction difference (Li et al. 2019) both ask.

Shapes: as in `nmt.base`; R rows, B times a number of blocks: b0 b1 .. b0 b1 ..
"""

from __future__ import annotations

from functools import cached_property

from torch import Tensor

from xnmt_bench.nmt.base import Batch, Encoding, NMTModel


class SwitchedOff:
    """A batch whose words can be switched off; BOS, EOS and padding are the caller's to keep."""

    def __init__(self, model: NMTModel, batch: Batch) -> None:
        self._model, self._layout = model, batch.layout
        self._source_BSD = model.embed_source(batch.source_BS)
        self._input_BTD = model.embed_target(batch.input_BT)

    @cached_property
    def _encoding(self) -> Encoding:
        """Of the whole source, shared by all rows that keep it."""
        return self._model.encode(self._source_BSD, self._layout)

    def states(
        self, keep_source_RS: Tensor | None = None, keep_input_RT: Tensor | None = None
    ) -> Tensor:
        """Decoder states (R, T, D') that saw the kept words alone.

        Args:
            keep_source_RS: 1 where a source word stays, 0 where it is switched off; None where all
                stay, which costs no encoding anew.
            keep_input_RT: the same for decoder inputs (input 0 is BOS).
        """
        kept = keep_input_RT if keep_source_RS is None else keep_source_RS
        times = 1 if kept is None else len(kept) // len(self._input_BTD)
        if keep_source_RS is None:
            encoding = self._encoding if times == 1 else self._encoding.tile(times)
        else:
            source_RSD = self._source_BSD.repeat(times, 1, 1) * keep_source_RS[..., None]
            encoding = self._model.encode(source_RSD, self._layout.tile(times))
        input_RTD = self._input_BTD.repeat(times, 1, 1)
        if keep_input_RT is not None:
            input_RTD = input_RTD * keep_input_RT[..., None]
        return self._model.decode(encoding, input_RTD)
