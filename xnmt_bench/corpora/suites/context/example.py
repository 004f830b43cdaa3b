"""A passage with marked words, and sets of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property

from xnmt_bench.corpora.passage import Passage
from xnmt_bench.corpora.suites.contrastive.group import ContrastiveSet
from xnmt_bench.store import fingerprint

SENSITIVE = "context-sensitive"  # the tag of words that need the context
Places = frozenset[tuple[int, int]]  # sentence of the context, the farthest is 0, and word


@dataclass(frozen=True, slots=True)
class Example:
    """A passage, words of its current target by tag, and the cues of the context-sensitive ones.

    Attributes:
        unit: the number of what it depends on with other examples.
        document: the number of its document; random contexts are of other documents.
        passage: with all of its context.
        tags: words of the current target, counted from 0, by what they are.
        cues: words of the context of either side, `source` and `target`.
    """

    unit: int
    document: int
    passage: Passage
    tags: Mapping[str, frozenset[int]] = field(default_factory=dict)
    cues: Mapping[str, Places] = field(default_factory=dict)


@dataclass(frozen=True)
class ExampleSet:
    """Examples in a fixed order.

    Attributes:
        name: in results.
        lang_pair: such as `en-fr`.
        examples: in the set's own order.
        generated: the sentences were made by a program.
        remarks: what was left out, and why, a line each.
        units_of: the contrastive set whose units these are, if there is one, so that both pair.
    """

    name: str
    lang_pair: str
    examples: Sequence[Example]
    generated: bool = False
    remarks: Sequence[str] = ()
    units_of: ContrastiveSet | None = None

    @property
    def test_set(self) -> str:
        """What a unit's number counts in."""
        if self.units_of:
            return self.units_of.test_set
        return f"{self.lang_pair} {self.name} {self.fingerprint}"

    @cached_property
    def fingerprint(self) -> str:
        """Of everything that it says."""
        plain = [_plain(example) for example in self.examples]
        return fingerprint({"examples": plain})


def _plain(example: Example) -> dict[str, object]:
    """Return an example as values that are the same in every process: sets are sorted."""
    tags = {name: sorted(words) for name, words in example.tags.items()}
    cues = {side: sorted(places) for side, places in example.cues.items()}
    numbers = [example.unit, example.document]
    return {"numbers": numbers, "passage": asdict(example.passage), "tags": tags, "cues": cues}
