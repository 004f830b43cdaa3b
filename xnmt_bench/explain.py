"""One sentence under every explainer that asks the model: `evaluate.py explain="..."`."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from xnmt_bench.corpora.subwords import EOS
from xnmt_bench.errors import MissingError, XnmtError
from xnmt_bench.explainers.base import Explanation
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.decoding import translate
from xnmt_bench.pipeline.job import Job
from xnmt_bench.registry import entries, load_explainer
from xnmt_bench.report.figure import save_figure
from xnmt_bench.report.heatmap import heatmap_figure, terminal_heatmaps
from xnmt_bench.report.report import writable


def explain(config: DictConfig) -> None:
    """Shows what each explainer says of a sentence, in the terminal and as a file."""
    model = _model(config)
    target = config.explain_target or _translation(model, config.explain, config.nmt.beam)
    console = Console()
    console.print(f"source: {config.explain}\ntarget: {target}\n", markup=False, highlight=False)
    explanations: dict[str, Explanation] = {}
    for name in entries("explainers"):
        explainer = load_explainer(name)
        if not explainer.blind:  # which would say nothing of the model
            [explanations[name]] = explainer(model, [(config.explain, target)])
            for table in terminal_heatmaps(name, explanations[name], console.width):
                console.print(table, "")
    results = Path(config.results)
    results.mkdir(parents=True, exist_ok=True)
    for path in save_figure(heatmap_figure(explanations), writable(results) / "explanation"):
        console.print(f"written: {path}")


def _translation(model: NMTModel, source: str, beam: int) -> str:
    [ids] = translate(model, [[*model.source_subwords.encode(source), EOS]], beam)
    return model.target_subwords.decode(ids)


def _model(config: DictConfig) -> NMTModel:
    """The system at `nmt.path`, or the one in the store that was trained as configured.

    Raises:
        XnmtError: there is none, since `evaluate.py` never trains.
    """
    job = Job(config, may_make=False)
    try:
        return job.system.model
    except MissingError:
        trained = [
            f"{made.path} ({made.facts['name']}, {made.facts['train_sentences']} pairs)"
            for made in job.store.all("nmt")
        ]
        hint = (
            "name one with nmt.path=...: " + "; ".join(trained)
            if trained
            else ("run train.py first")
        )
        raise XnmtError(f"no trained system fits this configuration; {hint}") from None
