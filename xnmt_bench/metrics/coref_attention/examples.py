"""Weights over a context sentence, coreference links framed (Dinarelli et al., Figures 1-8)."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from xnmt_bench.errors import StoreError
from xnmt_bench.measuring.listing import Listing, Matrix, names
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.words import Tokens

log = logging.getLogger(__name__)
FILE = "examples"  # of a measurement's
NOTE = (
    "Rows: the current sentence. Columns: a sentence before it. Mentions of one chain are bold, "
    "their links framed. Weights at or below that of a uniform distribution are blank; the "
    "greatest is 100 %."
)


@dataclass(frozen=True)
class Example:
    """The significant weights of one sentence over one context sentence.

    Attributes:
        title: explainer, side and distance.
        current: I words.
        context: N words.
        weights: I rows of N weights.
        links: for each coreference link, the words of the mention and of its antecedent.
    """

    title: str
    current: list[str]
    context: list[str]
    weights: list[list[float]]
    links: list[tuple[list[int], list[int]]]

    def matrix(self) -> Matrix:
        """Return the weights; cells of a mention and its antecedent are framed."""
        # A set, since mentions may overlap.
        framed = sorted({cell for pair in self.links for cell in product(*pair)})
        rows, columns = Tokens.of(self.current, eos=False), Tokens.of(self.context, eos=False)
        return Matrix(rows, columns, np.array(self.weights), framed=framed)


def listings(measurements: Sequence[Measurement], columns: Sequence[str]) -> Iterator[Listing]:
    """Yield a listing for each measurement that has examples, with a file for each of these.

    Args:
        measurements: of the metric.
        columns: of their identities.
    """
    shown = [m for m in measurements if FILE in m.files]
    for name, m in zip(names(shown, columns), shown, strict=True):
        examples = _stored(m)
        if not examples:
            continue
        texts = {
            "current sentence": [" ".join(e.current) for e in examples],
            "context sentence": [" ".join(e.context) for e in examples],
            "where": [e.title for e in examples],
        }
        identity = [str(m.identity[c]) for c in ("corpus", "nmt", "explainer", "seed", "side")]
        # Systems of one name differ by the start of the fingerprint.
        file = re.sub(r"\W+", "_", "_".join(part for part in (*identity, m.model[:6]) if part))
        yield Listing(
            "coreference links",
            name,
            NOTE,
            range(len(examples)),
            texts,
            {"links": np.array([len(e.links) for e in examples], dtype=np.float64)},
            matrices=partial(_matrices, examples),
            files={f"{file}_{number}": e.title for number, e in enumerate(examples)},
        )


def _matrices(examples: Sequence[Example]) -> Iterator[tuple[int, Matrix]]:
    return ((number, example.matrix()) for number, example in enumerate(examples))


def _stored(measurement: Measurement) -> list[Example]:
    """Return the examples of a measurement's side; empty if the file is damaged."""
    try:
        text = measurement.file(FILE).read_text(encoding="utf-8")
    except (OSError, StoreError) as error:
        log.warning("no heatmaps: %s", error)
        return []
    # One file holds both sides.
    return [Example(**columns) for columns in json.loads(text)[measurement.identity["side"]]]
