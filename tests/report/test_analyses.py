"""What is read off the stored log-likelihoods, from fragments to files."""

import csv
import dataclasses
import math
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from conftest import configure

from xnmt_bench.metrics.perplexity import DecisionScores
from xnmt_bench.parquet import write_table
from xnmt_bench.report.analyses.run import ANALYSES, run
from xnmt_bench.report.fidelity import FidelityFragment
from xnmt_bench.report.panels import panels
from xnmt_bench.report.tracking import Tracker
from xnmt_bench.rules.table import shard_path, write_shard

SENTENCES = 60
LOSS = {"attention": 2.0, "gradient_norm": 1.5, "prediction_difference": 1.0, "random": 4.0}
SLOPE = {"base": 1.5, "fn": 1.1, "sa": 1.0}


class Tables(Tracker):
    """Remembers what it is shown."""

    def __init__(self):
        self.shown = {}

    def table(self, name, rows, columns):
        self.shown[name] = list(rows)

    def figure(self, name, path):
        self.shown[f"{name} figure"] = path


def fragment(folder, explainer, instantiation, loss, noise=0.1, **more):
    identity = {
        "corpus": "toy", "lang_pair": "en-de", "nmt": "small", "explainer": explainer, "k": 1,
        "scenario": "teacher_forcing", "learned_from": "teacher_forcing",
        "instantiation": instantiation, "seed": 0, "train_sentences": 900,
    } | more  # fmt: skip
    rng = np.random.default_rng(zlib.crc32(f"{explainer} {instantiation} {loss}".encode()))
    hard = np.random.default_rng(0).gamma(2, 0.2, 2 * SENTENCES)  # the same for all
    log_p = -loss - hard + hard.mean() + noise * rng.standard_normal(2 * SENTENCES)
    path = folder / ("_".join(map(str, identity.values())) + ".parquet")
    n = np.arange(2 * SENTENCES)
    DecisionScores(n // 2, n % 2, log_p, n < 3).save(path)
    made_by = {"rules": f"rules_of_{explainer}", "scores": path.stem}
    return FidelityFragment(identity, "m0", scores=str(path), made_by=made_by)


def fragments(folder, **more):
    made = [
        fragment(folder, e, i, loss * SLOPE[i], **more) for e, loss in LOSS.items() for i in SLOPE
    ]
    return [*made, fragment(folder, "", "nmt", 0.5, **{**more, "k": "", "train_sentences": "",
                                                      "learned_from": ""})]  # fmt: skip


def analysed(tmp_path, made, *names, **settings):
    """The CSV rows of each analysis, and what the tracker was shown."""
    for one in made:
        one.write(tmp_path / "results")
    config = configure(f"analysis=[{','.join(names)}]", f"results={tmp_path}/results",
                       f"store={tmp_path}/store",
                       *(f"analysis.{key}={value}" for key, value in settings.items()))  # fmt: skip
    tracker = Tables()
    run(config, tracker)
    rows = {}
    for name in names:
        path = tmp_path / "results" / f"{name}.csv"
        rows[name] = list(csv.DictReader(path.open())) if path.exists() else None
    return rows, tracker.shown


def test_every_analysis_has_a_configuration():
    from conftest import ROOT

    assert {p.stem for p in (ROOT / "conf" / "analysis").glob("*.yaml")} == set(ANALYSES)


def test_every_number_is_signed_with_what_it_was_made_from(tmp_path):
    made = fragments(tmp_path)
    [first] = analysed(tmp_path, made, "significance")[0].values()
    assert len({row["signature"] for row in first}) == len(first)
    start, _, rest = first[0]["signature"].partition("|corpus:toy|")
    assert start == "SIGNIFICANCE"
    assert "|model:m0|" in rest
    assert "|samples:1000|seed:0|level:0.05|scores:" in rest
    other = dataclasses.replace(made[0], made_by={"scores": "of another proxy"})
    [again] = analysed(tmp_path, [other, *made[1:]], "significance")[0].values()
    assert not {row["signature"] for row in again} & {row["signature"] for row in first}


def test_generated_data_is_called_so(tmp_path):
    for corpus, said in (("toy", True), ("multi30k", False)):
        folder = tmp_path / corpus
        folder.mkdir()
        analysed(folder, fragments(folder, corpus=corpus), "ranking")
        assert ("generated data" in (folder / "results" / "ranking.md").read_text()) == said


def test_panels_hold_each_explainers_seeds(tmp_path):
    made = [*fragments(tmp_path), fragment(tmp_path, "attention", "sa", 2.1, seed=1)]
    [panel] = panels(made)
    assert list(panel.scores) == ["base", "fn", "sa"]
    assert len(panel.scores["sa"]["attention"]) == 2
    assert panel.explainers() == sorted(LOSS)
    assert panel.nmt is not None
    assert len(panels(fragments(tmp_path) + fragments(tmp_path, k=2))) == 2


def test_results_of_an_older_version_give_way_to_newer_ones(tmp_path):
    newer = fragments(tmp_path)
    for one in newer:
        one.write(tmp_path / "results")
        older = {k: v for k, v in one.identity.items() if k != "learned_from"}
        dataclasses.replace(one, identity=older, scores="/gone").write(tmp_path / "results")
    alone = {k: v for k, v in newer[0].identity.items() if k != "learned_from"} | {"k": 5}
    dataclasses.replace(newer[0], identity=alone).write(tmp_path / "results")
    found = FidelityFragment.read(tmp_path / "results")
    assert len(found) == len(newer) + 1
    assert {f.scores for f in found} == {f.scores for f in newer}
    assert {f.identity["learned_from"] for f in found} == {"teacher_forcing", ""}


def test_other_decisions_are_left_out_with_a_warning(tmp_path, caplog):
    made = fragments(tmp_path)
    scores = DecisionScores.load(Path(made[1].scores))
    scores.take(np.arange(80)).save(Path(made[1].scores))  # fewer test sentences
    [panel] = panels(made)
    assert set(panel.scores["fn"]) == set(LOSS) - {"attention"}
    assert "other decisions" in caplog.text
    rows, _ = analysed(tmp_path, made, "rank_stability", "significance", "normalised")
    assert all(rows.values())


def test_sizes_stand_in_their_own_order(tmp_path):
    made = [f for n in (900, 10000) for f in fragments(tmp_path, train_sentences=n)]
    assert [p.condition["train_sentences"] for p in panels(made)] == [900, 10000]


def test_an_unusual_scenario_is_said(tmp_path):
    for scenario, said in (("golden", True), ("teacher_forcing", False)):
        folder = tmp_path / scenario
        folder.mkdir()
        analysed(folder, fragments(folder, scenario=scenario), "normalised")
        title = (folder / "results" / "normalised.md").read_text()
        assert ("golden" in title) == said


def test_a_damaged_file_is_left_out_with_a_warning(tmp_path, caplog):
    made = fragments(tmp_path)
    broken = made[0].scores
    with Path(broken).open("r+b") as file:
        file.truncate(100)
    [panel] = panels(made)
    assert "attention" not in panel.scores["base"]
    assert broken in caplog.text


def test_rank_stability(tmp_path):
    rows, _ = analysed(tmp_path, fragments(tmp_path), "rank_stability")
    found = {
        (r["instantiation"], float(r["share"])): float(r["rate"]) for r in rows["rank_stability"]
    }
    assert {i for i, _ in found} == {"base", "fn", "sa"}  # no Comb without the whole family
    assert {s for _, s in found} == {0.01, 0.05, 0.2, 0.5, 1.0}
    assert all(rate == 1 for rate in found.values())  # they are far apart
    order = "prediction_difference < gradient_norm < attention"  # no random, no absent one
    assert {r["order"] for r in rows["rank_stability"]} == {order}
    assert order in (tmp_path / "results" / "rank_stability.md").read_text()


def test_significance(tmp_path):
    close = [fragment(tmp_path, "close", i, 1.0 * SLOPE[i] + 0.001, noise=1.0) for i in SLOPE]
    rows, _ = analysed(tmp_path, fragments(tmp_path) + close, "significance")
    of = {(r["first"], r["second"], r["instantiation"]): r for r in rows["significance"]}
    assert len(of) == 10 * 3  # five explainers
    apart = of["prediction_difference", "attention", "sa"]
    assert float(apart["ratio"]) == pytest.approx(math.exp(-1), rel=0.05)
    assert apart["verdict"] == "different"
    assert float(apart["p_corrected"]) >= float(apart["p"])
    pair = next(k for k in of if set(k) >= {"prediction_difference", "close", "sa"})
    assert of[pair]["verdict"] == "n.s."
    text = (tmp_path / "results" / "significance.txt").read_text()
    assert "n.s." in text
    assert "one seed" in text.replace("\n", " ")


def test_many_pairs_get_enough_samples(tmp_path):
    """Corrected for 36 pairs, a p-value of 2/1001 could never pass."""
    made = [fragment(tmp_path, f"e{n}", "sa", 1.0 + n / 2, 0.01) for n in range(9)]
    rows, _ = analysed(tmp_path, made, "significance")
    assert len(rows["significance"]) == 36
    assert {r["verdict"] for r in rows["significance"]} == {"different"}


def test_a_difference_smaller_than_the_spread_of_seeds_is_none(tmp_path):
    made = [fragment(tmp_path, "a", "sa", loss, 0.01, seed=n) for n, loss in enumerate((1.0, 1.4))]
    made += [fragment(tmp_path, "b", "sa", loss, 0.01, seed=n) for n, loss in enumerate((1.3, 1.7))]
    made += [fragment(tmp_path, "c", "sa", loss, 0.01, seed=n) for n, loss in enumerate((2.5, 2.6))]
    rows, _ = analysed(tmp_path, made, "significance")
    verdicts = {(r["first"], r["second"]): r["verdict"] for r in rows["significance"]}
    assert verdicts == {("a", "b"): "seeds", ("a", "c"): "different", ("b", "c"): "different"}
    assert {r["seeds"] for r in rows["significance"]} == {"2"}


def test_normalised(tmp_path):
    rows, shown = analysed(tmp_path, fragments(tmp_path), "normalised")
    found = {(r["explainer"], r["instantiation"]): float(r["score"]) for r in rows["normalised"]}
    for (explainer, instantiation), value in found.items():
        slope = SLOPE[instantiation]
        expected = (4 - LOSS[explainer]) * slope / (4 * slope - 0.5)
        assert value == pytest.approx(expected, abs=0.03)
    assert ("random", "sa") not in found
    assert (tmp_path / "results" / "normalised.svg").exists()
    assert shown["normalised figure"].exists()


def test_without_random_there_is_no_normalised_score(tmp_path, caplog):
    made = [f for f in fragments(tmp_path) if f.identity["explainer"] != "random"]
    rows, _ = analysed(tmp_path, made, "normalised", "k")
    assert rows == {"normalised": None, "k": None}
    assert "explainer=random" in caplog.text
    assert "sweep k=" in caplog.text


def test_curves(tmp_path):
    made = fragments(tmp_path)
    for k, loss in ((2, 0.8), (3, 0.7)):
        made += [fragment(tmp_path, e, "sa", LOSS[e] * loss, k=k) for e in LOSS]
    made += [fragment(tmp_path, e, "sa", LOSS[e] * 1.3, train_sentences=300) for e in LOSS]
    rows, shown = analysed(tmp_path, made, "k", "train_sentences")
    ppl = {(int(r["k"]), r["explainer"]): float(r["ppl"]) for r in rows["k"]
           if r["instantiation"] == "sa" and r["train_sentences"] == "900"}  # fmt: skip
    for k, loss in ((1, 1.0), (2, 0.8), (3, 0.7)):
        for e in LOSS:
            assert ppl[k, e] == pytest.approx(math.exp(LOSS[e] * loss), rel=0.05)
    markdown = (tmp_path / "results" / "k.md").read_text()
    assert "k = 1 | k = 2 | k = 3" in markdown
    assert (
        "300 sentences | 900 sentences" in (tmp_path / "results" / "train_sentences.md").read_text()
    )
    assert {"k figure", "train_sentences figure"} <= set(shown)


def test_scenarios_stand_side_by_side(tmp_path):
    made = fragments(tmp_path)
    for learned in ("teacher_forcing", "real"):
        made += [fragment(tmp_path, e, "sa", LOSS[e] * 0.9, scenario="real", learned_from=learned)
                 for e in LOSS]  # fmt: skip
    rows, shown = analysed(tmp_path, made, "scenario")
    markdown = (tmp_path / "results" / "scenario.md").read_text()
    assert "| real | real, learned from real | teacher forcing |" in markdown
    sa = [r for r in rows["scenario"] if r["instantiation"] == "sa" and r["explainer"] == "random"]
    assert len(sa) == 3
    assert shown["scenario figure"].exists()


def test_perplexity_by_the_kind_of_decision(tmp_path):
    made = fragments(tmp_path)
    n = np.arange(2 * SENTENCES)
    piece = np.where(n % 2 == 0, "begins a word", "end of sentence").astype(object)
    table = {"sentence": n // 2, "step": n % 2, "piece": piece,
             "place": np.where(n % 2 == 0, "first fifth", "last fifth").astype(object),
             "frequency": np.where(n % 3 == 0, "> 10,000", "0-10").astype(object),
             "link": np.full(len(n), "", dtype=object)}  # fmt: skip
    shuffled = np.random.default_rng(0).permutation(len(n))  # another order than the scores'
    write_table(pa.table({k: v[shuffled] for k, v in table.items()}), tmp_path / "facets.parquet")
    made[-1] = dataclasses.replace(made[-1], facets=str(tmp_path / "facets.parquet"))
    rows, shown = analysed(tmp_path, made, "facets")
    kinds = list(dict.fromkeys((r["facet"], r["category"]) for r in rows["facets"]))
    assert kinds == [
        ("place", "first fifth"), ("place", "last fifth"), ("frequency", "0-10"),
        ("frequency", "> 10,000"), ("piece", "begins a word"), ("piece", "end of sentence"),
    ]  # fmt: skip
    [one] = [
        f
        for f in made
        if (f.identity["explainer"], f.identity["instantiation"]) == ("attention", "sa")
    ]
    scores = DecisionScores.load(Path(one.scores))
    for category, mask in (("0-10", n % 3 > 0), ("> 10,000", n % 3 == 0)):
        [row] = [
            r for r in rows["facets"] if r["explainer"] == "attention" and r["category"] == category
        ]
        assert int(row["decisions"]) == mask.sum()
        assert float(row["ppl"]) == pytest.approx(np.exp(-scores.log_likelihood_N[mask].mean()))
        assert float(row["ppl_low"]) < float(row["ppl"]) < float(row["ppl_high"])
    assert any(r["explainer"] == "NMT itself" for r in rows["facets"])
    assert shown["facets figure"].exists()


def test_ranks_that_disagree_are_marked(tmp_path):
    swapped = fragments(tmp_path)
    swapped = [f for f in swapped if (f.identity["explainer"], f.identity["instantiation"])
               not in {("attention", "base"), ("gradient_norm", "base")}]  # fmt: skip
    swapped.append(fragment(tmp_path, "attention", "base", 2.0))
    swapped.append(fragment(tmp_path, "gradient_norm", "base", 3.0))
    rows, _ = analysed(tmp_path, swapped, "ranking")
    found = {
        (r["explainer"], r["instantiation"]): (r["rank"], r["agrees"]) for r in rows["ranking"]
    }
    assert found == {
        ("prediction_difference", "base"): ("1", "True"),
        ("gradient_norm", "base"): ("3", "False"),
        ("attention", "base"): ("2", "False"),
        ("prediction_difference", "sa"): ("1", "True"),
        ("gradient_norm", "sa"): ("2", "True"),
        ("attention", "sa"): ("3", "True"),
    }
    assert "(3)" in (tmp_path / "results" / "ranking.md").read_text()


def test_density_counts_each_store_once(tmp_path):
    for n, explainer in enumerate(LOSS):
        rng = np.random.default_rng(n)
        for shard in range(2):
            columns = {"sentence": np.arange(500), "step": np.zeros(500, dtype=np.int32),
                       "label": rng.integers(0, 2 + n, 500).astype(np.int32),
                       "probability": np.ones(500, dtype=np.float32)}  # fmt: skip
            for side in ("source", "prefix"):
                for kind in ("ids", "positions"):
                    values = rng.integers(0, 3 + n, (500, 2)).astype(np.int32)
                    columns[f"{side}_{kind}"] = values
            folder = tmp_path / "store" / "rules" / f"rules_of_{explainer}"
            write_shard(columns, shard_path(folder, "train", shard))
    made = fragments(tmp_path) + fragments(tmp_path, k=2)
    # Another scenario of the test, with one explainer alone, hides none of the others.
    made.append(fragment(tmp_path, "attention", "sa", 1.0, scenario="golden"))
    made.append(fragment(tmp_path, "gold_alignment", "base", 1.0))  # without training rules
    rows, _ = analysed(tmp_path, made, "density")
    found = {r["explainer"]: r for r in rows["density"]}
    assert len(rows["density"]) == 4
    for n, explainer in enumerate(LOSS):
        row = found[explainer]
        assert int(row["rules"]) == 1000
        assert int(row["unique"]) == (2 + n) * (3 + n) ** 2
        assert sum(int(row[f"frequency_bin_{b}"]) for b in range(1, 6)) == int(row["unique"])
