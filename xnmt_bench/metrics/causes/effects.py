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
rows of a batch, P compared pairs of distributions.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice, product

import numpy as np
import torch
from torch import Tensor

from xnmt_bench.corpora.exchange.substitutes import BothSides, Entry, Unit
from xnmt_bench.corpora.sentence import Gold, Sentence
from xnmt_bench.corpora.tokens import split_words
from xnmt_bench.corpora.vocabulary.subwords import EOS, NO_WORD
from xnmt_bench.device import READ_BYTES, Room, device_of, exact
from xnmt_bench.measuring.metric import ratio
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.batch import Batch, Encoding
from xnmt_bench.nmt.batching import alike
from xnmt_bench.nmt.distributions import beside_references
from xnmt_bench.nmt.switched import SwitchedOff

SOURCE, PREFIX = 0, 1
KINDS = 3  # what is compared: total variation, log P(label), whether the label is lost
LEAST = torch.finfo(torch.float32).tiny  # a label too improbable for float32 is not impossible


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

    def behind(self, word_N: np.ndarray) -> np.ndarray:
        """Return which target words stand behind a changed one, (N,)."""
        target = self.units.get(PREFIX)
        return word_N >= target.stop if target else np.zeros(len(word_N), dtype=bool)

    def within(self, word_N: np.ndarray) -> np.ndarray:
        """Return which target words stand behind a part of the change, (N,)."""
        target = self.units.get(PREFIX)
        none_N = np.zeros(len(word_N), dtype=bool)
        return (word_N > target.start) & (word_N < target.stop) if target else none_N


@dataclass(frozen=True)
class Clean:
    """An unchanged sentence and its decisions.

    Attributes:
        ids: of source and target.
        step_N: the decisions.
        word_N: the target word of each.
        slot_N: the slot of each planted decision, else empty.
    """

    ids: list[list[int]]
    step_N: np.ndarray
    word_N: np.ndarray
    slot_N: list[str]


@dataclass(frozen=True)
class Halves:
    """What each half of the substitutes of a sentence's words does.

    Attributes:
        clean: the sentence and its decisions.
        label_N: the system's own choice at each.
        effect_HNW: effects of replacing the source's words and then the target's; NaN for a word
            that a step cannot see, or that a half has no substitute of.
    """

    clean: Clean
    label_N: np.ndarray
    effect_HNW: np.ndarray


@dataclass(frozen=True)
class Row:
    """A sentence that the model reads, and where its distributions are looked at.

    Attributes:
        ids: of source and target.
        step_P: steps in it.
        decision_P: the decision of the clean sentence that each is compared with.
        erased: places of source pieces, and of decoder inputs, that get the mean embedding.
    """

    ids: list[list[int]]
    step_P: np.ndarray
    decision_P: np.ndarray
    erased: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True)
class Plan:
    """What is changed in a sentence.

    Attributes:
        lengths: words of both sides.
        clean: the sentence.
        changes: of single words, and of words with their translations; a row for each.
        joint: the decision of each row in which link and cue are replaced at once.
        erased: the side and the word that each row takes away.
        rows: of `changes`, `joint` and `erased`, in this order.
    """

    lengths: list[int]
    clean: Clean
    changes: tuple[list[Change], list[Change]]
    joint: list[int]
    erased: list[tuple[int, int]]
    rows: list[Row]

    def effects(self, compared: Iterable[np.ndarray]) -> Effects:
        """Return the effects by what was compared in each row, (KINDS, P)."""
        rows = iter(zip(self.rows, compared, strict=True))
        singles, pairs = (self._average(each, rows) for each in self.changes)
        joint_N = np.full(len(self.clean.step_N), np.nan)
        for n, of_decision in groupby(self.joint):
            of_both = islice(rows, len([*of_decision]))
            joint_N[n] = np.mean([numbers[0, 0] for _, numbers in of_both])
        removed = [np.full((len(joint_N), words), np.nan) for words in self.lengths]
        for (side, word), (row, numbers) in zip(self.erased, rows, strict=True):
            removed[side][row.decision_P, word] = numbers[0]
        which, change, flips = singles
        by_word = which, pairs[0], change, flips, removed
        substitutes = len(self.changes[0])
        as_long = sum(
            [*map(len, row.ids)] == [*map(len, self.clean.ids)] for row in self.rows[:substitutes]
        )
        return Effects(
            self.clean.step_N, self.clean.slot_N, *by_word, joint_N, substitutes, as_long
        )

    def _average(
        self, changes: Sequence[Change], rows: Iterator[tuple[Row, np.ndarray]]
    ) -> list[list[np.ndarray]]:
        """Return means over changes of each kind of number, by side, (N, W).

        NaN where nothing was changed.
        """
        # The last sum counts changes.
        shape = KINDS + 1, len(self.clean.step_N)
        sums = [np.zeros((*shape, words)) for words in self.lengths]
        for change, (row, numbers) in zip(changes, islice(rows, len(changes)), strict=True):
            counted = np.vstack([numbers, np.ones(len(row.decision_P))])
            word_P = self.clean.word_N[row.decision_P]
            masks = [~change.within(word_P), change.behind(word_P)]  # by side
            for side, unit in change.units.items():
                columns = np.arange(unit.start, unit.stop)
                places = np.ix_(np.arange(KINDS + 1), row.decision_P[masks[side]], columns)
                sums[side][places] += counted[:, masks[side], None]
        return [[ratio(s[kind], s[-1]) for s in sums] for kind in range(KINDS)]


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

    def effects(self, sentences: Sequence[tuple[int, Sentence]]) -> list[Effects]:
        """Return what changing each word of some sentences does.

        Args:
            sentences: each with its number, from which the draw of substitutes follows. Its target
                is the prefix of each decision.
        """
        return self._carry_out([self._plan(number, sentence) for number, sentence in sentences])

    def _carry_out(self, plans: Sequence[Plan]) -> list[Effects]:
        room = Room(None, cpu=4096, each=READ_BYTES)
        compared = iter(
            room.tried(device_of(self._model), lambda most: self._compare_all(plans, most))
        )
        return [plan.effects([*islice(compared, len(plan.rows))]) for plan in plans]

    def _plan(self, number: int, sentence: Sentence) -> Plan:
        texts = [split_words(sentence.source), split_words(sentence.target)]
        gold = sentence.gold or Gold()
        clean = self._read(texts, gold)
        changes = (
            [*self._changes(number, texts, gold)],
            [*self.paired_changes(number, texts, gold)],
        )
        joint = [*self._replace_both(texts, gold, clean)]
        erased = [*self._erase(texts, clean)]
        return Plan(
            [*map(len, texts)],
            clean,
            changes,
            [int(row.decision_P[0]) for row in joint],
            [word for word, _ in erased],
            [
                *(self._row(change, clean) for change in chain(*changes)),
                *joint,
                *(row for _, row in erased),
            ],
        )

    def halves(self, sentences: Sequence[tuple[int, Sentence]]) -> list[Halves]:
        """Return what each half of the substitutes of some sentences' words does.

        Two models of one vocabulary get the same substitutes.

        Args:
            sentences: as for `effects`.
        """
        plans = [self._plan_halves(number, sentence) for number, sentence in sentences]
        effects = iter(self._carry_out([*chain(*plans)]))
        of_sentences = list[Halves]()
        for clean in (of_halves[0].clean for of_halves in plans):
            first, second = next(effects), next(effects)
            by_half = [np.concatenate(half.replaced, axis=1) for half in (first, second)]
            of_sentences.append(Halves(clean, self._choose_labels(clean), np.stack(by_half)))
        return of_sentences

    def _plan_halves(self, number: int, sentence: Sentence) -> list[Plan]:
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
        lengths = [*map(len, texts)]
        return [
            Plan(lengths, clean, (half, []), [], [], [self._row(change, clean) for change in half])
            for half in halves
        ]

    @torch.no_grad()
    def _choose_labels(self, clean: Clean) -> np.ndarray:
        """Return the system's own choice at each decision, (N,)."""
        states_TD = self._model.states(self._model.collate([(clean.ids[0], clean.ids[1])]))[0]
        return self._model.decide(states_TD)[0].cpu().numpy()[clean.step_N]

    def _read(self, texts: Sequence[Sequence[str]], gold: Gold) -> Clean:
        target_words = [*self._words(PREFIX, texts[PREFIX]), NO_WORD]
        first_T = np.diff(target_words, prepend=-1) != 0
        first_T[-1] = False  # EOS
        step_N = np.flatnonzero(first_T)
        word_N = np.asarray(target_words)[step_N]
        slots = {planted.word: planted.slot for planted in gold.planted}
        slot_N = [slots.get(word, "") for word in word_N.tolist()]
        return Clean(self.encode(texts), step_N, word_N, slot_N)

    def _row(self, change: Change, clean: Clean) -> Row:
        """Return a changed sentence, and the decisions that the change says something of."""
        ids = self.encode(change.texts)
        longer = len(ids[PREFIX]) - len(clean.ids[PREFIX])
        counts_N = np.array([change.counts(slot) for slot in clean.slot_N], dtype=bool)
        behind_N = change.behind(clean.word_N)
        # Between its own words the prefix holds a part of the change, and the steps before a
        # changed target word do not see it.
        seen_N = ~change.within(clean.word_N) if SOURCE in change.units else behind_N
        decision_P = np.flatnonzero(counts_N & seen_N)
        # What stands behind a changed target word moves with it.
        return Row(ids, (clean.step_N + behind_N * longer)[decision_P], decision_P)

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

    def _replace_both(
        self, texts: Sequence[Sequence[str]], gold: Gold, clean: Clean
    ) -> Iterator[Row]:
        """Yield rows in which link and cue of a planted decision are replaced at once."""
        for planted in (p for p in gold.planted if p.slot in clean.slot_N):
            decision_P = np.array([clean.slot_N.index(planted.slot)])
            for link, cue in product(planted.other_links, planted.other_cues):
                words = [*texts[SOURCE]]
                words[planted.link], words[planted.cue] = link, cue
                ids = self.encode([words, texts[PREFIX]])
                yield Row(ids, clean.step_N[decision_P], decision_P)

    def _erase(
        self, texts: Sequence[Sequence[str]], clean: Clean
    ) -> Iterator[tuple[tuple[int, int], Row]]:
        """Yield side and place of each word, and a row that takes all from it but its place."""
        for side, words in enumerate(texts):
            word_X = np.array(self._words(side, words))
            for word in range(len(words)):
                # Input j + 1 is target piece j.
                places, none = np.flatnonzero(word_X == word) + side, np.array([], dtype=int)
                erased = (places, none) if side == SOURCE else (none, places)
                seen_N = (clean.word_N > word) if side == PREFIX else clean.word_N >= 0
                decision_P = np.flatnonzero(seen_N)
                yield (side, word), Row(clean.ids, clean.step_N[decision_P], decision_P, erased)

    def _choose(self, number: int, side: int, unit: Unit, words: Sequence[str]) -> Iterator[Entry]:
        """Yield substitutes in a seeded order, those of as many pieces first."""
        # A text as the seed gives the same draws on every platform.
        drawn = list(unit.others)
        random.Random(f"{number}/{side}/{unit.start}").shuffle(drawn)
        pieces = self._pieces(side, words[unit.start : unit.stop])
        drawn.sort(key=lambda entry: self._pieces(side, entry) != pieces)  # stable
        yield from drawn[: self._most]

    @torch.no_grad()
    def _compare_all(self, plans: Sequence[Plan], positions: int) -> list[np.ndarray]:
        """Return what each row of the plans compares, (KINDS, P)."""
        cleans = [Row(p.clean.ids, p.clean.step_N, np.arange(len(p.clean.step_N))) for p in plans]
        first_of = np.cumsum([0, *(len(row.step_P) for row in cleans)])
        states, order = list[Tensor](), list[np.ndarray]()
        for group, states_ND in self._states(cleans, positions):
            states.append(states_ND)
            order += [first_of[n] + cleans[n].decision_P for n in group]
        way_back = torch.as_tensor(np.argsort(np.concatenate(order)), device=states[0].device)
        clean_ND = torch.cat(states)[way_back]
        label_N = self._model.decide(clean_ND)[0]
        # Erased rows apart: of the others no embedding is replaced.
        rows = [(row, first) for p, first in zip(plans, first_of, strict=False) for row in p.rows]
        numbers, groups = list[Tensor](), list[list[int]]()
        for erases in (False, True):
            members = [
                n
                for n, (row, _) in enumerate(rows)
                if len(row.step_P) and (row.erased is not None) == erases
            ]
            for group, states_PD in self._states([rows[n][0] for n in members], positions):
                groups.append([members[n] for n in group])
                references = np.concatenate(
                    [rows[n][1] + rows[n][0].decision_P for n in groups[-1]]
                )
                pairs = beside_references(self._model, states_PD, clean_ND, references)
                label_P = label_N[torch.as_tensor(references, device=label_N.device)]
                for new_PV, clean_PV in pairs:
                    rows_of_part = len(new_PV)
                    numbers.append(_compare(new_PV, clean_PV, label_P[:rows_of_part]))
                    label_P = label_P[rows_of_part:]
        # Copied once all is computed, since a copy waits for the device.
        compared = torch.cat(numbers, dim=1).cpu().numpy() if numbers else np.empty((KINDS, 0))
        # Rows that compare nothing come first, with no number each.
        by_row = {n: compared[:, :0] for n in range(len(rows))}
        ends = np.cumsum([0, *(len(rows[n][0].step_P) for n in chain(*groups))])
        for n, start, end in zip(chain(*groups), ends, ends[1:], strict=False):
            by_row[n] = compared[:, start:end]
        return [*by_row.values()]

    def _states(self, rows: Sequence[Row], positions: int) -> Iterator[tuple[list[int], Tensor]]:
        """Yield rows of like length, and the states at all steps that they compare, (P, D)."""
        lengths_R2 = np.array([[len(ids) for ids in row.ids] for row in rows]).reshape(-1, 2)
        device = device_of(self._model)
        groups = alike(lengths_R2, lambda s, t: positions // max(s, t), device)
        for group in groups if rows else ():
            members = [rows[n] for n in group]
            batch = self._model.collate([(row.ids[SOURCE], row.ids[PREFIX]) for row in members])
            if members[0].erased is None:
                states_RTD = self._model.decode(
                    self._encode_once(batch, [tuple(row.ids[SOURCE]) for row in members]),
                    self._model.embed_target(batch.input_BT),
                )
            else:
                keep = [np.ones(x.shape, dtype=bool) for x in (batch.source_BS, batch.target_BT)]
                for r, row in enumerate(members):
                    for keep_RX, places in zip(keep, row.erased or (), strict=True):
                        keep_RX[r, places] = False
                keep_RS, keep_RT = (torch.as_tensor(x, device=device) for x in keep)
                switched = SwitchedOff(self._model, batch, "mean")
                all_R = torch.arange(len(members), device=device)
                encoding = switched.encoding(all_R, keep_RS)
                states_RTD = self._model.decode(encoding, switched.inputs(all_R, keep_RT))
            row_P = np.repeat(np.arange(len(members)), [len(row.step_P) for row in members])
            at = np.stack([row_P, np.concatenate([row.step_P for row in members])])
            row, step = torch.as_tensor(at, device=device)
            yield group, states_RTD[row, step]

    def _encode_once(self, batch: Batch, source_R: Sequence[tuple[int, ...]]) -> Encoding:
        """Return the encoding of a batch's rows; rows of one source are encoded once."""
        first_of: dict[tuple[int, ...], int] = {}
        for r, source in enumerate(source_R):
            first_of.setdefault(source, r)
        place_of = {source: n for n, source in enumerate(first_of)}
        device = batch.source_BS.device
        first_N, place_R = (
            torch.tensor(x, device=device)
            for x in ([*first_of.values()], [place_of[source] for source in source_R])
        )
        source_NSD = self._model.embed_source(batch.source_BS[first_N])
        encoding = self._model.encode(source_NSD, batch.layout.select(first_N)).select(place_R)
        return encoding.reading(batch.layout.input_BT)  # which are other ones in each row


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


def _compare(new_PV: Tensor, clean_PV: Tensor, label_P: Tensor) -> Tensor:
    """Return total variation, change of log P(label), and whether the label is lost; (KINDS, P).

    The new distributions are overwritten, since another array as wide as the vocabulary takes as
    long as the rest.
    """
    widest = exact(new_PV.device)
    new_P, clean_P = (p_PV.gather(-1, label_P[:, None])[:, 0] for p_PV in (new_PV, clean_PV))
    lost_P = new_PV.amax(-1) > new_P
    variation_P = 0.5 * new_PV.sub_(clean_PV).abs_().sum(-1)
    new_P, clean_P = (p_P.to(widest).clamp(min=LEAST) for p_P in (new_P, clean_P))
    change_P = new_P.log() - clean_P.log()
    return torch.stack([variation_P.to(widest), change_P, lost_P.to(widest)])
