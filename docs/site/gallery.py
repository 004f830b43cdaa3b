"""Draws one sentence under every explainer that can explain a bare sentence."""

from __future__ import annotations

from inspect import getdoc
from pathlib import Path

import xnmt_bench
from xnmt_bench.errors import NotApplicable
from xnmt_bench.explainers.base import Explainer, Explanation
from xnmt_bench.explanation.figure import heatmap_figures
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.registry import OURS, create, entries
from xnmt_bench.report.figure import save_parts

SYSTEM = "tatoeba_de_en"
SENTENCE = "Meine Schwester hat gestern ein rotes Auto gekauft ."


def write(folder: Path) -> str:
    """Draw the pictures and write their page.

    Returns:
        The page's name in the site.
    """
    folder.mkdir(parents=True)
    model = xnmt_bench.load(SYSTEM)
    drawn, without = [], []
    for name, point in entries("explainers").items():
        if not point.value.startswith(OURS):
            continue
        explainer = create("explainers", name)
        if explainer.for_testing_judges:  # it shows nothing of a sentence
            continue
        line = (getdoc(type(explainer)) or "").partition("\n")[0]
        outcome = _explain(explainer, model)
        if isinstance(outcome, str):
            without.append(f"- `{name}`: {outcome}")
            continue
        title = name.replace("_", " ")
        save_parts(heatmap_figures([outcome.panel(title)]), folder / name)
        mark = " It is blind: it never asks the model." if explainer.blind else ""
        alt = f"Relevance of source words and earlier target words at each step, by {title}"
        drawn.append(f"## {name}\n\n{line}{mark}\n\n![{alt}]({name}.svg)")
    parts = [
        "# One sentence under every explainer",
        f"The shipped system translates *{SENTENCE}* A row is a step of its translation, with the "
        "probability of the word that the system chose; a column is a word that the step sees: "
        "source words on the left, earlier words of the translation on the right. Blue helps the "
        "chosen word, red hurts it; each row is scaled by its greatest number. The pictures were "
        "drawn when this site was built. One sentence does not show how far an explainer can be "
        "trusted; [metrics](../reference/metrics.md) measure that.",
        *drawn,
    ]
    if without:
        parts += ["## Without a picture", "\n".join(without)]
    (folder / "index.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return f"{folder.name}/index.md"


def _explain(explainer: Explainer, model: NMTModel) -> Explanation | str:
    """Return the explanation of the sentence, or why there is none."""
    if explainer.needs_gold:
        return "reads the annotation of a corpus"
    if explainer.learns:
        return "learns from the training text first"
    try:
        [explanation] = explainer(model, [SENTENCE])
    except NotApplicable as error:
        return str(error)
    return explanation
