"""A results folder as pandas frames: tables, units and analyses."""

import csv
import sys
from dataclasses import replace

import numpy as np
import pytest

import xnmt_bench
from support.bundle_files import make_results
from support.example_rows import FIDELITY, measured
from xnmt_bench.errors import MissingError, StoreError, XnmtError
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.report.table import csv_columns

pd = pytest.importorskip("pandas")


@pytest.fixture
def results_with_gap(tmp_path):
    """Two explainers under two judges, and a row without a measurement."""
    make_results(tmp_path)
    measured(Fidelity(), tmp_path, FIDELITY | {"explainer": "alti"}, "n/a")
    return tmp_path


def test_table_is_the_csv_file(results_with_gap):
    table = xnmt_bench.results(results_with_gap).table("fidelity")
    assert list(table.columns) == list(csv_columns(Fidelity()))
    assert {"attention", "random", "alti"} == set(table.explainer)
    row = table[(table.explainer == "attention") & (table.instantiation == "base")].iloc[0]
    assert row.ppl_low < row.ppl < row.ppl_high
    # A result that was not measured is NaN.
    assert table[table.explainer == "alti"].ppl.isna().all()
    assert table.ppl.dtype == float and table.k.dtype == int


def test_values_follow_from_units(results_with_gap):
    results = xnmt_bench.results(results_with_gap)
    units, table = results.units("fidelity"), results.table("fidelity")
    assert len(units) == 4 * 3 and set(units.unit) == {0, 1, 2}
    sums = units.groupby(["explainer", "instantiation"])[["log_likelihood", "rows"]].sum()
    for (explainer, judge), row in sums.iterrows():
        ppl = np.exp(-row.log_likelihood / row["rows"])
        stored = table[(table.explainer == explainer) & (table.instantiation == judge)].ppl
        assert stored.item() == pytest.approx(ppl)


def test_a_column_that_is_called_unit_keeps_its_values(results_with_gap, monkeypatch):
    """Confidence says whether its units are of pieces or of words."""
    results = xnmt_bench.results(results_with_gap)
    row = next(r for r in results._rows("fidelity") if r.measurement.path)
    of_words = replace(row, measurement=replace(row.measurement, identity={"unit": "words"}))
    monkeypatch.setattr(results, "_rows", lambda metric: [of_words])
    units = results.units("fidelity")
    assert {*units.unit} == {"words"}
    assert [*units.unit_number] == row.measurement.units().number_U.tolist()


def test_altered_units_are_refused(results_with_gap, tmp_path):
    import shutil

    altered = shutil.copytree(results_with_gap, tmp_path / "altered")
    path = next(altered.glob("measurements/fidelity/*.parquet"))
    Units(
        "toy test", np.arange(3), {"log_likelihood": np.full(3, 9.0), "rows": np.full(3, 2)}
    ).save(path)
    results = xnmt_bench.results(altered)
    assert "failed" in " ".join(results.table("fidelity").status)
    with pytest.raises(StoreError, match="altered"):
        results.units("fidelity")


def test_analyses(results_with_gap):
    analysis = xnmt_bench.results(results_with_gap, samples=50).analysis("significance")
    assert set(analysis.table) == {"fidelity_significance"} and len(analysis) >= 2
    with pytest.raises(XnmtError, match=r"analysis 'signifcance'.*significance"):
        xnmt_bench.results(results_with_gap).analysis("signifcance")
    with pytest.raises(XnmtError, match=r"analysis 'significance': .*typo"):
        xnmt_bench.results(results_with_gap).analysis("significance", typo=1)
    with pytest.raises(XnmtError, match="level"):
        xnmt_bench.results(results_with_gap).analysis("significance", level=5)
    with pytest.raises(XnmtError, match="moves: n/a"):
        xnmt_bench.results(results_with_gap).analysis("moves")


def test_what_is_wrong_is_one_line(results_with_gap, tmp_path, monkeypatch):
    assert repr(xnmt_bench.results(results_with_gap)).endswith("fidelity")
    with pytest.raises(MissingError, match="nothing is measured here yet"):
        xnmt_bench.results(tmp_path / "none")
    with pytest.raises(MissingError, match="the list of bundles is empty"):
        xnmt_bench.results([])
    with pytest.raises(XnmtError, match="measured metric 'aer'"):
        xnmt_bench.results(results_with_gap).table("aer")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(XnmtError, match=r"pip install 'xnmt_bench\[frames\]'"):
        xnmt_bench.results(results_with_gap)


def test_the_file_that_evaluate_writes_has_the_same_numbers(results_with_gap):
    from xnmt_bench.measuring.bootstrap import Draws
    from xnmt_bench.report.report import collect
    from xnmt_bench.report.write import write_rows

    columns = csv_columns(Fidelity())
    rows = [r.row for r in collect(Fidelity(), results_with_gap, Draws(1000, 0))]
    write_rows("fidelity", rows, columns, results_with_gap)
    with (results_with_gap / "fidelity.csv").open() as file:
        written = [row["ppl"] for row in csv.DictReader(file)]
    table = xnmt_bench.results(results_with_gap).table("fidelity")
    numbers = [float(text) if text else np.nan for text in written]
    np.testing.assert_allclose(table.ppl.to_numpy(), numbers, rtol=1e-5)
