"""What a model does when a word is changed: the causes of its decisions, by intervention.

Interventions ask different things. *Which*: the word is replaced by others of its category, all
else fixed, so that only what it says changes. *Pair*: a source word and the target word that
translates it are replaced together by two that translate each other, so that the pair stays whole.
*That*: all pieces of a word get the mean of the vocabulary's embeddings, so that even its kind is
gone. An effect is the total
variation distance between a step's distributions with and without the change, 0 to 1, a mean over
substitutes. Beside it stand the change of log P(label), which has a direction, and the share of
substitutes after which the model chooses another word. The prefix is not changed, so these are
controlled direct effects: what a changed word would change by way of an earlier target word is not
in them.

Shapes: H halves of the substitutes, N decisions, T steps, V target vocabulary, W words of a side, R
rows of a batch.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch

from xnmt_bench.corpora.exchange.substitutes import BothSides, Entry, Unit
from xnmt_bench.corpora.sentence import Gold, Sentence
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.vocabulary.subwords import EOS, NO_WORD
from xnmt_bench.device import device_of
from xnmt_bench.measuring.metric import ratio
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch
from xnmt_bench.nmt.switched import replacement

SOURCE, PREFIX = 0, 1
POSITIONS = 4096  # of the decoder, computed at once; no result depends on it
LEAST = np.finfo(np.float32).tiny  # a label too improbable for float32 is not impossible


@dataclass(frozen=True)
class Effects:
    """What changing each word of one sentence does; NaN for a word that a step cannot see.

    Attributes:
        step_N: the decisions: first pieces of words, without EOS.
        slot_N: the slot of each planted decision, else empty.
        replaced: of source and prefix, effects by substitutes, (N, W); NaN for a word without any.
        replaced_with_translation: the same where a word and its translation are replaced
            together; NaN for a word that has no known translation in the sentence.
        change: as `replaced`, of log P(label), in nats; below 0 where the label loses by it.
        flips: the same of choices, the share of substitutes after which the label is not chosen.
        removed: of source and prefix, effects by the mean embedding, (N, W).
        joint_N: of a planted decision, the effect of replacing link and cue at once; else NaN.
        substitutes, as_long: how many were used, and how many of them have as many pieces.
    """

    step_N: np.ndarray
    slot_N: list[str]
    replaced: list[np.ndarray]
    replaced_with_translation: list[np.ndarray]
    change: list[np.ndarray]
    flips: list[np.ndarray]
    removed: list[np.ndarray]
    joint_N: np.ndarray
    substitutes: int
    as_long: int


@dataclass(frozen=True)
class Change:
    """Entries in the place of units.

    Attributes:
        units: what is replaced, by side: one unit, or two that translate each other.
        texts: the words of both sides then.
        planted: slots whose link or cue a unit is.
        flips: those among them that ask for another word then.
    """

    units: Mapping[int, Unit]
    texts: list[list[str]]
    planted: frozenset[str] = frozenset()
    flips: frozenset[str] = frozenset()

    def counts(self, slot: str) -> bool:
        """Return whether it says something of a decision: a planted one has to be flipped."""
        return slot not in self.planted or slot in self.flips


@dataclass(frozen=True)
class Clean:
    """An unchanged sentence, and the model's decisions on it.

    Attributes:
        ids: of source and target.
        step_N: the decisions.
        word_N: the target word of each.
        slot_N: the slot of each planted decision, else empty.
        distribution_NV: the model's.
    """

    ids: list[list[int]]
    step_N: np.ndarray
    word_N: np.ndarray
    slot_N: list[str]
    distribution_NV: np.ndarray


class Interventions:
    """Changes the words of sentences and watches a model's distributions.

    Args:
        model: the system.
        categories: which words may replace each other.
        most: substitutes of a word; a planted word has all.
    """

    def __init__(self, model: NMTModel, categories: BothSides, most: int) -> None:
        self._model, self._most = model, most
        self._categories = (categories.source, categories.target)
        self._translations = categories.translations

    @torch.no_grad()
    def effects(self, number: int, sentence: Sentence) -> Effects:
        """Return what changing each word of a sentence does.

        Args:
            number: of the sentence, from which the draw of substitutes follows.
            sentence: its target is the prefix of each decision.
        """
        texts = [split_words(sentence.source), split_words(sentence.target)]
        gold = sentence.gold or Gold()
        clean = self._read(texts, gold)
        singles = list(self._changes(number, texts, gold))
        pairs = list(self.paired_changes(number, texts, gold))
        (which, change, flips), as_long = self._average(singles, texts, clean)
        (of_pairs, *_), _ = self._average(pairs, texts, clean)
        that = [self._erase(side, texts[side], clean) for side in (SOURCE, PREFIX)]
        joint_N = self._replace_both(texts, gold, clean)
        by_word = which, of_pairs, change, flips, that
        return Effects(clean.step_N, clean.slot_N, *by_word, joint_N, len(singles), as_long)

    @torch.no_grad()
    def halves(self, number: int, sentence: Sentence) -> tuple[Clean, np.ndarray]:
        """Return a sentence's decisions, and effects by each half of the substitutes apart.

        Two models of one vocabulary get the same substitutes.

        Args:
            number: as for `effects`.
            sentence: the same.

        Returns:
            The decisions, and effects (H, N, W) of replacing the source's words and then the
            target's; NaN for a word that a step cannot see, or that a half has no substitute of.
        """
        texts = [split_words(sentence.source), split_words(sentence.target)]
        gold = sentence.gold or Gold()
        clean = self._read(texts, gold)
        halves: tuple[list[Change], list[Change]] = ([], [])
        earlier = Counter[tuple[int, int]]()
        for change in self._changes(number, texts, gold):
            # In turn, so that substitutes of as many pieces, which come first, are in both halves.
            for side, unit in change.units.items():
                halves[earlier[side, unit.start] % 2].append(change)
                earlier[side, unit.start] += 1
        by_side = (self._average(changes, texts, clean)[0][0] for changes in halves)
        return clean, np.stack([np.concatenate(sides, axis=1) for sides in by_side])

    def _read(self, texts: Sequence[Sequence[str]], gold: Gold) -> Clean:
        ids = self.encode(texts)
        target_words = [*self._words(PREFIX, texts[PREFIX]), NO_WORD]
        first_T = np.diff(target_words, prepend=-1) != 0
        first_T[-1] = False  # EOS
        step_N = np.flatnonzero(first_T)
        word_N = np.asarray(target_words)[step_N]
        slots = {planted.word: planted.slot for planted in gold.planted}
        slot_N = [slots.get(word, "") for word in word_N.tolist()]
        [distribution_TV] = self._distributions([ids])
        return Clean(ids, step_N, word_N, slot_N, distribution_TV[step_N])

    def _average(
        self, changes: Sequence[Change], texts: Sequence[Sequence[str]], clean: Clean
    ) -> tuple[list[list[np.ndarray]], int]:
        """Return means over changes, and how many changes are as long.

        They are of total variation, of the change of log P(label), and of flips; by side, (N, W)
        each. NaN where nothing was changed.
        """
        # The fourth sum counts changes.
        sums = [np.zeros((4, len(clean.step_N), len(text))) for text in texts]
        as_long = 0
        changed_ids = [self.encode(change.texts) for change in changes]
        for change, new, new_TV in zip(
            changes, changed_ids, self._distributions(changed_ids), strict=True
        ):
            longer = [len(new[side]) - len(clean.ids[side]) for side in (SOURCE, PREFIX)]
            as_long += not any(longer)
            counts_N = np.array([change.counts(slot) for slot in clean.slot_N], dtype=bool)
            behind_N = within_N = np.zeros(len(clean.step_N), dtype=bool)
            if target := change.units.get(PREFIX):
                behind_N = clean.word_N >= target.stop
                # Between its own words the prefix holds a part of the change.
                within_N = (clean.word_N > target.start) & ~behind_N
            # What stands behind a changed target word moves with it. Steps within it are not read,
            # and may lie behind the end of a shorter target.
            moved_N = clean.step_N + behind_N * longer[PREFIX]
            new_NV = new_TV[np.where(within_N, 0, moved_N)]
            compared = _compare(new_NV, clean.distribution_NV)
            for side, unit in change.units.items():
                rows = np.flatnonzero(counts_N & (behind_N if side == PREFIX else ~within_N))
                columns = np.arange(unit.start, unit.stop)
                places = np.ix_(np.arange(4), rows, columns)
                sums[side][places] += compared[:, rows, None]
        return [[ratio(s[kind], s[-1]) for s in sums] for kind in range(3)], as_long

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
                        yield _replace(texts, {side: (unit, entry)})
            for place, by_slot in flips.items() if side == SOURCE else ():
                others = dict.fromkeys(other for slot in by_slot.values() for other in slot)
                unit = Unit(place, place + 1, tuple((other,) for other in others))
                for other in others:
                    flipped = frozenset(s for s, flipping in by_slot.items() if other in flipping)
                    yield _replace(texts, {side: (unit, (other,))}, frozenset(by_slot), flipped)

    def paired_changes(self, number: int, texts: list[list[str]], gold: Gold) -> Iterator[Change]:
        """Yield changes of a source unit and its translation to two that translate each other."""
        planted = {p.link: p for p in gold.planted}
        sources = list(self._categories[SOURCE].units(texts[SOURCE]))
        for target in self._categories[PREFIX].units(texts[PREFIX]):
            partners = [unit for unit in sources if self._translates(unit, target, texts, gold)]
            # Several would make the target word a translation of each alone, which it is not.
            if len(partners) != 1:
                continue
            [source] = partners
            mark = planted.get(source.start)
            every = mark is not None
            for entry, translation in self.choose_pairs(number, source, target, texts, every):
                slots = frozenset({mark.slot} if mark else ())
                flips = mark and " ".join(entry) in mark.other_links
                entries = {SOURCE: (source, entry), PREFIX: (target, translation)}
                yield _replace(texts, entries, slots, slots if flips else frozenset())

    def _translates(
        self, source: Unit, target: Unit, texts: Sequence[Sequence[str]], gold: Gold
    ) -> bool:
        """Return whether two units are linked, and known to mean the same."""
        entry = tuple(texts[PREFIX][target.start : target.stop])
        source_entry = tuple(texts[SOURCE][source.start : source.stop])
        return entry in self._translations.get(source_entry, ()) and any(
            source.start <= s < source.stop and target.start <= t < target.stop
            for s, t in gold.sure
        )

    def choose_pairs(
        self, number: int, source: Unit, target: Unit, texts: Sequence[Sequence[str]], every: bool
    ) -> list[tuple[Entry, Entry]]:
        """Return substitutes of both units in a seeded order, those of as many pieces first."""
        pairs = [
            (entry, translation)
            for entry, translation in product(source.others, target.others)
            if translation in self._translations.get(entry, ())
        ]
        random.Random(f"{number}/pair/{target.start}").shuffle(pairs)
        pieces = [
            self._pieces(s, texts[s][u.start : u.stop]) for s, u in enumerate((source, target))
        ]
        pairs.sort(key=lambda pair: [self._pieces(s, e) for s, e in enumerate(pair)] != pieces)
        return pairs if every else pairs[: self._most]

    def _words(self, side: int, words: Sequence[str]) -> list[int]:
        """Return the word of each piece, without EOS."""
        return self._model.vocabularies[side].tie(" ".join(words)).words

    def _pieces(self, side: int, words: Iterable[str]) -> int:
        return len(self._model.vocabularies[side].encode(" ".join(words)))

    def _replace_both(self, texts: Sequence[Sequence[str]], gold: Gold, clean: Clean) -> np.ndarray:
        """Return the effect of replacing link and cue at once on their own decision, (N,)."""
        effect_N = np.full(len(clean.step_N), np.nan)
        for planted in (p for p in gold.planted if p.slot in clean.slot_N):
            changed = []
            for link, cue in product(planted.other_links, planted.other_cues):
                words = [*texts[SOURCE]]
                words[planted.link], words[planted.cue] = link, cue
                changed.append(self.encode([words, texts[PREFIX]]))
            n = clean.slot_N.index(planted.slot)
            distances = [
                _total_variation(new_TV[clean.step_N[n]], clean.distribution_NV[n])
                for new_TV in self._distributions(changed)
            ]
            if distances:
                effect_N[n] = np.mean(distances)
        return effect_N

    def _choose(self, number: int, side: int, unit: Unit, words: Sequence[str]) -> Iterator[Entry]:
        """Yield substitutes in a seeded order, those of as many pieces first."""
        # A text as the seed gives the same draws on every platform.
        drawn = list(unit.others)
        random.Random(f"{number}/{side}/{unit.start}").shuffle(drawn)
        pieces = self._pieces(side, words[unit.start : unit.stop])
        drawn.sort(key=lambda entry: self._pieces(side, entry) != pieces)  # stable
        yield from drawn[: self._most]

    def _distributions(self, pairs: Sequence[list[list[int]]]) -> Iterator[np.ndarray]:
        """Yield the distribution of each step, (T, V), for each pair of ids, in their order."""
        longest = max((max(len(source), len(target)) for source, target in pairs), default=1)
        rows = max(1, POSITIONS // longest)
        for start in range(0, len(pairs), rows):
            part = [(source, target) for source, target in pairs[start : start + rows]]
            batch = self._model.collate(part)
            for states_TD, (_, target) in zip(self._model.states(batch), part, strict=True):
                yield self._distribution(states_TD[: len(target)])

    def _distribution(self, states_TD: torch.Tensor) -> np.ndarray:
        """Return the distribution (T, V) of each step of one row."""
        # Row by row, since a distribution is as wide as the vocabulary.
        return self._model.logits(states_TD).softmax(-1).double().cpu().numpy()

    def _erase(self, side: int, words: Sequence[str], clean: Clean) -> np.ndarray:
        """Return the effect of taking all from a word but its place, (N, W)."""
        model, ids = self._model, clean.ids
        word_of_piece = torch.tensor(self._words(side, words), device=device_of(model))
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
        new = (self._distribution(states_TD[clean.step_N]) for states_TD in states)
        effect_NW = np.stack(
            [_total_variation(new_NV, clean.distribution_NV) for new_NV in new], axis=1
        )
        if side == PREFIX:
            effect_NW[clean.word_N[:, None] <= np.arange(len(words))] = np.nan
        return effect_NW


def _replace(
    texts: Sequence[Sequence[str]],
    entries: Mapping[int, tuple[Unit, Entry]],
    *slots: frozenset[str],
) -> Change:
    """Return the change that puts an entry in a unit's place, by side; `slots` as in `Change`."""
    replaced = [list(words) for words in texts]
    for side, (unit, entry) in entries.items():
        replaced[side][unit.start : unit.stop] = entry
    return Change({side: unit for side, (unit, _) in entries.items()}, replaced, *slots)


def _compare(new_NV: np.ndarray, clean_NV: np.ndarray) -> np.ndarray:
    """Return total variation, change of log P(label), whether the label is lost, and 1; (4, N)."""
    label_N, row_N = clean_NV.argmax(-1), np.arange(len(clean_NV))
    new_N, clean_N = (np.maximum(p_NV[row_N, label_N], LEAST) for p_NV in (new_NV, clean_NV))
    change_N = np.log(new_N) - np.log(clean_N)
    lost_N = new_NV.argmax(-1) != label_N
    return np.stack([_total_variation(new_NV, clean_NV), change_N, lost_N, np.ones(len(row_N))])


def _total_variation(first_NV: np.ndarray, second_NV: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * np.abs(first_NV - second_NV).sum(-1))
