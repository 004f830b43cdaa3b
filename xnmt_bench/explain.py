"""One sentence under every explainer that asks the model: `evaluate.py explain="..."`.

The sentences before it, of a system that reads some, stand before it with ` _eos ` between them, as
contrastive sets have it.
"""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from xnmt_bench.corpora.passage import Passage
from xnmt_bench.corpora.sentence import SIDES
from xnmt_bench.errors import MissingError, NotApplicable, XnmtError
from xnmt_bench.explainers.base import Explanation, translated
from xnmt_bench.nmt.loading import SHIPPED, shipped
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.system import System
from xnmt_bench.registry import load_all, load_explainer
from xnmt_bench.report.figure import save_figure
from xnmt_bench.report.heatmap import heatmap_figure, legend, terminal_heatmaps
from xnmt_bench.report.report import writable

END = " _eos "  # of a sentence that another one follows


def explain(config: DictConfig) -> None:
    """Show one sentence's relevance under each explainer, in the terminal and as a file."""
    system = _open_system(config)
    model, passage = system.model, _passage(system, config)
    console = Console()
    if shipped(config.nmt.path or "").parent == SHIPPED:
        console.print(f"system: {config.nmt.name}, which comes with xnmt_bench", highlight=False)
    languages = model.languages or ("", "")
    for side, language in zip(SIDES, languages, strict=True):
        sentences = [*getattr(passage, f"{side}_context"), getattr(passage, side)]
        code = f" ({language})" if language else ""
        console.print(f"{side}{code}: {END.join(sentences)}", markup=False, highlight=False)
    console.print()
    explanations: dict[str, Explanation] = {}
    for name in load_all("explainers"):
        explainer = load_explainer(name)
        # Blind explainers do not ask the model.
        if not explainer.blind and not explainer.a_dial:
            try:
                [explanations[name]] = explainer(model, [passage])
            except NotApplicable as error:  # it does not cover this model; the others do
                console.print(f"{name}: n/a: {error}\n", markup=False, highlight=False)
                continue
            for table in terminal_heatmaps(name, explanations[name], console.width):
                console.print(table, "")
    console.print(legend(explanations.values()), "")
    results = Path(config.results)
    results.mkdir(parents=True, exist_ok=True)  # nothing may have been measured yet
    for path in save_figure(heatmap_figure(explanations), writable(results) / "explanation"):
        console.print(f"written: {path}")


def _passage(system: System, config: DictConfig) -> Passage:
    """Return the sentence and those before it; a sentence without a target is translated.

    A system with markers reads them around the mentions that its resolver finds.

    Raises:
        XnmtError: the sentence holds a marker, or there are more or fewer targets than sentences,
            and not one.
    """
    sources = config.explain.split(END)
    given_targets = config.explain_target.split(END) if config.explain_target else []
    if len(given_targets) not in (0, 1, len(sources)):
        counts = f"has {len(given_targets)} sentences, explain {len(sources)}"
        problem = f"{counts}: it takes as many, or the last"
        raise XnmtError(f"explain_target: {problem}")
    if not all(map(str.strip, (*sources, *given_targets))):
        raise XnmtError("explain: an empty sentence")
    sources = [system.mark(source) for source in sources]
    targets: list[str] = []
    for n, source in enumerate(sources[: len(sources) - len(given_targets)]):
        so_far = Passage(source, "", sources[:n], targets)
        # In order, since each translation is the context of the next.
        targets.append(translated(system.model, so_far, config.nmt.beam).target)
    targets += given_targets
    return Passage(sources[-1], targets[-1], sources[:-1], targets[:-1])


def _open_system(config: DictConfig) -> System:
    """Open the system at `nmt.path`, or the one in the store that was trained as configured.

    Raises:
        XnmtError: there is none, since `evaluate.py` never trains; or it reads many languages and
            those of the sentence are not known.
    """
    job = Job(config, may_make=False)
    # A toy corpus is the default, and its languages need not be those of the sentence.
    corpus = None if job.corpus.generated else job.corpus
    try:
        job.system.use(job.system.open(corpus))
        return job.system
    except MissingError:
        trained = [
            f"{artefact.path} ({artefact.facts['name']}, {artefact.facts['train_sentences']} pairs)"
            for artefact in job.store.all("nmt")
        ]
        hint = (
            "name one with nmt.path=...: " + "; ".join(trained)
            if trained
            else ("run train.py first")
        )
        raise XnmtError(f"no trained system fits this configuration; {hint}") from None
