"""The plain form of contrastive sets: a JSON object a line, the first of which names the pair.

    {"lang_pair": "en-de"}
    {"source": "It is old .", "variants": ["Er ist alt .", "Sie ist alt ."], "true": 0, ...}

docs/guide/files.md lists the fields.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from xnmt_bench.corpora.suites.contrastive.group import ContrastiveSet, Group, Variant, checked
from xnmt_bench.corpora.text import json_at, text_lines
from xnmt_bench.errors import DataError
from xnmt_bench.options import Natural, Text

Sentences = Annotated[list[Text], Field(min_length=1)]


class _Line(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Header(_Line):
    """The first line."""

    lang_pair: Text
    generated: bool = False


class Described(_Line):
    """A group. A variant with a context of its own is a list: its sentences, the current last."""

    source: Text
    variants: list[Text | Sentences]
    true: Natural = 0
    source_context: list[Text] = []
    target_context: list[Text] = []
    following: list[Text] = []
    distance: Natural | None = None
    pronoun: str = ""
    unit: str = ""
    phenomenon: str = ""

    def group(self) -> Group:
        """Return the group that it describes."""
        shared = tuple(self.target_context)
        variants = tuple(
            Variant(v, shared) if isinstance(v, str) else Variant(v[-1], tuple(v[:-1]))
            for v in self.variants
        )
        before, sizes = len(self.source_context), {len(v.context) for v in variants}
        if len(sizes) > 1:
            raise ValueError("the variants have contexts of different lengths")
        # Contexts pair sentence by sentence; none at all is a source-side context.
        if after := sizes - {0, before}:
            raise ValueError(
                f"the source has {before} sentences of context, a variant {min(after)}"
            )
        return checked(
            Group(
                self.source,
                variants,
                self.true,
                tuple(self.source_context),
                tuple(self.following),
                self.distance,
                self.pronoun,
                self.unit,
            )
        )


def read_plain(path: Path, pair: str | None = None) -> list[ContrastiveSet]:
    """Return the sets of a file, one a phenomenon; a single one is called as the file is.

    Raises:
        DataError: a line is not a group, the file holds no group, or its first line names other
            languages than `pair`.
    """
    header, groups = None, dict[str, list[Group]]()
    for number, text in text_lines(path):
        fields = json_at(path, number, text)
        try:
            if header is None:
                header = Header.model_validate(fields)
                if pair not in (None, header.lang_pair):
                    raise ValueError(f"the set is {header.lang_pair}, but the path names {pair}")
                continue
            described = Described.model_validate(fields)
            phenomenon = described.phenomenon  # empty where the file has one set
            if phenomenon in groups and phenomenon != next(reversed(groups)):
                # Scores of others are in the order of the lines, and sets one after the other.
                raise ValueError(
                    f"the groups of phenomenon {phenomenon!r} are not next to each other"
                )
            groups.setdefault(phenomenon, []).append(described.group())
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise DataError(path, number, f"{where}: {first['msg']}") from None
        except ValueError as error:
            raise DataError(path, number, str(error)) from None
    if header is None or not groups:
        raise DataError(path, None, "the file has no group")
    name, alone = path.name.split(".jsonl")[0], len(groups) == 1
    return [
        ContrastiveSet(
            name if alone else f"{name} {phenomenon}".strip(),
            header.lang_pair,
            phenomenon_groups,
            header.generated,
        )
        for phenomenon, phenomenon_groups in groups.items()
    ]
