"""Does a heatmap find the antecedent? People read the weights over one context sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from xnmt_bench.corpora.function_words import function_words, is_function
from xnmt_bench.errors import StoreError
from xnmt_bench.measuring.measurement import Measurement
from xnmt_bench.parsing import parse_json
from xnmt_bench.sheets.files import AUTOMATIC
from xnmt_bench.sheets.sheet import SYSTEM, Heatmap, Item, Question, SheetKind, ShownText, yes_no

EXAMPLES = "examples"  # of a measurement's files
NEEDED, FOUND, NAIVE, DISPERSED = "needed", "found", "naive", "dispersed"
MAX, SOME, NO_WEIGHT = "max", "some", "none"
WEIGHT, ATTENDED, HARD = "weight", "attended", "hard"  # columns of the key
ROUNDED = 1e-3  # weights are kept with four digits


class LinksSheet(SheetKind):
    """Heatmaps that `metric=[coref_attention]` kept, one coreference link framed in each."""

    name = "links"
    metric = "coref_attention"
    made_by = "train.py metric=[coref_attention] metric.coref_attention.heatmaps=50"
    title = "Coreference links in heatmaps"
    instruction = (
        "A mention of a sentence and its antecedent in an earlier sentence are marked. The table "
        "shows where the system looks in the earlier sentence while it reads each word of the "
        "sentence. Weights that a uniform look would have too are left out; the greatest of a row "
        "is 1. Read the rows of the mention; its cells with the antecedent are framed."
    )
    questions = (
        yes_no(NEEDED, "Is the earlier sentence needed to know what the mention stands for?"),
        Question(
            FOUND,
            "Do the rows of the mention look at the antecedent?",
            {
                MAX: "yes, with the greatest weight of the row",
                SOME: "yes, but another word has more weight",
                NO_WEIGHT: "no, it has no weight",
            },
            "123",
        ),
        yes_no(
            NAIVE,
            "Of the antecedent, do they look only at words that the mention has too?",
            only_if=(FOUND, (MAX, SOME)),
        ),
        yes_no(DISPERSED, "Is the weight spread over many other words, beside function words?"),
    )
    source = "Dinarelli et al. 2024, sections 3.3 and 4, Table 5"

    def items(self, measurements: Sequence[Measurement]) -> Iterator[Item]:
        """Yield every link of every heatmap; see `SheetKind`."""
        for measurement in (m for m in measurements if EXAMPLES in m.files):
            path, identity = measurement.file(EXAMPLES), measurement.identity
            try:
                drawn = parse_json(path.read_text(encoding="utf-8"))[identity["side"]]
            except (ValueError, KeyError, TypeError) as error:
                raise StoreError(f"{path}: not readable: {error}") from None
            # Target weights lie between target sentences: False and True index the pair.
            languages = str(identity["lang_pair"]).split("-")
            language = languages[identity["side"] == "target"]
            for heatmap, example in enumerate(drawn):
                for link in range(len(example["links"])):
                    key = {c: str(identity[c]) for c in (*SYSTEM, "explainer", "side")}
                    key |= {"number": f"{heatmap}", "link": f"{link}"}
                    yield _item(key, example, link, function_words(language))


def _item(
    key: dict[str, str], example: Mapping[str, Any], link: int, functional: frozenset[str]
) -> Item:
    """Return one link of a heatmap.

    Args:
        key: where it is from.
        example: the words, the weights (I, N) after Dinarelli's section 3.3, and the links.
        link: its number.
        functional: function words of the language.
    """
    current, context = example["current"], example["context"]
    mention, antecedent = example["links"][link]
    # A list of no rows has lost its second dimension in JSON.
    weights_IN = np.array(example["weights"], dtype=float).reshape(len(current), len(context))
    rows_MN = weights_IN[mention]
    block = rows_MN[:, antecedent]  # one weight for a link of many words: the greatest
    weight = float(block.max(initial=0.0))
    # Rows are scaled to 1 at their greatest and then rounded, so 1 is not met exactly.
    attention = MAX if weight >= 1 - ROUNDED else SOME if weight > 0 else NO_WEIGHT
    words = {current[n].lower() for n in mention}
    earlier = {context[n].lower() for n in antecedent}
    attended_words = {
        context[antecedent[n]].lower() for n in np.flatnonzero((block > 0).any(axis=0))
    }
    content_N = np.array([not is_function(word, functional) for word in context], dtype=bool)
    # Rows that look nowhere are left out: dispersion is of attention that there is.
    looking_MN = rows_MN[(rows_MN > 0).any(axis=1)] > 0
    attended = float((looking_MN & content_N).sum(axis=1).mean()) if len(looking_MN) else 0.0
    key |= {
        WEIGHT: f"{weight:g}",
        # Empty where nothing is looked at, since 0 would mean: only at function words.
        ATTENDED: f"{attended:g}" if len(looking_MN) else "",
        HARD: "yes" if any(not is_function(w, functional) for w in words - earlier) else "no",
        f"{AUTOMATIC}{FOUND}": attention,
        f"{AUTOMATIC}{NAIVE}": "yes" if attended_words and attended_words <= words else "no",
    }
    heatmap = Heatmap(current, context, weights_IN, list(product(mention, antecedent)))
    texts = [ShownText("earlier", context, antecedent), ShownText("current", current, mention)]
    # Drawn by the automatic answer, so that a small sample has each kind in its share.
    return Item(texts, key, cause=attention, heatmap=heatmap)
