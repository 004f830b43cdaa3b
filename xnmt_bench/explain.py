"""One sentence under every explainer that asks the model: `evaluate.py explain="..."`.

With `explainer=...` on the command line it is only that explainer, as configured.

The sentences before it, of a system that reads some, stand before it with ` _eos ` between them, as
contrastive sets have it. With `explain_foil=...`, another target, one step is explained: the first
in which the two targets part, and why the system's choice stands there and not the other word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature

from hydra.core.hydra_config import HydraConfig
from rich.console import Console

from xnmt_bench.corpora.passage import Passage
from xnmt_bench.corpora.sentence import SIDES
from xnmt_bench.corpora.vocabulary.subwords import UNK
from xnmt_bench.errors import TRAIN_FIRST, ConfigError, MissingError, NotApplicable, XnmtError
from xnmt_bench.explainers.base import Explainer, Explanation
from xnmt_bench.explanation.figure import heatmap_figures
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.loading import SHIPPED, shipped
from xnmt_bench.nmt.passages import context_of, translate_passages
from xnmt_bench.pipeline.job import Job
from xnmt_bench.pipeline.settings import Settings
from xnmt_bench.pipeline.system import System
from xnmt_bench.registry import instantiate, load_all, load_explainer
from xnmt_bench.report.figure import save_parts
from xnmt_bench.report.heatmap import legend, terminal_heatmaps
from xnmt_bench.report.report import writable
from xnmt_bench.schema import NO_SYSTEM

END = " _eos "  # of a sentence that another one follows
MakeExplainer = Callable[..., Explainer]  # from options that replace the configured ones


def explain(settings: Settings) -> None:
    """Show one sentence's relevance under each explainer, in the terminal and as a file."""
    system = _open_system(settings)
    model, passage = system.model, passage_of(system, settings)
    console = Console()
    if shipped(settings.nmt.path or "").parent == SHIPPED:
        console.print(f"system: {settings.nmt.name}, which comes with xnmt_bench", highlight=False)
    languages = model.languages or ("", "")
    for side, language in zip(SIDES, languages, strict=True):
        sentences = [*getattr(passage, f"{side}_context"), getattr(passage, side)]
        code = f" ({language})" if language else ""
        console.print(f"{side}{code}: {END.join(sentences)}", markup=False, highlight=False)
    console.print()
    foil = _find_foil(model, passage, settings.explain_foil) if settings.explain_foil else None
    explanations: dict[str, Explanation] = {}
    problem: XnmtError | None = None
    for name, make in _explainers(settings).items():
        try:
            if foil is None:
                [explanations[name]] = make()(model, [passage])
            else:
                explanations[name] = foil.explain(make, model, passage)
        except SameChoice:
            raise
        except XnmtError as error:  # it does not cover this model or needs more; the others do
            console.print(f"{name}: n/a: {error}\n", markup=False, highlight=False)
            problem = error
            continue
        for table in terminal_heatmaps(name, explanations[name], console.width):
            console.print(table, "")
    if problem and not explanations:
        raise problem
    console.print(legend(explanations.values()), "")
    results = settings.results_folder
    results.mkdir(parents=True, exist_ok=True)  # nothing may have been measured yet
    figures = heatmap_figures(each.panel(name) for name, each in explanations.items())
    for path in save_parts(figures, writable(results) / "explanation"):
        console.print(f"written: {path}")


def _explainers(settings: Settings) -> dict[str, MakeExplainer]:
    """Return what makes each explainer that is shown.

    These are the one that the command line names, or else all that ask the model.
    """
    overrides = HydraConfig.get().overrides.task if HydraConfig.initialized() else []
    if any(re.match(r"\+*explainer[.=]", override) for override in overrides):
        name, phi = settings.explainer.name, settings.explainer.phi
        return {name: lambda **options: instantiate(f"explainer {name!r}", phi | options)}
    return {
        name: partial(load_explainer, name)
        for name, explainer in load_all("explainers").items()
        if not explainer.blind and not explainer.for_testing_judges
    }


class SameChoice(XnmtError):
    """The foil is the word that the system chooses."""


@dataclass(frozen=True)
class FoilStep:
    """Where another target parts from the one that is explained.

    Attributes:
        step: counted from 0, in the current sentence.
        word: the id that the other target has there.
        piece: its text.
    """

    step: int
    word: int
    piece: str

    def explain(self, make: MakeExplainer, model: NMTModel, passage: Passage) -> Explanation:
        """Return an explainer's row of only the step, of the choice against the other word.

        Raises:
            NotApplicable: the explainer has no foil.
            SameChoice: the other word is what the system chooses.
        """
        if "foil" not in signature(type(make())).parameters:
            raise NotApplicable(
                "it cannot explain one word against another; explain_foil needs that"
            )
        [explanation] = make(foil=self.word)(model, [passage])
        label = explanation.labels[self.step]
        if label == self.piece:
            raise SameChoice(
                f"explain_foil: the system itself chooses {label!r} there; give another word"
            )
        other = explanation.readable([self.piece])[0]
        step = explanation.take(slice(self.step, self.step + 1))
        return replace(step, labels=[f"{label} not {other}"])


def _find_foil(model: NMTModel, passage: Passage, text: str) -> FoilStep:
    """Return where another target parts from the passage's.

    Raises:
        XnmtError: it does not, or the vocabulary has no such word.
    """
    context = context_of(model, passage)
    vocabularies = model.source_subwords, model.target_subwords
    (_, target), (_, other) = (
        p.read(context).encode(*vocabularies) for p in (passage, replace(passage, target=text))
    )
    before = len(target) - len(model.target_subwords.encode(passage.target)) - 1  # EOS
    pairs = zip(target, other, strict=False)
    place = next((n for n, (a, b) in enumerate(pairs) if a != b), None)
    if place is None:
        raise XnmtError("explain_foil: equals the target; give another translation")
    if other[place] == UNK:
        raise XnmtError(
            "explain_foil: the vocabulary lacks the first word that differs from the target"
        )
    [piece] = model.target_subwords.pieces([other[place]])
    return FoilStep(place - before, int(other[place]), piece)


def passage_of(system: System, settings: Settings) -> Passage:
    """Return the sentence and those before it; a sentence without a target is translated.

    A system with markers reads them around the mentions that its resolver finds.

    Raises:
        XnmtError: the sentence holds a marker, or there are more or fewer targets than sentences,
            and not one.
    """
    sources = str(settings.explain).split(END)
    given_targets = settings.explain_target.split(END) if settings.explain_target else []
    if len(given_targets) not in (0, 1, len(sources)):
        counts = f"{len(given_targets)} sentences, but explain has {len(sources)}"
        raise XnmtError(f"explain_target: {counts}; give as many, or the last one only")
    foils = [settings.explain_foil] if settings.explain_foil else []
    if not all(map(str.strip, (*sources, *given_targets, *foils))):
        raise XnmtError("explain: a sentence is empty")
    sources = [system.markers.mark(source) for source in sources]
    targets: list[str] = []
    for n, source in enumerate(sources[: len(sources) - len(given_targets)]):
        so_far = _read(system, Passage(source, "", sources[:n], targets))
        # In order, since each translation is the context of the next.
        [translation] = translate_passages(system.model, [so_far], settings.nmt.beam)
        targets.append(translation.target)
    targets += given_targets
    return _read(system, Passage(sources[-1], targets[-1], sources[:-1], targets[:-1]))


def _read(system: System, passage: Passage) -> Passage:
    """Return a passage with as many sentences before it as `nmt.context.read` allows."""
    return passage if system.read_sentences is None else passage.read(system.context)


def _open_system(settings: Settings) -> System:
    """Open the system at `nmt.path`, or the one in the store that was trained as configured.

    Raises:
        XnmtError: there is none, since `evaluate.py` never trains; or it reads many languages and
            those of the sentence are not known.
        ConfigError: the configuration names a toolkit and no model of it.
    """
    if not settings.names_system:
        raise ConfigError([NO_SYSTEM])
    job = Job(settings, may_make=False)
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
        hint = "name one with nmt.path=...: " + "; ".join(trained) if trained else TRAIN_FIRST
        raise XnmtError(f"no trained system fits this configuration; {hint}") from None
