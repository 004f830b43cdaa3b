"""One sentence under every explainer: `evaluate.py explain="..."`."""

from __future__ import annotations

import logging
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from xnmt_bench.corpora.subwords import EOS
from xnmt_bench.errors import MissingError, XnmtError
from xnmt_bench.explainers.base import Explanation
from xnmt_bench.explainers.registry import explainers, load_explainer
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.decoding import translate
from xnmt_bench.report.heatmap import save_heatmap, terminal_heatmap
from xnmt_bench.stages.systems import Systems
from xnmt_bench.store import Artefact, Store

log = logging.getLogger(__name__)


def explain(config: DictConfig) -> None:
    """Shows what each explainer says of a sentence, in the terminal and as a file."""
    model = _model(config)
    target = config.explain_target or _translation(model, config.explain, config.nmt.beam)
    console = Console()
    console.print(f"source: {config.explain}\ntarget: {target}\n", markup=False, highlight=False)
    explanations: dict[str, Explanation] = {}
    for name in explainers():
        explainer = load_explainer(name)
        if explainer.needs_gold:
            continue
        [explanation] = explainer(model, [(config.explain, target)])
        explanations[name] = explanation
        console.print(terminal_heatmap(name, explanation), "")
    for path in save_heatmap(explanations, Path(config.results) / "explanation"):
        console.print(f"written: {path}")


def _translation(model: NMTModel, source: str, beam: int) -> str:
    [ids] = translate(model, [[*model.source_subwords.encode(source), EOS]], beam)
    return model.target_subwords.decode(ids)


def _model(config: DictConfig) -> NMTModel:
    """The system at `nmt.path`, or the one in the store that was trained as configured.

    Raises:
        XnmtError: there is none, since `evaluate.py` never trains.
    """
    try:
        return Systems(config, may_make=False).model
    except MissingError:
        there = [_describe(a) for a in Store(config.store).all("nmt")]
        hint = "name one with nmt.path=...: " + "; ".join(there) if there else "run train.py first"
        raise XnmtError(f"no trained system fits this configuration; {hint}") from None


def _describe(artefact: Artefact) -> str:
    return f"{artefact.path} ({artefact.facts['name']}, {artefact.facts['train_sentences']} pairs)"
