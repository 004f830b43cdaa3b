"""Writes the pages of classes: the interfaces, and everything that entry points declare."""

from __future__ import annotations

from pathlib import Path

from xnmt_bench.registry import KINDS, OURS, entries, load

# Of each page: its title, what stands first, the interfaces, and the kinds whose classes follow.
PAGES: dict[str, tuple[str, str, list[str], list[str]]] = {
    "package": (
        "The package",
        "What `import xnmt_bench` gives.",
        [
            "xnmt_bench.nmt.opening.load",
            "xnmt_bench.registry.load_explainer",
            "xnmt_bench.notebook.benchmark",
        ],
        [],
    ),
    "explainers": (
        "Explainers",
        "One function from a model and a batch to relevance for all steps at once.",
        [
            "xnmt_bench.explainers.base.Explainer",
            "xnmt_bench.explainers.base.Explanation",
            "xnmt_bench.explainers.base.Relevance",
        ],
        ["explainers"],
    ),
    "metrics": (
        "Metrics",
        "What is measured of a job, in units that are resampled.",
        [
            "xnmt_bench.measuring.metric.Metric",
            "xnmt_bench.measuring.metric.SumMetric",
            "xnmt_bench.measuring.metric.Key",
            "xnmt_bench.measuring.metric.Column",
            "xnmt_bench.measuring.measurement.Evidence",
            "xnmt_bench.measuring.units.Units",
        ],
        ["metrics"],
    ),
    "judges": (
        "Judges and proxies",
        "Predictors of a decision from its rule.",
        ["xnmt_bench.judges.judge.Judge", "proxies.base.Proxy"],
        ["judges", "proxies"],
    ),
    "analyses": (
        "Analyses",
        "Questions about stored measurements.",
        ["xnmt_bench.analyses.analysis.Analysis"],
        ["analyses"],
    ),
    "models": (
        "Translation models",
        "The interface of a model under explanation, and the architectures that are trained here.",
        ["xnmt_bench.nmt.base.NMTModel", "xnmt_bench.nmt.batch.Batch"],
        ["architectures"],
    ),
    "data": (
        "Corpora and files",
        "Sentences, files of other tools, genders of words, coreference, sheets for people.",
        [
            "xnmt_bench.corpora.sentence.Corpus",
            "xnmt_bench.corpora.sentence.Sentence",
            "xnmt_bench.dumps.base.Dump",
            "xnmt_bench.morphology.base.Morphology",
            "xnmt_bench.resolvers.base.Resolver",
            "xnmt_bench.sheets.sheet.SheetKind",
        ],
        ["dumps", "morphologies", "resolvers", "sheets"],
    ),
    "store": (
        "The store and the job",
        "Every result once, under the fingerprint of what made it.",
        ["xnmt_bench.store.Store", "xnmt_bench.store.Artefact", "xnmt_bench.pipeline.job.Job"],
        [],
    ),
}


def objects(page: str) -> list[str]:
    """Return the full names of what a page documents, in its order."""
    _, _, names, kinds = PAGES[page]
    return [*names, *(name for kind in kinds for name in _declared(kind).values())]


def _declared(kind: str) -> dict[str, str]:
    """Return the full names of this project's own classes of a kind, by their short names."""
    names = {}
    for short, point in entries(kind).items():
        if point.value.startswith(OURS):
            cls = load(kind, short)  # an entry point may name a module that imports the class
            names[short] = f"{cls.__module__}.{cls.__name__}"
    return names


def write(folder: Path) -> list[str]:
    """Write the pages.

    Returns:
        Their names in the site.
    """
    folder.mkdir(parents=True)
    for page, (title, first, names, kinds) in PAGES.items():
        parts = [f"# {title}", first, *(f"::: {name}" for name in names)]
        for kind in kinds:
            noun, group = KINDS[kind].noun, KINDS[kind].group
            chosen = f" `{group}=NAME` chooses one." if group else ""
            parts.append(
                f"## Each {noun}\n\nBy name, such as `xnmt list {kind}` prints it.{chosen}"
            )
            for short, name in _declared(kind).items():
                parts += [f"`{short}`", f"::: {name}"]
        (folder / f"{page}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return [f"{folder.name}/{page}.md" for page in PAGES]
