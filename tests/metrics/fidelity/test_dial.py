"""The dial for leaks: differences of a code and random draws against numbers worked out by hand."""

import numpy as np
import pytest

from support.example_rows import FIDELITY, SYSTEM, measured
from xnmt_bench.errors import NotApplicable
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.causes import Causes
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.fidelity.dial import Dial
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect

SENTENCES = 150
# As the pipeline writes them: options that are the defaults (code, 0.5) have no place in a name.
NAMES = {
    ("code", 0.0): "diluted[share=0.0]",
    ("code", 0.5): "diluted",
    ("code", 1.0): "diluted[share=1.0]",
    ("place_code", 0.5): "diluted[by=place_code]",
    ("random", 0.5): "diluted[by=random]",
    ("random", 1.0): "diluted[by=random, share=1.0]",
}


def write(folder, name, loss, judge="base", noise=0.0, seed=1, **identity):
    """A row whose perplexity is exp(loss) in the mean; `noise` is each sentence's own."""
    drawn = np.random.default_rng(seed).normal(0, noise, SENTENCES)
    columns = {"log_likelihood": -(loss + drawn - drawn.mean()), "rows": np.ones(SENTENCES)}
    row = FIDELITY | {"explainer": name, "instantiation": judge} | identity
    measured(Fidelity, folder, row, Units("toy test", np.arange(SENTENCES), columns))


def write_dials(folder, losses, **facts):
    for key, loss in losses.items():
        write(folder, NAMES[key], loss, **facts)


def turned(folder, *metrics, **options):
    metrics = metrics or (Fidelity(),)
    by_metric = {m.name: panels(m, collect(m, folder, Draws(9, 0))) for m in metrics}
    [(name, result)] = Dial(samples=300, **options).results(by_metric)
    assert name == "fidelity_dial"
    return {(row["judge"], row["by"], row["share"]): row for row in result.rows}, result


LOSSES = {("code", 0.0): 1.0, ("random", 0.5): 3.0, ("random", 1.0): 5.0, ("code", 1.0): 5.0}


def test_a_difference_is_a_share_of_the_judges_own_range(tmp_path):
    write_dials(tmp_path, LOSSES | {("code", 0.5): 2.9, ("place_code", 0.5): 2.0})
    rows, result = turned(tmp_path)
    # The range is 5 - 1 nats.
    assert rows["base", "code", 0.5]["difference"] == pytest.approx(-0.1 / 4)
    assert rows["base", "place_code", 0.5]["difference"] == pytest.approx(-1.0 / 4)
    assert rows["base", "code", 1.0]["difference"] == pytest.approx(0.0)
    assert rows["base", "code", 0.5]["range"] == pytest.approx(4.0)
    assert rows["base", "code", 0.5]["holds"] and not rows["base", "place_code", 0.5]["holds"]
    shown = {line.cells[2].text: [c.text for c in line.cells] for line in result.summary.lines}
    assert shown["words"][-1] == "yes" and shown["places"][-1] == "no"
    assert shown["places"][3] == "-25.0 [-25.0, -25.0]" and shown["places"][4] == ""
    assert turned(tmp_path, limit=0.02)[0]["base", "code", 0.5]["holds"] is False


def test_draws_of_another_seed_are_another_dial(tmp_path):
    write_dials(tmp_path, LOSSES | {("code", 0.5): 2.9})
    write(tmp_path, "diluted[seed=7]", 2.0)
    rows, _ = turned(tmp_path)
    assert rows["base", "code", 0.5]["difference"] == pytest.approx(-0.1 / 4)
    # No random draws of seed 7 stand beside it.
    assert {row["draws"] for row in rows.values()} == {"0"}


def test_each_size_of_training_has_its_line(tmp_path):
    for size, loss in ((500, 2.0), (2000, 3.0)):
        write_dials(tmp_path, LOSSES | {("code", 0.5): loss}, judge="fn", train_sentences=size)
    _, result = turned(tmp_path)
    column = result.summary.headings.index("train_sentences")
    holds = {line.cells[column].text: line.cells[-1].text for line in result.summary.lines}
    assert holds == {"500": "no", "2000": "yes"}


def test_the_interval_is_that_of_sentences_drawn_alike(tmp_path):
    """What sentences have in common moves neither side; a bootstrap by hand gives the ends."""
    # Losses far above 0, since a sentence's own is added.
    all_losses = {key: loss + 5 for key, loss in (LOSSES | {("code", 0.5): 2.9}).items()}
    for key, loss in all_losses.items():
        write(tmp_path, NAMES[key], loss, noise=1.0, seed=2 if key == ("code", 0.5) else 1)
    rows, _ = turned(tmp_path)
    losses = {}
    for key, loss in all_losses.items():
        drawn = np.random.default_rng(2 if key == ("code", 0.5) else 1).normal(0, 1.0, SENTENCES)
        losses[key] = loss + drawn - drawn.mean()
    rng, shares = np.random.default_rng(7), []
    for _ in range(4000):
        chosen = rng.integers(0, SENTENCES, SENTENCES)
        mean = {key: loss_U[chosen].mean() for key, loss_U in losses.items()}
        span = mean["random", 1.0] - mean["code", 0.0]
        shares.append((mean["code", 0.5] - mean["random", 0.5]) / span)
    row = rows["base", "code", 0.5]
    assert [row["low"], row["high"]] == pytest.approx(np.percentile(shares, [2.5, 97.5]), abs=0.008)
    assert not row["holds"]  # the value lies within the limit, and its interval does not
    assert abs(row["difference"]) < 0.05


def test_the_plain_explainer_stands_for_a_dial_at_nothing(tmp_path):
    losses = {key: loss for key, loss in LOSSES.items() if key[1] > 0}
    write_dials(tmp_path, losses | {("code", 0.5): 2.9})
    with pytest.raises(NotApplicable, match="explainer=diluted"):
        turned(tmp_path)
    write(tmp_path, "prediction_difference", 1.0)
    assert turned(tmp_path)[0]["base", "code", 0.5]["difference"] == pytest.approx(-0.1 / 4)


def test_dials_of_other_explanations_stand_apart(tmp_path):
    write_dials(tmp_path, LOSSES | {("code", 0.5): 2.9})
    for options, loss in {"share=0.0": 2.0, "by=random, share=1.0": 4.0, "by=random": 3.0,
                          "by=code, share=0.5": 2.0}.items():  # fmt: skip
        write(tmp_path, f"diluted[of=gradient_norm, {options}]", loss)
    _, result = turned(tmp_path)
    shown = {(row["honest"], row["share"]): row["difference"] for row in result.rows}
    assert shown["prediction_difference", 0.5] == pytest.approx(-0.1 / 4)
    assert shown["gradient_norm", 0.5] == pytest.approx(-1.0 / 2)
    assert "honest" in result.summary.headings


def test_a_judge_that_prefers_random_draws_has_no_range(tmp_path):
    write_dials(tmp_path, {key: 6 - loss for key, loss in LOSSES.items()} | {("code", 0.5): 2.9})
    rows, result = turned(tmp_path)
    assert np.isnan(rows["base", "code", 0.5]["difference"])
    assert not rows["base", "code", 0.5]["holds"]
    assert "no range" in [cell.text for line in result.summary.lines for cell in line.cells]


def test_a_range_that_few_samples_have_holds_nothing(tmp_path):
    """The judge tells random words from good ones by less than the noise of sentences."""
    losses = {key: 5.0 for key in LOSSES} | {("code", 0.5): 5.0, ("random", 1.0): 5.01}
    for key, loss in losses.items():
        write(tmp_path, NAMES[key], loss, noise=1.0, seed=2 if key == ("random", 1.0) else 1)
    row = turned(tmp_path)[0]["base", "code", 0.5]
    assert row["difference"] == 0 and (row["low"], row["high"]) == (0, 0)
    assert not row["holds"]


def test_how_often_both_name_causes_stands_beside(tmp_path):
    write_dials(tmp_path, LOSSES | {("code", 0.5): 2.9})
    assert "causal@k" not in turned(tmp_path)[1].summary.headings
    ones = np.ones(SENTENCES)
    for name, causal in (("diluted", 0.61), ("diluted[by=random]", 0.65)):
        shares = ("chance", "unknown", "strongest", "tau", "change", "flips")
        columns = {}
        for side in ("source", "prefix"):
            columns |= {f"{key}_{side}": ones for key in ("usable", "ranked")}
            columns |= {f"{key}_{side}": 0.1 * ones for key in shares}
            columns |= {f"causal_{side}": causal * ones}
        row = SYSTEM | {"explainer": name, "k": 1, "seed": ""}
        units = Units("toy test", np.arange(SENTENCES), columns)
        measured(Causes, tmp_path, row, units, **{"blind": False, "as_long": 1.0})
    rows, result = turned(tmp_path, Fidelity(), Causes())
    assert rows["base", "code", 0.5]["causal_difference"] == pytest.approx(-0.04)
    assert np.isnan(rows["base", "code", 1.0]["causal_difference"])
    assert "causal@k" in result.summary.headings


def test_it_takes_dials(tmp_path):
    write(tmp_path, "attention", 1.0)
    with pytest.raises(NotApplicable, match=r"explainer\.phi\.by=code,random"):
        turned(tmp_path)
