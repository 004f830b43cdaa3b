"""Translations in context, of a batch and of each sentence alone."""

from __future__ import annotations

from collections.abc import Sequence

from xnmt_bench.corpora.passage import Passage
from xnmt_bench.corpora.vocabulary.subwords import SEPARATOR
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.decoding import translate

Translations = list[list[int]]


def translate_behind_contexts(
    model: NMTModel, passages: Sequence[Passage], beam: int
) -> tuple[Translations, Translations]:
    """Returns translations of all passages at once, and of one after another.

    Each goes on from its own target context; these have unlike lengths.
    """
    sources, targets = zip(*(p.encode(*model.vocabularies) for p in passages), strict=True)
    prefixes = [y[: len(y) - y[::-1].index(SEPARATOR)] for y in targets]
    assert len({*map(len, prefixes)}) == len(passages)
    pairs = zip(sources, prefixes, strict=True)
    alone = [translate(model, [x], beam, [prefix])[0] for x, prefix in pairs]
    return translate(model, sources, beam, prefixes), alone
