"""Models of other toolkits: their ids in this project's numbers.

Everywhere else ids 0 to 3 are PAD, UNK, BOS and EOS. A toolkit has numbers of its own, and its
decoder starts with what it likes: Marian's with padding, fairseq's with EOS, M2M100's with a
language code. Here they are renumbered once, so that nothing else has to ask whose model it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS, PAD, SPECIAL, UNK
from xnmt_bench.store import file_hash, fingerprint


class Renumbering:
    """Which of a toolkit's ids each of ours is.

    Args:
        size: of the toolkit's vocabulary.
        pad, unk, eos: its ids of padding, of unknown words and of the end of a sentence.
        start: its id of the last decoder input before the first target word; plays BOS.
        never: its ids of what the model's own search never writes.

    Attributes:
        theirs_V: the toolkit's id of each of ours.
        runs: the same as slices of the toolkit's ids, which follow on each other within one.
        unpredictable: what the model never writes, and BOS where its id is another special one's
            too; what the model predicts there is the other.
    """

    def __init__(
        self, size: int, pad: int, unk: int, start: int, eos: int, never: Sequence[int] = ()
    ) -> None:
        special = {PAD: pad, UNK: unk, BOS: start, EOS: eos}
        # Other ids keep the toolkit's order, so that slices of its output layer stay long.
        ordinary = [i for i in range(size) if i not in special.values()]
        their_ids = [special[i] for i in sorted(special)] + ordinary  # may repeat one
        self.theirs_V = torch.tensor(their_ids)
        # A run ends where the next id does not follow on the one before it.
        ends = [0, *((self.theirs_V.diff() != 1).nonzero()[:, 0] + 1).tolist(), len(self.theirs_V)]
        self.runs = [slice(their_ids[a], their_ids[a] + b - a) for a, b in pairwise(ends)]
        self._ours = {their_id: our_id for our_id, their_id in enumerate(their_ids)}
        # Later ones win: BOS gives way where it shares its id.
        self._ours |= {special[our_id]: our_id for our_id in (BOS, PAD, UNK, EOS)}
        shared = [BOS] if start in (pad, unk, eos) else []
        self.unpredictable = shared + [self._ours[i] for i in never]

    def __len__(self) -> int:
        return len(self.theirs_V)

    def ours(self, their_ids: Iterable[int]) -> list[int]:
        """Return our ids for a text; the toolkit's special ids count as unknown there."""
        # A text may hold `</s>` as a word; as EOS it would close the sentence before its end. A
        # tokenizer may have special ids, such as T5's sentinels, that its model lacks.
        our_ids = (self._ours.get(i, UNK) for i in their_ids)
        return [UNK if i in SPECIAL else i for i in our_ids]

    def theirs(self, our_ids: Iterable[int]) -> list[int]:
        """Return the toolkit's ids of ours."""
        return [int(self.theirs_V[int(i)]) for i in our_ids]


def number_inputs(theirs_V: Tensor, ids_BT: Tensor, start: Tensor) -> Tensor:
    """Return the toolkit's ids (B, T) of decoder inputs.

    Args:
        theirs_V: the toolkit's id of each of ours.
        ids_BT: ours. A BOS is a start where they begin, and a separator elsewhere.
        start: the toolkit's id of a start, of one number.
    """
    begins_T = torch.arange(ids_BT.shape[-1], device=ids_BT.device) == 0
    return torch.where((ids_BT == BOS) & begins_T, start, theirs_V[ids_BT])


def made_from(files: Sequence[Path], options: Any) -> str:
    """Return a fingerprint that changes with any file or option of a model."""
    return fingerprint({"files": {f.name: file_hash(f) for f in files}, "options": options})
