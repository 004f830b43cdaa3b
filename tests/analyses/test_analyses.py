"""What is read off stored measurements, from their files to the files of the report."""

import csv
import json
import math
import zlib
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from omegaconf import OmegaConf

from support.configurations import configure
from support.example_rows import AER, FIDELITY, Tables, decisions, measured
from support.paths import ROOT
from xnmt_bench.analyses.curves import ByK
from xnmt_bench.analyses.ranking import Ranking
from xnmt_bench.corpora.formats.alignment import Alignment
from xnmt_bench.errors import ConfigError
from xnmt_bench.measuring.bootstrap import Draws, weights
from xnmt_bench.metrics.aer.counts import count_links
from xnmt_bench.metrics.aer.metric import AER as AlignmentErrorRate
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.fidelity.facets import Facets
from xnmt_bench.parquet import write_table
from xnmt_bench.pipeline.settings import read_settings
from xnmt_bench.registry import entries
from xnmt_bench.report.panels import panels
from xnmt_bench.report.report import collect
from xnmt_bench.rules.density import stored_density
from xnmt_bench.rules.scores import DecisionScores
from xnmt_bench.rules.table import Rules, shard_path, write_rules, write_shard
from xnmt_bench.run import configured_metrics, draws, evaluate, run_analyses
from xnmt_bench.schema import check

SENTENCES = 60
NUMBERS = np.arange(2 * SENTENCES)
LOSS = {"attention": 2.0, "gradient_norm": 1.5, "prediction_difference": 1.0, "random": 4.0}
SLOPE = {"base": 1.5, "fn": 1.1, "sa": 1.0}


def log_likelihoods(explainer, instantiation, loss, noise=0.1):
    """Two decisions a sentence, hard or easy for all alike."""
    rng = np.random.default_rng(zlib.crc32(f"{explainer} {instantiation} {loss}".encode()))
    hard = np.random.default_rng(0).gamma(2, 0.2, len(NUMBERS))
    drawn = -loss - hard + hard.mean() + noise * rng.standard_normal(len(NUMBERS))
    return np.minimum(drawn, 0)  # no log-likelihood is above it


class Made:
    """Rows of Fidelity to be written, each with its decisions in the store."""

    def __init__(self, folder):
        self.folder, self.results = folder, folder / "results"
        self.rows = {}

    def add(self, explainer, instantiation, loss, noise=0.1, taken=None, files=(), made_by=(),
            density=None, training=None, **identity):  # fmt: skip
        identity = FIDELITY | {"seed": 0, "explainer": explainer,
                               "instantiation": instantiation} | identity  # fmt: skip
        log_p = log_likelihoods(explainer, instantiation, loss, noise)
        scores = DecisionScores(NUMBERS // 2, NUMBERS % 2, log_p, NUMBERS < 3)
        scores = scores if taken is None else scores.take(taken)
        key = "_".join(map(str, [*identity.values(), training or ""]))
        path = self.folder / f"{key}.parquet"
        scores.save(path)
        files = {"decisions": path} | dict(files)
        made_by = {"scores": key, "judged": f"rules_of_{explainer}"} | dict(made_by)
        facts = {"density": density} if density else {}
        model = "m0"
        if training is not None:  # one of several trainings of a system
            model = f"f{training}"
            facts["lineage"] = {"family": "f", "seed": training, "initial": None}
        units = decisions(scores.sentence_N, scores.log_likelihood_N, scores.correct_N)
        self.rows[key] = lambda: measured(
            Fidelity, self.results, identity, units, model, files, made_by, **facts
        )

    def write(self):
        return {key: write() for key, write in self.rows.items()}


def made_in(folder, **row_keys):
    """Four explainers by three predictors each, and the NMT model's own."""
    benchmark = Made(folder)
    add_all(benchmark, **row_keys)
    return benchmark


def add_all(benchmark, **row_keys):
    for explainer, loss in LOSS.items():
        for instantiation, slope in SLOPE.items():
            benchmark.add(explainer, instantiation, loss * slope, **row_keys)
    benchmark.add("", "nmt", 0.5, **row_keys | {"k": "", "prefix": "", "train_sentences": "",
                                                      "learned_from": "", "seed": ""})  # fmt: skip


def analysed(benchmark, *names, metrics="fidelity", **settings):
    """The CSV rows of each analysis, and what the tracker was shown."""
    benchmark.write()
    ranked = "attention,prediction_difference,gradient_norm,weighted_gradient"
    for name in {"ranking", "rank_stability"} & set(names):
        settings.setdefault(f"{name}.explainers", f"[{ranked}]")
    config = configure(f"metric=[{metrics}]", f"analysis=[{','.join(names)}]",
                       f"results={benchmark.results}", f"store={benchmark.folder}/store",
                       *(f"analysis.{key}={value}" for key, value in settings.items()))  # fmt: skip
    tracker = Tables()
    scored = {name: (metric, collect(metric, benchmark.results, draws(config)))
              for name, metric in configured_metrics(config).items()}  # fmt: skip
    shown = run_analyses(config, scored, benchmark.results, tracker, [])
    rows = {name: rows_in(benchmark, f"fidelity_{name}") for name in names}
    assert {s.name for s in shown} == {f"fidelity_{n}" for n, has_rows in rows.items() if has_rows}
    return rows, tracker.shown


def rows_in(benchmark, name):
    path = benchmark.results / f"{name}.csv"
    return list(csv.DictReader(path.open())) if path.exists() else None


def text_of(benchmark, name):
    return (benchmark.results / f"fidelity_{name}.md").read_text()


def test_every_analysis_has_a_configuration():
    targets = {
        path.stem: OmegaConf.load(path)._target_
        for path in (ROOT / "conf" / "analysis").glob("*.yaml")
    }
    declared = {name: point.value.replace(":", ".") for name, point in entries("analyses").items()}
    assert targets == declared
    for name, point in entries("analyses").items():
        assert point.load().name == name


def test_every_number_is_signed_with_what_it_was_made_from(tmp_path):
    benchmark = made_in(tmp_path)
    [first] = analysed(benchmark, "significance")[0].values()
    assert len({row["signature"] for row in first}) == len(first)
    start, _, after_corpus = first[0]["signature"].partition("|corpus:toy|")
    assert start == "FIDELITY_SIGNIFICANCE"
    assert "|model:m0|" in after_corpus
    assert "|samples:1000|seed:0|level:0.05|rows:" in after_corpus
    benchmark.add("attention", "base", 3.0, made_by={"scores": "of another proxy"})
    [again] = analysed(benchmark, "significance")[0].values()
    assert len(again) == len(first)
    assert not {row["signature"] for row in again} & {row["signature"] for row in first}


def test_an_analysis_is_written_in_every_form(tmp_path):
    benchmark = made_in(tmp_path)
    rows, shown = analysed(benchmark, "significance", "rank_stability")
    for name in rows:
        assert rows[name][0]["corpus"] == "toy"
        assert next(iter(rows[name][0])) == "corpus"  # the condition stands first
        assert len(shown[f"fidelity_{name}"]) == len(rows[name])
        for ending in ("csv", "txt", "md", "tex"):
            assert (benchmark.results / f"fidelity_{name}.{ending}").stat().st_size
    assert shown["fidelity_rank_stability figure"].read_bytes().startswith(b"\x89PNG")


def test_combined_judges_are_ranked_where_they_are_named(tmp_path):
    """Nothing is resampled, so a row that was made of others has its place too."""
    benchmark = made_in(tmp_path)
    benchmark.write()
    scored = collect(Fidelity(), benchmark.results, Draws(20, 0))
    of_sa = [row for row in scored if row.row["instantiation"] == "sa"]
    combined = [
        replace(
            row,
            measurement=replace(
                m := row.measurement, identity=m.identity | {"instantiation": "comb"}
            ),
            derived=True,
        )
        for row in of_sa
    ]
    rows = Ranking(["base", "comb"]).analyse(panels(Fidelity(), [*scored, *combined])).rows
    assert [row["result"] for row in rows].count("comb") == len(of_sa) > 2


def test_generated_data_is_called_so(tmp_path):
    for corpus, is_generated in (("toy", True), ("multi30k", False)):
        (tmp_path / corpus).mkdir()
        benchmark = made_in(tmp_path / corpus, corpus=corpus)
        analysed(benchmark, "ranking")
        assert ("generated data" in text_of(benchmark, "ranking")) == is_generated


def test_a_metric_that_the_question_does_not_fit_is_passed_over(tmp_path, caplog):
    """AER has no k and nothing to normalise; its explainers are still compared."""
    benchmark = made_in(tmp_path)
    gold = Alignment(*[frozenset((i, i) for i in range(10))] * 2)
    for explainer, right in (("attention", 3), ("random", 1)):
        links = frozenset((i, i if i < right else i + 20) for i in range(10))
        units = count_links("toy test", range(30), [links] * 30, [gold] * 30)
        measured(AlignmentErrorRate, benchmark.results, AER | {"explainer": explainer}, units)
    benchmark.write()
    config = configure("metric=[aer,fidelity]", f"results={benchmark.results}",
                       "analysis=[normalised,ranking,significance,k]")  # fmt: skip
    scored = {name: (metric, collect(metric, benchmark.results, draws(config)))
              for name, metric in configured_metrics(config).items()}  # fmt: skip
    shown = {s.name for s in run_analyses(config, scored, benchmark.results, Tables(), [])}
    assert shown == {
        "fidelity_normalised", "fidelity_ranking", "fidelity_significance", "aer_significance",
    }  # fmt: skip
    assert "k: n/a:" in caplog.text and "sweep k=" in caplog.text
    [row] = rows_in(benchmark, "aer_significance")
    assert (row["first"], row["second"], row["result"]) == ("attention", "random", "")
    assert float(row["difference"]) == pytest.approx(-0.2)
    assert row["paired"] == "True"


def test_results_of_other_decisions_are_compared_on_what_all_share(tmp_path):
    benchmark = made_in(tmp_path)
    benchmark.add("attention", "fn", 2.2, taken=np.arange(80))  # of the first 40 sentences
    rows, _ = analysed(benchmark, "rank_stability", "significance", "normalised")
    assert all(rows.values())
    of = {(r["first"], r["second"], r["result"]): r for r in rows["significance"]}
    by_name = {e: log_likelihoods(e, "fn", LOSS[e] * SLOPE["fn"]) for e in LOSS}
    first, second = "prediction_difference", "attention"
    pair_row = of[first, second, "fn"]
    expected = np.exp(by_name[second][:80].mean() - by_name[first][:80].mean())
    assert float(pair_row["ratio"]) == pytest.approx(expected, rel=1e-9)
    assert pair_row["paired"] == "True"
    [second_row] = [
        r for r in rows["normalised"] if (r["explainer"], r["result"]) == (second, "fn")
    ]
    random, nmt = (x[:80].mean() for x in (by_name["random"], log_likelihoods("", "nmt", 0.5)))
    expected = (by_name[second][:80].mean() - random) / (nmt - random)
    assert float(second_row["score"]) == pytest.approx(expected, rel=1e-9)


def test_an_unusual_scenario_is_said(tmp_path):
    for scenario, is_golden in (("golden", True), ("teacher_forcing", False)):
        (tmp_path / scenario).mkdir()
        benchmark = made_in(tmp_path / scenario, scenario=scenario)
        analysed(benchmark, "normalised")
        assert ("golden" in text_of(benchmark, "normalised")) == is_golden


def test_a_damaged_file_is_left_out(tmp_path):
    benchmark = made_in(tmp_path)
    broken_keys = {"explainer": "attention", "instantiation": "base"}
    [broken] = [m for m in benchmark.write().values() if broken_keys.items() <= m.identity.items()]
    with broken.path.open("r+b") as file:
        file.truncate(100)
    benchmark.rows = {}
    scored = collect(Fidelity(), benchmark.results, draws(configure()))
    [panel] = panels(Fidelity(), scored)
    assert set(panel.measured("base")) == set(LOSS) - {"attention"}
    assert set(panel.measured("sa")) == set(LOSS)
    assert str(broken.path) in next(s for s in scored if not s.measurement.ok).measurement.status
    rows, _ = analysed(benchmark, "significance")
    of = {(r["second"], r["result"]) for r in rows["significance"]}
    assert ("attention", "sa") in of and ("attention", "base") not in of
    assert ("random", "base") in of


def test_one_analysis_that_fails_is_no_reason_to_lose_the_others(tmp_path, caplog):
    benchmark = made_in(tmp_path)
    benchmark.add("", "nmt", 0.5, files=kinds(benchmark), **NMT_ROW)
    written = benchmark.write()
    [nmt] = [m for m in written.values() if m.identity["instantiation"] == "nmt"]
    nmt.file("facets").unlink()
    benchmark.rows = {}
    rows, _ = analysed(benchmark, "facets", "ranking")
    assert rows["facets"] is None and rows["ranking"]
    assert "facets: failed:" in caplog.text and nmt.files["facets"] in caplog.text


def test_rank_stability(tmp_path):
    benchmark = made_in(tmp_path)
    rows, _ = analysed(benchmark, "rank_stability")
    rate_of = {(r["result"], float(r["share"])): float(r["rate"]) for r in rows["rank_stability"]}
    assert {i for i, _ in rate_of} == {"base", "fn", "sa"}  # no Comb without the whole family
    assert {s for _, s in rate_of} == {0.01, 0.05, 0.2, 0.5, 1.0}
    assert len(rate_of) == len(rows["rank_stability"])
    assert all(rate == 1 for rate in rate_of.values())  # they are far apart
    order = "prediction_difference < gradient_norm < attention"  # no random, no absent one
    assert {r["order"] for r in rows["rank_stability"]} == {order}
    assert order in text_of(benchmark, "rank_stability")


def test_significance(tmp_path):
    benchmark = made_in(tmp_path)
    for instantiation, slope in SLOPE.items():
        benchmark.add("close", instantiation, 1.0 * slope + 0.001, noise=1.0)
    rows, _ = analysed(benchmark, "significance")
    of = {(r["first"], r["second"], r["result"]): r for r in rows["significance"]}
    assert len(of) == 10 * 3  # five explainers
    apart = of["prediction_difference", "attention", "sa"]
    assert float(apart["ratio"]) == pytest.approx(math.exp(-1), rel=0.05)
    assert float(apart["ratio_low"]) < float(apart["ratio"]) < float(apart["ratio_high"]) < 1
    assert apart["verdict"] == "different"
    assert apart["paired"] == "True"
    assert float(apart["p_corrected"]) >= float(apart["p"])
    pair = next(k for k in of if set(k) >= {"prediction_difference", "close", "sa"})
    assert of[pair]["verdict"] == "n.s."
    text = text_of(benchmark, "significance")
    assert " n.s. |" in text
    assert "one seed" in text
    assert "the same draws for both" in text
    assert "unpaired" not in text


def test_what_the_last_judge_lacks_is_compared_by_the_others(tmp_path):
    benchmark = made_in(tmp_path)
    for explainer in ("attention", "gradient_norm"):
        benchmark.add(explainer, "tiny", 1.0 if explainer == "attention" else 2.0)
    rows, _ = analysed(benchmark, "significance")
    by_result = {name: 0 for name in ("base", "fn", "sa", "tiny")}
    for row in rows["significance"]:
        by_result[row["result"]] += 1
    assert by_result == {"base": 6, "fn": 6, "sa": 6, "tiny": 1}


def test_rows_without_a_seed_are_not_said_to_have_one(tmp_path):
    benchmark = Made(tmp_path)
    for explainer, loss in LOSS.items():
        benchmark.add(explainer, "base", loss, seed="")
        for seed in (0, 1):
            benchmark.add(explainer, "sa", loss, seed=seed)
    analysed(benchmark, "significance")
    assert "one seed" not in text_of(benchmark, "significance")


def test_p_values_are_corrected_for_the_pairs_of_one_result(tmp_path):
    benchmark = Made(tmp_path)
    for n in range(4):
        for instantiation in SLOPE:
            benchmark.add(f"e{n}", instantiation, 1.0 + n / 20, noise=0.5)
    rows, _ = analysed(benchmark, "significance")
    for instantiation in SLOPE:
        pair_rows = [r for r in rows["significance"] if r["result"] == instantiation]
        p, corrected = (np.array([float(r[c]) for r in pair_rows]) for c in ("p", "p_corrected"))
        least = 0.0
        for rank, place in enumerate(np.argsort(p, kind="stable")):  # Holm, step by step
            least = min(1.0, max(least, (6 - rank) * p[place]))
            assert corrected[place] == pytest.approx(least)
        verdicts = [r["verdict"] == "n.s." for r in pair_rows]
        assert verdicts == [p >= 0.05 for p in corrected]


def test_many_pairs_get_enough_samples(tmp_path):
    """Corrected for 36 pairs, a p-value of 2/1001 could never pass."""
    benchmark = Made(tmp_path)
    for n in range(9):
        benchmark.add(f"e{n}", "sa", 1.0 + n / 2, 0.01)
    rows, _ = analysed(benchmark, "significance")
    assert len(rows["significance"]) == 36
    assert {r["verdict"] for r in rows["significance"]} == {"different"}
    assert {int(r["samples"]) for r in rows["significance"]} == {2880}


def test_a_difference_smaller_than_the_spread_of_seeds_is_none(tmp_path):
    benchmark = Made(tmp_path)
    for name, losses in {"a": (1.0, 1.4), "b": (1.3, 1.7), "c": (2.5, 2.6)}.items():
        for seed, loss in enumerate(losses):
            benchmark.add(name, "sa", loss, 0.01, seed=seed)
    rows, _ = analysed(benchmark, "significance")
    verdicts = {(r["first"], r["second"]): r["verdict"] for r in rows["significance"]}
    assert verdicts == {("a", "b"): "seeds", ("a", "c"): "different", ("b", "c"): "different"}
    assert {r["seeds"] for r in rows["significance"]} == {"2"}
    assert "one seed" not in text_of(benchmark, "significance")
    assert "| a | b | " in text_of(benchmark, "significance")
    assert " seeds |" in text_of(benchmark, "significance")


def test_normalised(tmp_path):
    benchmark = made_in(tmp_path)
    rows, shown = analysed(benchmark, "normalised")
    score_of = {(r["explainer"], r["result"]): float(r["score"]) for r in rows["normalised"]}
    assert len(score_of) == 3 * 3
    for (explainer, instantiation), value in score_of.items():
        slope = SLOPE[instantiation]
        expected = (4 - LOSS[explainer]) * slope / (4 * slope - 0.5)
        assert value == pytest.approx(expected, abs=0.03)
    assert ("random", "sa") not in score_of
    assert (benchmark.results / "fidelity_normalised.svg").exists()
    assert shown["fidelity_normalised figure"].exists()


def test_without_random_there_is_no_normalised_score(tmp_path, caplog):
    benchmark = made_in(tmp_path)
    benchmark.rows = {key: row for key, row in benchmark.rows.items() if "_random_" not in key}
    rows, _ = analysed(benchmark, "normalised", "k")
    assert rows == {"normalised": None, "k": None}
    assert "explainer=random" in caplog.text
    assert "sweep k=" in caplog.text


def test_curves(tmp_path):
    benchmark = made_in(tmp_path)
    for k, loss in ((2, 0.8), (3, 0.7)):
        for e in LOSS:
            benchmark.add(e, "sa", LOSS[e] * loss, k=k)
    for e in LOSS:
        benchmark.add(e, "sa", LOSS[e] * 1.3, train_sentences=300)
    rows, shown = analysed(benchmark, "k", "train_sentences")
    ppl = {(int(r["k"]), r["explainer"]): float(r["ppl"]) for r in rows["k"]
           if r["result"] == "sa" and r["train_sentences"] == "900"}  # fmt: skip
    assert len(ppl) == 3 * 4
    for k, loss in ((1, 1.0), (2, 0.8), (3, 0.7)):
        for e in LOSS:
            assert ppl[k, e] == pytest.approx(math.exp(LOSS[e] * loss), rel=0.05)
    for r in rows["k"]:
        assert float(r["ppl_low"]) < float(r["ppl"]) < float(r["ppl_high"])
    assert "k = 1 | k = 2 | k = 3" in text_of(benchmark, "k")
    markdown = text_of(benchmark, "train_sentences")
    assert "| 300 training sentences | 900 training sentences |" in markdown
    assert {"fidelity_k figure", "fidelity_train_sentences figure"} <= set(shown)


def test_the_best_of_each_place_and_result_is_emphasised(tmp_path):
    benchmark = made_in(tmp_path)
    for k, loss in ((2, 0.8), (3, 0.7)):
        for e in LOSS:
            benchmark.add(e, "sa", LOSS[e] * loss, k=k)
    analysed(benchmark, "k")
    lines = [line.split(" | ") for line in text_of(benchmark, "k").splitlines() if "|" in line][2:]
    stars = {(name.strip("| "), result): "".join(cells).count("**") // 2
             for name, result, *cells in lines}  # fmt: skip
    best = "prediction_difference"
    assert {key: n for key, n in stars.items() if n} == {
        (best, "Base"): 1, (best, "own FN"): 1, (best, "own SA"): 3,
    }  # fmt: skip
    assert len(stars) == 4 * 3


def test_seeds_are_averaged_in_curves(tmp_path):
    benchmark = Made(tmp_path)
    for k in (1, 2):
        for seed, loss in enumerate((1.0, 2.0)):
            benchmark.add("attention", "sa", loss * k, 0.01, k=k, seed=seed)
    rows, _ = analysed(benchmark, "k")
    for r in rows["k"]:
        k = int(r["k"])
        seeds = [
            np.exp(-log_likelihoods("attention", "sa", n * k, 0.01).mean()) for n in (1.0, 2.0)
        ]
        assert float(r["ppl"]) == pytest.approx(np.mean(seeds))
        assert float(r["ppl_low"]) < min(seeds) < max(seeds) < float(r["ppl_high"])
    assert len(rows["k"]) == 2


def test_a_curve_begins_where_its_first_place_has_no_number(tmp_path):
    benchmark = Made(tmp_path)
    for k in (2, 3):
        benchmark.add("attention", "base", 1.0, k=k)
    failed = FIDELITY | {"explainer": "attention", "instantiation": "sa", "k": 1}
    measured(Fidelity, benchmark.results, failed, "failed: out of memory")
    rows, shown = analysed(benchmark, "k")
    assert [r["k"] for r in rows["k"]] == ["2", "3"]
    assert "fidelity_k figure" in shown


def test_a_curve_over_unlike_test_sentences_says_so(tmp_path):
    for k, sentences in ((1, "60 sentences"), (2, "1000 other sentences")):
        units = decisions(range(3), [-1.0, -2.0, -1.5])
        settings = {"test sentences": sentences, "max_epochs": 6}
        measured(Fidelity, tmp_path, FIDELITY | {"k": k}, units, settings=settings)
    result = ByK().analyse(panels(Fidelity(), collect(Fidelity(), tmp_path, Draws(9, 0))))
    assert "Places of one line differ also in: test sentences." in result.summary.notes


def test_an_analysis_that_fails_loses_no_other(tmp_path, monkeypatch, caplog):
    benchmark = made_in(tmp_path)
    benchmark.write()

    def fail(*_):
        raise ZeroDivisionError("of a plug-in")

    monkeypatch.setattr(ByK, "analyse", fail)
    config = configure("metric=[fidelity]", "analysis=[k,normalised,rank_stability]",
                       f"results={benchmark.results}")  # fmt: skip
    scored = {"fidelity": (Fidelity(), collect(Fidelity(), benchmark.results, draws(config)))}
    errors = []
    shown = run_analyses(config, scored, benchmark.results, Tables(), errors)
    assert "fidelity_rank_stability" in {table.name for table in shown}
    assert [str(error) for error in errors] == ["of a plug-in"]
    assert "k: failed: ZeroDivisionError: of a plug-in" in caplog.text


def test_scenarios_stand_side_by_side(tmp_path):
    benchmark = made_in(tmp_path)
    for learned in ("teacher_forcing", "real"):
        for e in LOSS:
            benchmark.add(e, "sa", LOSS[e] * 0.9, scenario="real", learned_from=learned)
    rows, shown = analysed(benchmark, "scenario")
    markdown = text_of(benchmark, "scenario")
    assert "| teacher forcing | real | real, learned from real |" in markdown
    sa = [r for r in rows["scenario"] if r["result"] == "sa" and r["explainer"] == "random"]
    assert {(r["scenario"], r["learned_from"]) for r in sa} == {
        ("real", "real"), ("real", "teacher_forcing"), ("teacher_forcing", "teacher_forcing"),
    }  # fmt: skip
    assert len(sa) == 3
    assert shown["fidelity_scenario figure"].exists()


def kinds(benchmark, link=None, folder=None, **columns):
    """The kinds of all decisions, in another order than the scores'."""
    n = NUMBERS
    link = np.full(len(n), "", dtype=object) if link is None else link
    table = {"sentence": n // 2, "step": n % 2,
             "piece": np.where(n % 2 == 0, "begins a word", "end of sentence").astype(object),
             "place": np.where(n % 2 == 0, "first fifth", "last fifth").astype(object),
             "frequency": np.where(n % 3 == 0, "> 10,000", "0-10").astype(object),
             "link": link} | columns  # fmt: skip
    shuffled = np.random.default_rng(0).permutation(len(n))
    path = (folder or benchmark.folder) / "facets.parquet"
    write_table(pa.table({k: v[shuffled] for k, v in table.items()}), path)
    return {"facets": path}


NMT_ROW = {"k": "", "prefix": "", "train_sentences": "", "learned_from": "", "seed": ""}


def test_perplexity_by_the_kind_of_decision(tmp_path):
    benchmark = made_in(tmp_path)
    benchmark.add("", "nmt", 0.5, files=kinds(benchmark), **NMT_ROW)
    rows, shown = analysed(benchmark, "facets")
    shown_kinds = list(dict.fromkeys((r["facet"], r["category"]) for r in rows["facets"]))
    assert shown_kinds == [
        ("place", "first fifth"), ("place", "last fifth"), ("frequency", "0-10"),
        ("frequency", "> 10,000"), ("piece", "begins a word"), ("piece", "end of sentence"),
    ]  # fmt: skip
    assert {r["result"] for r in rows["facets"]} == {"sa"}
    of = {(r["explainer"], r["category"]): r for r in rows["facets"]}
    log_p_of = {"attention": log_likelihoods("attention", "sa", 2.0),
           "NMT itself": log_likelihoods("", "nmt", 0.5)}  # fmt: skip
    for name, log_p in log_p_of.items():
        for category, mask in (("0-10", NUMBERS % 3 > 0), ("> 10,000", NUMBERS % 3 == 0)):
            row = of[name, category]
            assert int(row["decisions"]) == mask.sum()
            assert float(row["ppl"]) == pytest.approx(np.exp(-log_p[mask].mean()))
            assert float(row["ppl_low"]) < float(row["ppl"]) < float(row["ppl_high"])
    assert {name for name, _ in of} == {*LOSS, "NMT itself"}
    assert shown["fidelity_facets figure"].exists()


def test_each_training_has_its_own_kinds(tmp_path):
    benchmark = Made(tmp_path)
    for training in (1, 2):
        folder = tmp_path / str(training)
        folder.mkdir()
        # In the second training every label is frequent.
        labels = {"frequency": np.full(len(NUMBERS), "> 10,000", dtype=object)}
        files = kinds(benchmark, folder=folder, **(labels if training == 2 else {}))
        benchmark.add("attention", "sa", 1.0 + training, training=training)
        benchmark.add("", "nmt", 0.5 * training, training=training, files=files, **NMT_ROW)
    rows, _ = analysed(benchmark, "facets")
    of = {(r["explainer"], r["category"]): r for r in rows["facets"]}
    rare = log_likelihoods("attention", "sa", 2.0)[NUMBERS % 3 > 0]
    assert float(of["attention", "0-10"]["ppl"]) == pytest.approx(np.exp(-rare.mean()))
    frequent = [
        np.exp(-log_likelihoods("", "nmt", 0.5 * training)[mask].mean())
        for training, mask in ((1, NUMBERS % 3 == 0), (2, NUMBERS >= 0))
    ]
    row = of["NMT itself", "> 10,000"]
    assert float(row["ppl"]) == pytest.approx(np.mean(frequent))
    # As the values beside them, a mean over the trainings.
    assert int(row["decisions"]) == round(((NUMBERS % 3 == 0).sum() + len(NUMBERS)) / 2)


def test_trainings_whose_kinds_are_of_other_sentences_are_resampled_together():
    """A sentence that is drawn for one training is drawn for the others."""
    rng, draws = np.random.default_rng(1), Draws(60, 3)
    trainings = {
        name: DecisionScores(np.array(sentences), np.arange(4), rng.normal(-2, 1, 4))
        for name, sentences in {"first": [5, 5, 6, 7], "second": [6, 7, 7, 9]}.items()
    }
    values_R = Facets(60, 3)._resample_perplexity([(s, name) for name, s in trainings.items()])
    count_RU = np.concatenate([np.ones((1, 4)), *weights(4, draws.samples, draws.seed)])
    for value, count_U in zip(values_R, count_RU, strict=True):
        count_of = dict(zip((5, 6, 7, 9), count_U, strict=True))
        expected = []
        for scores in trainings.values():
            count_N = [count_of[sentence] for sentence in scores.sentence_N]
            if sum(count_N):
                expected.append(np.exp(-np.average(scores.log_likelihood_N, weights=count_N)))
        if len(expected) == 2:  # no mean where one training has no decision
            assert value == pytest.approx(np.mean(expected))


def test_facets_without_any_number_are_not_applicable(tmp_path, caplog):
    benchmark = Made(tmp_path)
    benchmark.add("", "nmt", 0.5, files=kinds(benchmark), **NMT_ROW)
    measured(Fidelity, benchmark.results, FIDELITY | {"seed": 0}, "n/a")
    rows, _ = analysed(benchmark, "facets")
    assert rows == {"facets": None} and "lack the kinds" in caplog.text


def test_a_failed_row_of_the_system_beside_its_own_spoils_no_facet(tmp_path):
    benchmark = made_in(tmp_path)
    benchmark.add("", "nmt", 0.5, files=kinds(benchmark), **NMT_ROW)
    failed = FIDELITY | {"seed": 0, "explainer": "", "instantiation": "nmt"} | NMT_ROW
    benchmark.write()
    measured(Fidelity, benchmark.results, failed, "failed: out of memory")
    rows, _ = analysed(benchmark, "facets")
    assert {r["explainer"] for r in rows["facets"]} == {*LOSS, "NMT itself"}


def test_curves_leave_out_systems_without_a_number(tmp_path):
    benchmark = Made(tmp_path)
    for k in (1, 2):
        benchmark.add("attention", "sa", 1.0 + k, k=k)
        measured(Fidelity, benchmark.results, FIDELITY | {"nmt": "rnn_search", "k": k}, "n/a")
    rows, _ = analysed(benchmark, "k")
    assert {row["nmt"] for row in rows["k"]} == {"transformer"}


def test_scores_of_other_decisions_have_no_kinds(tmp_path):
    benchmark = made_in(tmp_path)
    other = NUMBERS.copy()
    other[0] = 5  # as many decisions, one of them twice
    benchmark.add("", "nmt", 0.5, files=kinds(benchmark), **NMT_ROW)
    benchmark.add("attention", "sa", 2.0, taken=other)
    rows, _ = analysed(benchmark, "facets")
    shown = {r["explainer"] for r in rows["facets"] or ()}
    assert "attention" not in shown


def test_ranks_that_disagree_are_marked(tmp_path):
    benchmark = made_in(tmp_path)
    benchmark.add("attention", "base", 2.0)
    benchmark.add("gradient_norm", "base", 3.0)
    rows, _ = analysed(benchmark, "ranking")
    rank_of = {(r["explainer"], r["result"]): (r["rank"], r["agrees"]) for r in rows["ranking"]}
    assert rank_of == {
        ("prediction_difference", "base"): ("1", "True"),
        ("gradient_norm", "base"): ("3", "False"),
        ("attention", "base"): ("2", "False"),
        ("prediction_difference", "sa"): ("1", "True"),
        ("gradient_norm", "sa"): ("2", "True"),
        ("attention", "sa"): ("3", "True"),
    }
    for r in rows["ranking"]:
        loss = {("attention", "base"): 2.0, ("gradient_norm", "base"): 3.0}.get(
            (r["explainer"], r["result"]), LOSS[r["explainer"]] * SLOPE[r["result"]]
        )
        expected = np.exp(-log_likelihoods(r["explainer"], r["result"], loss).mean())
        assert float(r["ppl"]) == pytest.approx(expected)
    assert "(3)" in text_of(benchmark, "ranking")


def test_density_counts_each_set_of_rules_once(tmp_path):
    def every(path):
        return np.ones(500, dtype=bool)

    densities = {}
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
            write_shard(columns, shard_path(tmp_path / explainer, "train", shard))
        densities[explainer] = vars(stored_density(tmp_path / explainer, every))
    benchmark = Made(tmp_path)
    for k in (1, 2):
        for explainer, loss in LOSS.items():
            rules = {"density": densities[explainer], "made_by": {"rules": f"of {explainer}"}}
            benchmark.add(explainer, "sa", loss, k=k, **rules)
            benchmark.add(explainer, "base", loss, k=k)
    # Another scenario of the test, with one explainer alone, hides none of the others.
    rules = {"density": densities["attention"], "made_by": {"rules": "of attention"}}
    benchmark.add("attention", "sa", 1.0, scenario="golden", **rules)
    benchmark.add("gold_alignment", "base", 1.0)  # without training rules
    # Another draw of one has rules of its own.
    drawn_again = {"density": densities[explainer], "made_by": {"rules": "another draw"}}
    benchmark.add(explainer, "sa", 1.0, seed=7, **drawn_again)
    rows, shown = analysed(benchmark, "density")
    row_of = {r["explainer"]: r for r in rows["density"]}
    assert len(rows["density"]) == 5
    assert row_of[f"{explainer} (seed 7)"]["unique"] == row_of[f"{explainer} (seed 0)"]["unique"]
    row_of[explainer] = row_of[f"{explainer} (seed 0)"]
    for n, explainer in enumerate(LOSS):
        row = row_of[explainer]
        assert int(row["rules"]) == 1000
        assert int(row["unique"]) == (2 + n) * (3 + n) ** 2
        assert sum(int(row[f"frequency_bin_{b}"]) for b in range(1, 6)) == int(row["unique"])
    lines = text_of(benchmark, "density").splitlines()[2:7]
    names = [line.split(" | ")[0].strip("| ").partition(" (seed")[0] for line in lines]
    assert names == [*LOSS, explainer]  # densest first
    assert shown["fidelity_density figure"].exists()


def test_words_that_no_annotator_links(tmp_path):
    benchmark = made_in(tmp_path)
    link = np.array(["sure", "none", "none", ""], dtype=object)[np.minimum(NUMBERS, 3)]
    sample = [
        {"number": n, "source": ["▁the", "▁dog", "</s>"], "target": [f"▁der{n}", f"▁Hund{n}"],
         "steps": [0, 1], "labels": ["▁ein", "▁Hund"], "probabilities": [0.5, 0.5]}
        for n in range(SENTENCES)
    ]  # fmt: skip
    (tmp_path / "sample.json").write_text(json.dumps(sample))
    files = kinds(benchmark, link) | {"sample": tmp_path / "sample.json"}
    benchmark.add("", "nmt", 0.5, files=files, **NMT_ROW)
    for place, explainer in enumerate(("attention", "random")):
        words = np.full((len(NUMBERS), 2), place, dtype=np.int32)
        before = np.where(NUMBERS[:, None] % 2, 0 * words, -1).astype(np.int32)
        labels, steps = np.zeros(len(NUMBERS), dtype=np.int32), (NUMBERS % 2).astype(np.int32)
        probabilities = np.ones(len(NUMBERS), dtype=np.float32)
        rules = Rules(NUMBERS // 2, steps, labels, probabilities, words, words, words, before)
        write_rules(rules, tmp_path / f"{explainer}.parquet")
        files = {"browsed_rules": tmp_path / f"{explainer}.parquet"}
        benchmark.add(explainer, "sa", LOSS[explainer], files=files)
    rows, _ = analysed(benchmark, "unaligned")
    row_of = {(r["sentence"], r["step"], r["explainer"]): r for r in rows["unaligned"]}
    assert set(row_of) == {(*step, e) for step in (("0", "1"), ("1", "0"))
                          for e in ("attention", "random")}  # fmt: skip
    first = row_of["0", "1", "random"]
    assert [first[c] for c in ("target", "label", "source_words", "prefix_words")] == [
        "Hund0", "Hund", "dog", "der0",
    ]  # fmt: skip
    other = row_of["1", "0", "attention"]
    assert [other[c] for c in ("target", "label", "source_words", "prefix_words")] == [
        "der1", "ein", "the", "-",
    ]  # fmt: skip
    assert "2 of 3 decisions are on words without a gold link." in text_of(benchmark, "unaligned")
    rows, _ = analysed(benchmark, "unaligned", **{"unaligned.examples": 1})
    assert {(r["sentence"], r["step"]) for r in rows["unaligned"]} == {("0", "1")}
    # Rows of another `browsed` have rules of fewer sentences.
    write_rules(rules.take(rules.sentence_N < 1), tmp_path / "random.parquet")
    rows, _ = analysed(benchmark, "unaligned")
    of_random = {
        (r["sentence"], r["step"]) for r in rows["unaligned"] if r["explainer"] == "random"
    }
    assert of_random == {("0", "1")} and len(rows["unaligned"]) == 3


def test_without_gold_there_are_no_unaligned_words(tmp_path, caplog):
    benchmark = made_in(tmp_path)
    benchmark.add("", "nmt", 0.5, files=kinds(benchmark), **NMT_ROW)
    rows, _ = analysed(benchmark, "unaligned")
    assert rows == {"unaligned": None}
    assert "no results of a corpus with gold word alignment" in caplog.text
    assert not Path(benchmark.results / "fidelity_unaligned.md").exists()


def write_k(folder, k, ppl, epochs, name="attention", **facts):
    units = decisions(range(3), [-ppl] * 3)
    settings = {"max_epochs": epochs}
    identity = FIDELITY | {"k": k, "explainer": name}
    return measured(Fidelity, folder, identity, units, settings=settings, **facts)


def curve_of(folder):
    return ByK().analyse(panels(Fidelity(), collect(Fidelity(), folder, Draws(9, 0))))


def test_a_place_that_was_measured_twice_is_on_the_curve_of_its_settings(tmp_path):
    for k in (1, 2, 3):
        write_k(tmp_path, k, 4 - k, 6)
    write_k(tmp_path, 1, 9, 30)
    result = curve_of(tmp_path)
    assert [(row["k"], round(np.log(row["ppl"]))) for row in result.rows] == [
        (1, 3), (2, 2), (3, 1)
    ]  # fmt: skip
    place = "toy en-de transformer, k = 1, max_epochs: 30"
    assert (
        f"Left out, since a curve needs two points and there is one: {place}."
        in result.summary.notes
    )


def test_blind_rows_of_a_curve_are_named_and_never_the_best(tmp_path):
    for k in (1, 2):
        write_k(tmp_path, k, 2, 6)
        write_k(tmp_path, k, 1, 6, "lexicon", blind=True)
    lines = {line.cells[0].text: line.cells for line in curve_of(tmp_path).summary.lines}
    assert {*lines} == {"attention", "lexicon (blind)"}
    assert all(cell.rank is None for cell in lines["lexicon (blind)"])
    assert [cell.rank is None for cell in lines["attention"]].count(False) == 2


def test_a_metric_that_raises_loses_no_other(tmp_path, monkeypatch):
    config = configure("metric=[fidelity,aer]", "analysis=[]", f"results={tmp_path}")
    write_k(tmp_path, 1, 2, 6)
    links = [frozenset({(0, 0)})] * 3
    units = count_links("toy test", range(3), links, [Alignment(*links[:2])] * 3)
    measured(AlignmentErrorRate, tmp_path, AER, units)
    for broken in ("notes", "of_sums", "reference"):
        with monkeypatch.context() as patched:
            patched.setattr(Fidelity, broken, lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                evaluate_without_hydra(config, patched)
        for name in ("aer.txt", "report.html"):
            (tmp_path / name).unlink()  # which is there, and not of the round before


def evaluate_without_hydra(config, patched):
    @contextmanager
    def start(*_):
        yield Tables()

    patched.setattr("xnmt_bench.run._start", start)
    evaluate(read_settings(config))


def test_lists_of_an_analysis_are_not_empty():
    for change in ("analysis.ranking.results=[]", "analysis.rank_stability.shares=[]"):
        with pytest.raises(ConfigError, match="should not be empty"):
            check(configure("analysis=[ranking,rank_stability]", change), complete=False)
