"""What a sheet is: questions, items drawn from results, and a key that tells where each is from.

A kind of sheet says which measurement it reads and yields its items. Drawing, shuffling, numbering,
writing and reading are the same for all kinds.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from xnmt_bench.errors import ConfigError, MissingError, XnmtError
from xnmt_bench.measuring.measurement import Measurement, read
from xnmt_bench.options import Text

log = logging.getLogger(__name__)
SYSTEM = ("corpus", "lang_pair", "nmt")
NONE = "-"  # the answer "no word"
UNKNOWN = "?"  # the answer "I cannot tell"


@dataclass(frozen=True)
class Question:
    """A question that a person answers for each item.

    Attributes:
        name: its column in the CSV.
        text: as the person reads it.
        choices: what each answer means, by the answer as the CSV has it; empty where the
            answer is a set of words.
        keys: the key that gives each choice in the browser, in the order of the choices.
        words_of: the text whose words are chosen; empty where there are choices.
        only_if: a question, and those of its answers after which this question comes.
    """

    name: str
    text: str
    choices: Mapping[str, str] = field(default_factory=dict)
    keys: str = ""
    words_of: str = ""
    only_if: tuple[str, Sequence[str]] | None = None

    def asked(self, answers: Mapping[str, str]) -> bool:
        """Return whether it comes after some answers, by the names of their questions."""
        return self.only_if is None or answers.get(self.only_if[0]) in self.only_if[1]

    def problem(self, answer: str, words: int | None) -> str | None:
        """Return why an answer is none of the question's, or None.

        Args:
            answer: not empty.
            words: how many words the text has of which the answer is a set.
        """
        if self.choices:
            allowed = ", ".join(self.choices)
            return None if answer in self.choices else f"should be one of {allowed}"
        if answer == NONE:
            return None
        numbers = answer.split()
        if not all(number.isascii() and number.isdigit() for number in numbers):
            return f"should be numbers of words, or {NONE} for no word"
        if words is not None and (
            # Length first: int() of some thousand digits raises an error of its own.
            bad := [n for n in numbers if len(n) > 6 or not 1 <= int(n) <= words]
        ):
            return f"no word {bad[0]}: the sentence has {words} words, counted from 1"
        if len(set(map(int, numbers))) < len(numbers):
            return "names a word twice"
        return None


def yes_no(name: str, text: str, only_if: tuple[str, Sequence[str]] | None = None) -> Question:
    """Return a question that is answered by yes or no; see `Question` for the arguments."""
    return Question(name, text, {"yes": "yes", "no": "no"}, "yn", only_if=only_if)


@dataclass(frozen=True)
class ShownText:
    """A text that a person sees.

    Attributes:
        heading: its column in the CSV.
        words: of it, between blanks.
        marked: places of the words that stand out.
        numbered: whether its words are numbered, from 1, so that answers can name them.
    """

    heading: str
    words: Sequence[str]
    marked: Sequence[int] = ()
    numbered: bool = False

    def cell(self) -> str:
        """Return it as one cell of the CSV: marked words in brackets, numbers before a colon."""
        words = [f"[{w}]" if n in set(self.marked) else w for n, w in enumerate(self.words)]
        if self.numbered:
            words = [f"{n}:{word}" for n, word in enumerate(words, start=1)]
        return " ".join(words)


@dataclass(frozen=True)
class Heatmap:
    """Weights that a person sees: a row for each word of one text, a column for each of another.

    Attributes:
        rows, columns: the words.
        weights_RC: from 0 to 1, (R, C).
        framed: the cells that stand out.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    weights_RC: np.ndarray
    framed: Sequence[tuple[int, int]] = ()

    def cell(self) -> str:
        """Return the framed rows as one cell of the CSV, the heaviest words first."""
        lines = []
        for row in sorted({row for row, _ in self.framed}):
            weights_C = self.weights_RC[row]
            # Words without weight are left out: the cell has to stay readable in a spreadsheet.
            order = [n for n in np.argsort(-weights_C, kind="stable") if weights_C[n] > 0]
            words = ", ".join(f"{self.columns[n]} {weights_C[n]:.2f}" for n in order)
            lines.append(f"{self.rows[row]}: {words or 'no weight'}")
        return "; ".join(lines)


@dataclass(frozen=True)
class Item:
    """One row of a sheet.

    Attributes:
        texts: what the person sees.
        key: what the person does not see, by column of the key: corpus, lang_pair, nmt, and which
            item of theirs it is; the automatic answers under `automatic:<question>`, relevance of
            each word under `relevance:<explainer>`, or `blind:<explainer>` where it never asks the
            model.
        cause: the stratum within its corpus and language pair.
        heatmap: the weights that the person sees, if any.
    """

    texts: Sequence[ShownText]
    key: Mapping[str, str]
    cause: str = ""
    heatmap: Heatmap | None = None

    def cells(self) -> dict[str, str]:
        """Return what the person sees, by column of the CSV."""
        cells = {text.heading: text.cell() for text in self.texts}
        return cells | ({"weights": self.heatmap.cell()} if self.heatmap else {})


class SheetKind(ABC):
    """Base of every kind of sheet. Options are arguments of `__init__`, each with a default.

    Args:
        corpus, lang_pair, nmt: the rows of results that items come from; None for all.

    Attributes:
        name: as in `sheet=name` and in its files.
        metric: whose measurements it reads.
        made_by: the command that measures what it reads.
        title: of its page.
        instruction: what the person reads first.
        questions: in the order of the page.
        source: the paper that asked people so.
    """

    name: ClassVar[str]
    metric: ClassVar[str]
    made_by: ClassVar[str]
    title: ClassVar[str]
    instruction: ClassVar[str]
    questions: ClassVar[Sequence[Question]]
    source: ClassVar[str] = ""

    def __init__(
        self, corpus: Text | None = None, lang_pair: Text | None = None, nmt: Text | None = None
    ) -> None:
        self._wanted = {"corpus": corpus, "lang_pair": lang_pair, "nmt": nmt}

    @abstractmethod
    def items(self, measurements: Sequence[Measurement]) -> Iterator[Item]:
        """Yield every item that people can be asked about.

        Args:
            measurements: of the metric, those that the options choose.
        """

    def measurements(self, results: Path) -> list[Measurement]:
        """Return the rows of results that items come from.

        Raises:
            MissingError: there is none.
            ConfigError: an option names a row that is not there.
        """
        try:
            # Results that are missing and results without a usable row have the same cure.
            rows = [m for m in read(self.metric, results, SYSTEM) if m.ok]
        except MissingError:
            rows = []
        if not rows:
            raise MissingError(
                f"{results}: sheet={self.name} needs results of {self.metric}, and none are here "
                f"yet; first run {self.made_by}"
            )
        for column, value in self._wanted.items():
            # Checked here and not by the schema: only the results know which systems there are.
            values = sorted({str(m.identity[column]) for m in rows})
            if value is not None and value not in values:
                problem = f"sheet.{column}={value}: choose one of {', '.join(values)}"
                raise ConfigError([problem])
            rows = [m for m in rows if value in (None, m.identity[column])]
        if not rows:
            chosen = {name: value for name, value in self._wanted.items() if value}
            raise ConfigError([f"sheet: no row of {self.metric} matches all of {chosen}"])
        return rows

    def draw(self, results: Path, items: int | None, seed: int) -> list[Item]:
        """Return a stratified sample of the items, shuffled.

        Every corpus and language pair gets the same number of items, as far as it has so many.
        Within them each cause gets its share, so that a figure over the sample estimates the
        figure over all of them.

        Args:
            results: the folder of results.
            items: how many; None for all.
            seed: of the draw.

        Raises:
            XnmtError: there is nothing to draw from.
        """
        all_items = list(self.items(self.measurements(results)))
        if not all_items:
            raise XnmtError(
                f"{results}: the results of {self.metric} have nothing that sheet={self.name} can "
                f"ask about; first run {self.made_by}"
            )
        rng = np.random.default_rng(seed)
        groups: dict[tuple[str, str], list[Item]] = defaultdict(list)
        for item in all_items:
            groups[item.key["corpus"], item.key["lang_pair"]].append(item)
        # Sorted by name: the order of files on a disk must not decide what is drawn.
        sizes = [len(group) for _, group in sorted(groups.items())]
        counts = share_equally(sizes, len(all_items) if items is None else items)
        drawn = [
            item
            for (_, group), count in zip(sorted(groups.items()), counts, strict=True)
            for item in _draw_by_cause(group, count, rng)
        ]
        if items is not None and len(drawn) < items:
            log.warning(
                "the sheet has %d items, since there are fewer than sheet.items=%d",
                len(drawn),
                items,
            )
        # Shuffled over all groups, so that a place in the sheet does not betray its system.
        return [drawn[place] for place in rng.permutation(len(drawn))]


def share_equally(sizes: Sequence[int], total: int) -> list[int]:
    """Return how many each group gives to a sample: the same number, as far as they have so many.

    Args:
        sizes: how many each group has.
        total: of the sample.
    """
    counts = [0] * len(sizes)
    for _ in range(min(total, sum(sizes))):
        # The group that gave least so far gives one more; the first of several.
        open_groups = [n for n, size in enumerate(sizes) if counts[n] < size]
        counts[min(open_groups, key=counts.__getitem__)] += 1
    return counts


def _draw_by_cause(group: Sequence[Item], count: int, rng: np.random.Generator) -> list[Item]:
    """Draw items such that each cause and system has its share of them (largest remainders)."""
    strata: dict[tuple[str, str], list[Item]] = defaultdict(list)
    for item in group:
        strata[item.cause, item.key["nmt"]].append(item)
    members = [stratum for _, stratum in sorted(strata.items())]
    quotas = np.array([count * len(stratum) / len(group) for stratum in members])
    counts = np.floor(quotas).astype(int)
    # Of equal remainders chance decides, not the alphabet.
    order = np.lexsort((rng.random(len(quotas)), counts - quotas))
    counts[order[: count - counts.sum()]] += 1
    return [
        stratum[place]
        for stratum, size in zip(members, counts, strict=True)
        # Back in the order of the results, so that one shuffle, of `draw`, decides the order.
        for place in sorted(rng.permutation(len(stratum))[:size].tolist())
    ]


def joined_numbers(values: Sequence[Any]) -> str:
    """Return numbers as one cell: six significant digits, between blanks."""
    # Significant digits: relevance spans orders of magnitude, and decimals would flatten the small.
    return " ".join(f"{float(value):.6g}" for value in values)
