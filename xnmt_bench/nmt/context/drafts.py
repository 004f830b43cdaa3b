"""First translations for models that read one: searched, sampled, or references with noise."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor

from xnmt_bench.corpora.vocabulary.subwords import BOS, EOS, PAD, WORDS
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Layout
from xnmt_bench.nmt.decoding import translate

BEAM = 4  # Voita et al. 2019, section 5.2
TOGETHER = 100  # sentences that are translated at once
KEPT = 20_000  # drafts that are remembered
NOISE = 0.1  # share of a sample's words that are replaced (the authors' code)


class Drafts:
    """What a sentence-level model makes of sentences, each translated once."""

    def __init__(self, model: NMTModel) -> None:
        self._model = model
        self._kept: OrderedDict[tuple[int, ...], list[int]] = OrderedDict()

    def __call__(self, sources: Sequence[tuple[int, ...]]) -> list[list[int]]:
        """Return the drafts of source sentences, by beam search."""
        # By length, so that sentences translated together have little padding.
        missing = sorted({source for source in sources if source not in self._kept}, key=len)
        fresh: dict[tuple[int, ...], list[int]] = {}
        for start in range(0, len(missing), TOGETHER):
            part = missing[start : start + TOGETHER]
            fresh |= zip(part, translate(self._model, part, BEAM), strict=True)
        # Looked up before the oldest are dropped, which may be some of these.
        drafts = [fresh.get(s) or self._kept[s] for s in sources]
        self._kept |= fresh
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return drafts

    def forget(self) -> None:
        """Drop all of them: the model is another one."""
        self._kept.clear()


@torch.no_grad()
def sample(model: NMTModel, source_NL: Tensor, limit_N: Tensor, temperature: float) -> Tensor:
    """Draw a translation of each source sentence, word by word.

    Args:
        model: a sentence-level model.
        source_NL: ids, closed by EOS.
        limit_N: how many ids each translation has at most.
        temperature: log-probabilities are divided by it.

    Returns:
        Ids (N, U), padded.
    """
    one_N1 = torch.ones_like(source_NL[:, :1])
    layout = Layout((source_NL != PAD).long(), one_N1)
    reader = model.reader(model.encode(model.embed_source(source_NL), layout))
    ids_N, words = BOS * one_N1[:, 0], []
    open_N = torch.ones_like(ids_N, dtype=torch.bool)
    for length in range(1, int(limit_N.max()) + 1):
        logits_NV = model.logits(reader.read(ids_N[:, None])).float() / temperature
        logits_NV[:, [PAD, BOS]] = -torch.inf  # as in a search
        drawn_N = torch.multinomial(logits_NV.softmax(-1), 1)[:, 0]
        words.append(drawn_N.masked_fill(~open_N, PAD))
        open_N = open_N & (drawn_N != EOS) & (length < limit_N)
        if not open_N.any():
            break
        ids_N = drawn_N  # rows that have ended are read on, and dropped later
    return torch.stack(words, dim=1)


def corrupted(ids_NU: Tensor, share: float, vocabulary: int) -> Tensor:
    """Return ids of which a share, each by its own draw, are replaced by random words.

    The first word and EOS stay (the authors' code); special ids are never drawn.
    """
    random_NU = torch.randint(WORDS, vocabulary, ids_NU.shape, device=ids_NU.device)
    chosen_NU = torch.rand(ids_NU.shape, device=ids_NU.device) < share
    chosen_NU &= (ids_NU != PAD) & (ids_NU != EOS)
    chosen_NU[:, 0] = False
    return torch.where(chosen_NU, random_NU, ids_NU)
