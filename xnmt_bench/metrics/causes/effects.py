"""What a model does when a word is changed: the causes of its decisions, by intervention.

Two interventions, which ask different things. *Which*: the word is replaced by others of its
category, all else fixed, so that only what it says changes. *That*: all its pieces get the mean of
the vocabulary's embeddings, so that even the kind of the word is gone. An effect is the total
variation distance between a step's distributions with and without the change, 0 to 1, a mean over
substitutes. Beside it stand the change of log P(label), which has a direction, and the share of
substitutes after which the model chooses another word. The prefix is not changed, so these are
controlled direct effects: what a changed word would change by way of an earlier target word is not
in them.

Shapes: N decisions, T steps, V target vocabulary, W words of a side, R rows of a batch.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch

from xnmt_bench.corpora.sentence import Gold, Sentence
from xnmt_bench.corpora.substitutes import BothSides, Entry, Unit
from xnmt_bench.corpora.subwords import EOS
from xnmt_bench.device import device_of
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.switched import replacement

SOURCE, PREFIX = 0, 1


@dataclass(frozen=True)
class Effects:
    """What changing each word of one sentence does; NaN for a word that a step cannot see.

    Attributes:
        step_N: the decisions: first pieces of words, without EOS.
        slot_N: the slot of each planted decision, else empty.
        which: of source and prefix, effects by substitutes, (N, W); NaN for a word without any.
        change: the same of log P(label), in nats; below 0 where the label loses by it.
        flips: the same of choices, the share of substitutes after which the label is not chosen.
        that: of source and prefix, effects by the mean embedding, (N, W).
        joint_N: of a planted decision, the effect of replacing link and cue at once; else NaN.
        substitutes, as_long: how many were used, and how many of them have as many pieces.
    """

    step_N: np.ndarray
    slot_N: list[str]
    which: list[np.ndarray]
    change: list[np.ndarray]
    flips: list[np.ndarray]
    that: list[np.ndarray]
    joint_N: np.ndarray
    substitutes: int
    as_long: int


@dataclass(frozen=True)
class Change:
    """An entry in the place of a unit.

    Attributes:
        side: SOURCE or PREFIX.
        unit: what is replaced.
        words: of the changed side.
        planted: slots whose link or cue the unit is.
        flips: those among them that ask for another word then.
    """

    side: int
    unit: Unit
    words: list[str]
    planted: frozenset[str]
    flips: frozenset[str]

    def counts(self, slot: str) -> bool:
        """Return whether it says something of a decision: a planted one has to be flipped."""
        return slot not in self.planted or slot in self.flips


class Interventions:
    """Changes the words of sentences and watches a model's distributions.

    Args:
        model: the system.
        categories: which words may replace each other.
        most: substitutes of a word; a planted word has all.
        positions: decoder positions that are computed at once; no result depends on it.
    """

    def __init__(
        self, model: NMTModel, categories: BothSides, most: int, positions: int = 4096
    ) -> None:
        self._model, self._most, self._positions = model, most, positions
        self._categories = (categories.source, categories.target)

    @torch.no_grad()
    def effects(self, number: int, sentence: Sentence) -> Effects:
        """Return what changing each word of a sentence does.

        Args:
            number: of the sentence, from which the draw of substitutes follows.
            sentence: its target is the prefix of each decision.
        """
        texts = [sentence.source.split(), sentence.target.split()]
        ids = self.encode(texts)
        target_words = self._model.target_subwords.words(ids[PREFIX])
        first_T = np.diff(target_words, prepend=-1) != 0
        first_T[-1] = False  # EOS
        step_N = np.flatnonzero(first_T)
        word_N = np.asarray(target_words)[step_N]
        slots = {planted.word: planted.slot for planted in (sentence.gold or Gold()).planted}
        slot_N = [slots.get(word, "") for word in word_N.tolist()]
        [clean_TV] = self._distributions([ids])
        clean_NV = clean_TV[step_N]
        changes = list(self._changes(number, texts, sentence.gold or Gold()))
        changed_ids = [
            self.encode([c.words if side == c.side else texts[side] for side in (SOURCE, PREFIX)])
            for c in changes
        ]
        # Of each side: total variation, change of log P(label), flips, and their number.
        sums = [np.zeros((4, len(step_N), len(text))) for text in texts]
        as_long = 0
        for change, new, new_TV in zip(
            changes, changed_ids, self._distributions(changed_ids), strict=True
        ):
            longer = len(new[change.side]) - len(ids[change.side])
            as_long += longer == 0
            seen_N = np.array([change.counts(slot) for slot in slot_N], dtype=bool)
            place_N = step_N
            if change.side == PREFIX:
                seen_N &= word_N >= change.unit.stop
                place_N = step_N + longer  # what stands behind the change moves with it
            rows = np.flatnonzero(seen_N)
            columns = np.arange(change.unit.start, change.unit.stop)
            compared = _compare(new_TV[place_N[rows]], clean_NV[rows])
            sums[change.side][np.ix_(np.arange(4), rows, columns)] += compared[:, :, None]
        which, changed, flips = (
            [np.divide(s[kind], s[-1], out=np.full_like(s[-1], np.nan), where=s[-1] > 0)
             for s in sums]
            for kind in range(3)
        )  # fmt: skip
        that = [self._erase(side, ids, texts[side], step_N, word_N, clean_TV) for side in (0, 1)]
        joint_N = self._replace_both(texts, sentence.gold or Gold(), slot_N, step_N, clean_NV)
        return Effects(step_N, slot_N, which, changed, flips, that, joint_N, len(changes), as_long)

    def encode(self, texts: Sequence[Sequence[str]]) -> list[list[int]]:
        """Return the ids of both sides, EOS last, of their words."""
        sides = zip(self._model.vocabularies, texts, strict=True)
        return [[*vocabulary.encode(" ".join(words)), EOS] for vocabulary, words in sides]

    def _changes(self, number: int, texts: list[list[str]], gold: Gold) -> Iterator[Change]:
        # Of each planted word's place, by slot: what asks for another target word.
        flips: dict[int, dict[str, tuple[str, ...]]] = {}
        for planted in gold.planted:
            flips.setdefault(planted.link, {})[planted.slot] = planted.other_links
            flips.setdefault(planted.cue, {})[planted.slot] = planted.other_cues
        for side, words in enumerate(texts):
            for unit in self._categories[side].units(words):
                if side == PREFIX or unit.start not in flips:
                    for entry in self._choose(number, side, unit, words):
                        yield Change(side, unit, _put(words, unit, entry), frozenset(), frozenset())
            for place, by_slot in flips.items() if side == SOURCE else ():
                others = dict.fromkeys(other for slot in by_slot.values() for other in slot)
                unit = Unit(place, place + 1, tuple((other,) for other in others))
                for other in others:
                    flipped = frozenset(s for s, flipping in by_slot.items() if other in flipping)
                    changed = _put(words, unit, (other,))
                    yield Change(side, unit, changed, frozenset(by_slot), flipped)

    def _replace_both(
        self,
        texts: Sequence[Sequence[str]],
        gold: Gold,
        slot_N: Sequence[str],
        step_N: np.ndarray,
        clean_NV: np.ndarray,
    ) -> np.ndarray:
        """Return the effect of replacing link and cue at once on their own decision, (N,)."""
        effect_N = np.full(len(step_N), np.nan)
        for planted in gold.planted:
            if planted.slot not in slot_N:
                continue
            changed = []
            for link, cue in product(planted.other_links, planted.other_cues):
                words = [*texts[SOURCE]]
                words[planted.link], words[planted.cue] = link, cue
                changed.append(self.encode([words, texts[PREFIX]]))
            n = slot_N.index(planted.slot)
            distances = [
                _total_variation(new_TV[step_N[n]], clean_NV[n])
                for new_TV in self._distributions(changed)
            ]
            if distances:
                effect_N[n] = np.mean(distances)
        return effect_N

    def _choose(self, number: int, side: int, unit: Unit, words: Sequence[str]) -> Iterator[Entry]:
        """Yield substitutes in a seeded order, those of as many pieces first."""
        encode = self._model.vocabularies[side].encode
        # A text as the seed gives the same draws on every platform.
        drawn = list(unit.others)
        random.Random(f"{number}/{side}/{unit.start}").shuffle(drawn)
        pieces = len(encode(" ".join(words[unit.start : unit.stop])))
        drawn.sort(key=lambda entry: len(encode(" ".join(entry))) != pieces)  # stable
        yield from drawn[: self._most]

    def _distributions(self, pairs: Sequence[list[list[int]]]) -> Iterator[np.ndarray]:
        """Yield the distribution of each step, (T, V), for each pair of ids, in their order."""
        longest = max((max(len(source), len(target)) for source, target in pairs), default=1)
        rows = max(1, self._positions // longest)
        for start in range(0, len(pairs), rows):
            part = [(source, target) for source, target in pairs[start : start + rows]]
            batch = self._model.collate(part)
            probability_RTV = self._model(batch).softmax(-1).double().cpu().numpy()
            for row, (_, target) in enumerate(part):
                yield probability_RTV[row, : len(target)]

    def _erase(
        self,
        side: int,
        ids: list[list[int]],
        words: Sequence[str],
        step_N: np.ndarray,
        word_N: np.ndarray,
        clean_TV: np.ndarray,
    ) -> np.ndarray:
        """Return the effect of taking all from a word but its place, (N, W)."""
        model, vocabulary = self._model, self._model.vocabularies[side]
        word_of_piece = torch.tensor(vocabulary.words(ids[side])[:-1], device=device_of(model))
        batch: Batch = model.collate([(ids[SOURCE], ids[PREFIX])] * len(words))
        embedded = [model.embed_source(batch.source_BS), model.embed_target(batch.input_BT)]
        # Input j + 1 is target piece j, and EOS is not an input.
        shift = 1 if side == PREFIX else 0
        changed_RXD = embedded[side].clone()
        erased_RX = torch.zeros(changed_RXD.shape[:2], dtype=torch.bool, device=changed_RXD.device)
        places = torch.arange(len(words), device=changed_RXD.device)[:, None]
        erased_RX[:, shift : shift + len(word_of_piece)] = word_of_piece == places
        changed_RXD[erased_RX] = replacement(model, side, "mean").to(changed_RXD)
        embedded[side] = changed_RXD
        states = model.decode(model.encode(embedded[SOURCE], batch.layout), embedded[PREFIX])
        new_RTV = model.logits(states).softmax(-1).double().cpu().numpy()
        effect_NW = np.stack(
            [_total_variation(new_TV[step_N], clean_TV[step_N]) for new_TV in new_RTV], axis=1
        )
        if side == PREFIX:
            effect_NW[word_N[:, None] <= np.arange(len(words))] = np.nan
        return effect_NW


def _put(words: Sequence[str], unit: Unit, entry: Entry) -> list[str]:
    return [*words[: unit.start], *entry, *words[unit.stop :]]


def _compare(new_NV: np.ndarray, clean_NV: np.ndarray) -> np.ndarray:
    """Return total variation, change of log P(label), whether the label is lost, and 1; (4, N)."""
    label_N, row_N = clean_NV.argmax(-1), np.arange(len(clean_NV))
    change_N = np.log(new_NV[row_N, label_N]) - np.log(clean_NV[row_N, label_N])
    lost_N = new_NV.argmax(-1) != label_N
    return np.stack([_total_variation(new_NV, clean_NV), change_N, lost_N, np.ones(len(row_N))])


def _total_variation(first_NV: np.ndarray, second_NV: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * np.abs(first_NV - second_NV).sum(-1))
