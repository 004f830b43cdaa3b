"""Metrics refuse what knows nothing of the model, and what says the opposite of what it knows."""

import pytest
from omegaconf import OmegaConf

from support.configurations import DISCOURSE, configure, overrides
from support.example_rows import Tables
from support.paths import ROOT
from xnmt_bench import registry
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.comparing import compare
from xnmt_bench.pipeline.job import Job
from xnmt_bench.plan import configured_metrics
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect
from xnmt_bench.report.standing import standings_of
from xnmt_bench.run import measure

REFUSED = ("Negated", "Abstaining", "Constant", "Drawn", "OfAnotherSentence", "LabelHash")
WITHOUT_MODEL = ("Constant", "Drawn", "LabelHash")
BLIND = ("lexicon", "nearest", "random", "uniform", "code")
METRICS = {
    "fidelity": {},
    "aer": {},
    "causes": {"substitutes": 2},
    "erasure": {"sentences": 30, "curves": 0, "limited": 0, "removals": ["zero"]},
    "soft": {"sentences": 30, "samples": 2},
    "infidelity": {"sentences": 30, "samples": 10, "removals": ["zero"]},
}
OF_CONTEXT = {"coref_attention": {}, "antecedent": {}, "cues": {"suite": "corpus"}}
# Compares explainers by people's answers, which no explainer here has.
OF_PEOPLE = {"annotation"}
DRAWS = Draws(300, 0)


def measure_all(config, folder, metrics, good=("prediction_difference",), refused=REFUSED):
    """Write the rows of a good explainer, of blind ones, and of those to be refused."""
    config = OmegaConf.merge(config, {"metric": metrics, "results": str(folder)})
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tests" / "fixtures" / "plugin_uninformed")
        for explainer in (*map(registered, (*good, *BLIND)), *map(plug_in, refused)):
            config.explainer = explainer
            job = Job(config)
            for metric in configured_metrics(config).values():
                assert not measure(metric, job, Tables())
    return config, folder


@pytest.fixture(scope="module")
def refused_results(workplace, tmp_path_factory):
    """A folder with the rows of every metric that reads which words are named."""
    names = ",".join(METRICS)
    config = configure(
        *overrides("transformer", workplace),
        "rules.test_sentences=60", "judge=[base]", f"metric=[{names}]",
    )  # fmt: skip
    return measure_all(config, tmp_path_factory.mktemp("refused"), METRICS)


@pytest.fixture(scope="module")
def results_of_context(workplace, tmp_path_factory):
    """The same of a system that reads context, and has learnt nothing that could be explained."""
    names = ",".join(OF_CONTEXT)
    config = configure(
        "nmt=concat", *DISCOURSE, f"store={workplace}/store", f"metric=[{names}]",
        "metric.antecedent.set=corpus",
    )  # fmt: skip
    return measure_all(config, tmp_path_factory.mktemp("refused"), OF_CONTEXT, (), WITHOUT_MODEL)


def registered(name):
    return configure(f"explainer={name}").explainer


def plug_in(name):
    return OmegaConf.create({"name": name, "phi": {"_target_": f"xnmt_uninformed.{name}"}})


def panels_of(results, name):
    """The panels of a metric that have explainers, each with the standings of its rows."""
    config, folder = results
    metric = configured_metrics(config)[name]
    scored = collect(metric, folder, DRAWS)
    together = zip(panels(metric, scored), standings_of(metric, scored, DRAWS), strict=True)
    return [
        (metric, panel, pivot, standings)
        for panel, of_panel in together
        for pivot, standings in of_panel.items()
        if standings
    ]


@pytest.mark.parametrize("name", METRICS)
def test_nothing_uninformed_is_better_than_every_blind_row(refused_results, name):
    [(_, _, _, standings)] = panels_of(refused_results, name)
    assert set(REFUSED) < set(standings)
    assert [n for n in REFUSED if standings[n].word == "better"] == []


@pytest.mark.parametrize("name", OF_CONTEXT)
def test_nothing_uninformed_is_better_by_a_metric_of_context(results_of_context, name):
    named_panels = panels_of(results_of_context, name)
    assert named_panels
    for _, _, _, standings in named_panels:
        assert [n for n, standing in standings.items() if standing.word == "better"] == []


@pytest.mark.parametrize("name", METRICS)
def test_the_negation_of_an_explainer_is_worse_than_it(refused_results, name):
    [(metric, panel, pivot, _)] = panels_of(refused_results, name)
    rows = panel.measured(pivot, derived=True, blind=True)
    negated = compare(metric, rows["Negated"], rows["prediction_difference"], DRAWS)
    no_difference = 1.0 if metric.headline.log else 0.0
    assert (negated.effect < no_difference) == (metric.headline.better == "higher")
    assert negated.p < 0.05


def test_every_metric_of_named_words_is_asked():
    of_words = {
        name
        for name, metric in registry.load_all("metrics").items()
        if metric.compared == "explainer" and metric.of_words and metric.columns[0].better
    }
    assert of_words == set(METRICS) | set(OF_CONTEXT) | OF_PEOPLE
