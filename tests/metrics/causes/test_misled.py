"""How often an explainer misses the strongest cause, by hand, and on the small Transformer."""

import numpy as np
import pytest

from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.measurement import write
from xnmt_bench.metrics.causes import Causes
from xnmt_bench.metrics.causes.misled import STRONGEST, Misled, miss_strongest
from xnmt_bench.metrics.causes.ranks import SIDES, Ranking
from xnmt_bench.metrics.causes.table import Decision, load
from xnmt_bench.parquet import read_table
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect

NAN = np.nan


def ranking(*relevance):
    """A ranking of words of one piece each."""
    return Ranking.of_pieces(np.array(relevance), range(len(relevance)), len(relevance))


def decision(source, prefix, takes_both=False):
    effects = {
        ("replaced", side): np.array(x) for side, x in zip(SIDES, (source, prefix), strict=True)
    }
    return Decision(1, None, NAN, effects, takes_both)


@pytest.mark.parametrize(
    ("source", "prefix", "missed"),
    [
        ([0.2, 0.6, NAN], [0.3, NAN], ("source", 1.0)),  # it names the first word
        ([0.6, 0.2, NAN], [0.3, NAN], ("source", 0.0)),
        ([0.2, 0.6, NAN], [0.7, NAN], ("prefix", 0.5)),  # both prefix words are as relevant
        ([0.6, 0.6, NAN], [0.3, NAN], ("source", 0.0)),  # either is the strongest
        ([0.04, 0.0, NAN], [0.0, NAN], None),
        ([NAN, NAN, NAN], [NAN, NAN], None),
    ],
)
def test_the_strongest_cause_is_of_both_sides(source, prefix, missed):
    rankings = [ranking(0.9, 0.5, 0.1), ranking(0.4, 0.4)]
    assert miss_strongest(decision(source, prefix), rankings, 0.05) == missed
    assert miss_strongest(decision(source, prefix, takes_both=True), rankings, 0.05) is None


def test_an_explainer_of_the_source_alone_misses_no_cause_in_the_prefix(tmp_path):
    rankings = [ranking(0.9, 0.5), ranking(NAN, NAN)]
    assert miss_strongest(decision([0.2, 0.1], [0.7, 0.1]), rankings, 0.05) is None
    assert miss_strongest(decision([0.7, 0.1], [0.2, 0.1]), rankings, 0.05) == ("source", 0.0)


@pytest.fixture(scope="module")
def row(transformer, tmp_path_factory):
    """The folder of results, and the row of causes under prediction difference."""
    metric, folder = Causes(sentences=16), tmp_path_factory.mktemp("misled")
    [planned] = metric.measure(transformer)
    return folder, write("causes", planned.identify(), planned.make(), folder)


def test_shares_are_those_of_the_decisions_of_each_kind(row, transformer):
    folder, measurement = row
    table = read_table(measurement.file(STRONGEST)).to_pylist()
    result = Misled(samples=50).analyse(panels(Causes(), collect(Causes(), folder, Draws(9, 0))))
    rows = {(r["facet"], r["category"]): r for r in result.rows}
    assert rows["all", "all"]["decisions"] == len(table) > 50
    for (facet, category), of_kind in rows.items():
        missed = [decision["missed"] for decision in table if decision[facet] == category]
        assert of_kind["decisions"] == len(missed)
        assert of_kind["missed"] == pytest.approx(np.mean(missed))
        assert of_kind["missed_low"] <= of_kind["missed"] + 1e-9
    for facet in ("side", "class", "frequency", "place", "length"):
        counts = [r["decisions"] for (name, _), r in rows.items() if name == facet]
        assert sum(counts) == len(table), facet


def test_each_decision_with_a_cause_has_its_kind(row, transformer):
    _, measurement = row
    table = read_table(measurement.file(STRONGEST)).to_pylist()
    effects = load(Causes(sentences=16)._effects(transformer))
    greatest = {
        (number, d.step): {side: np.nanmax([0, *d.effects["replaced", side]]) for side in SIDES}
        for number, decisions in effects.items()
        for d in decisions
    }
    kept = {key for key, of_sides in greatest.items() if max(of_sides.values()) >= 0.05}
    assert {(r["sentence"], r["step"]) for r in table} == kept
    sentences = dict(enumerate(transformer.corpus.sentences("test")))
    for r in table:
        of_sides = greatest[r["sentence"], r["step"]]
        assert r["side"] == max(of_sides, key=of_sides.get)
        assert (r["length"] == "1-10 source words") == (
            len(sentences[r["sentence"]].source.split()) <= 10
        )


def test_it_takes_results_of_causes():
    with pytest.raises(NotApplicable, match="lack the strongest causes"):
        Misled().analyse([])
