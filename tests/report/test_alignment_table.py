"""The AER table, and its agreement with fidelity."""

import numpy as np
import pytest

from xnmt_bench.corpora.alignment import Alignment
from xnmt_bench.errors import MissingError
from xnmt_bench.metrics.aer import LinkCounts
from xnmt_bench.metrics.perplexity import DecisionScores
from xnmt_bench.report.agreement import agreements
from xnmt_bench.report.alignment import COLUMNS, AlignmentFragment
from xnmt_bench.report.alignment_table import summarise, write_tables
from xnmt_bench.report.fidelity import FidelityFragment
from xnmt_bench.report.summary import to_markdown

SENTENCES = 40
SYSTEM = {"corpus": "toy", "lang_pair": "en-de", "nmt": "transformer"}


def decisions(quality, seed=0):
    """Three decisions a sentence; better quality, better log-likelihood."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(0, 0.05, 3 * SENTENCES)
    sentence = np.repeat(np.arange(SENTENCES), 3)
    return DecisionScores(
        sentence, np.tile(np.arange(3), SENTENCES), noise - 2 + quality, noise > 0
    )


def counts(right):
    """`right` of ten links of each sentence are right."""
    gold = Alignment(*[frozenset((i, i) for i in range(10))] * 2)
    links = frozenset((i, i if i < right else i + 20) for i in range(10))
    return LinkCounts.count([links] * SENTENCES, [gold] * SENTENCES)


def fragments(tmp_path, explainers):
    """From {name: (quality, right links)}."""
    fidelity, alignment = [], []
    for name, (quality, right) in explainers.items():
        one, two = tmp_path / f"{name}.ppl", tmp_path / f"{name}.aer"
        decisions(quality).save(one)
        counts(right).save(two)
        job = SYSTEM | {"explainer": name, "seed": ""}
        more = {
            "k": 1,
            "scenario": "teacher_forcing",
            "learned_from": "teacher_forcing",
            "instantiation": "sa",
            "train_sentences": 100,
        }
        fidelity.append(FidelityFragment(job | more, "m0", scores=str(one)))
        judged = {"words": 10, "no_link": 0.1, "no_sure_link": 0.2}
        alignment.append(
            AlignmentFragment(
                job | {"alignment": "forward"}, "m0", scores=str(two), unaligned=judged
            )
        )
    return fidelity, alignment


@pytest.mark.parametrize(
    ("explainers", "tau", "same"),
    [
        ({"a": (1.0, 9), "b": (0.5, 6), "c": (0.0, 3)}, 1.0, 1.0),
        ({"a": (1.0, 3), "b": (0.5, 6), "c": (0.0, 9)}, -1.0, 0.0),
        ({"a": (1.0, 6), "b": (0.5, 9), "c": (0.0, 3)}, 1 / 3, 0.0),
    ],
)
def test_agreement_of_rankings(tmp_path, explainers, tau, same):
    [found] = agreements(*fragments(tmp_path, explainers), k=1, samples=200, seed=0)
    assert found.tau == pytest.approx(tau)
    assert (found.low, found.high) == (pytest.approx(tau), pytest.approx(tau))
    assert found.same == same
    assert [found.places[name].by_ppl for name in "abc"] == [1, 2, 3]
    by_aer = sorted("abc", key=lambda name: -explainers[name][1])
    assert [found.places[name].by_aer for name in by_aer] == [1, 2, 3]


def test_other_scenarios_are_not_pooled(tmp_path):
    explainers = {"a": (1.0, 9), "b": (0.5, 6)}
    fidelity, alignment = fragments(tmp_path, explainers)
    [alone] = agreements(fidelity, alignment, k=1, samples=50, seed=0)
    decisions(-9.0).save(tmp_path / "golden")
    for one in fidelity[:1]:
        job = one.identity | {"scenario": "golden"}
        fidelity.append(FidelityFragment(job, "m0", scores=str(tmp_path / "golden")))
    assert agreements(fidelity, alignment, k=1, samples=50, seed=0) == [alone]


def test_what_only_one_metric_knows_is_left_out(tmp_path):
    fidelity, alignment = fragments(tmp_path, {"a": (1, 9), "b": (0.5, 6), "c": (0, 3)})
    [found] = agreements(fidelity[:2], alignment, k=1, samples=10, seed=0)
    assert set(found.places) == {"a", "b"}
    assert agreements(fidelity[:1], alignment, k=1, samples=10, seed=0) == []
    assert agreements(fidelity, alignment, k=2, samples=10, seed=0) == []


def test_only_sentences_that_both_judged_count(tmp_path):
    fidelity, alignment = fragments(tmp_path, {"a": (1, 9), "b": (0.5, 6)})
    counts(9).take(np.arange(5)).save(tmp_path / "a.aer")
    [found] = agreements(fidelity, alignment, k=1, samples=10, seed=0)
    first_five = np.exp(-decisions(1).log_likelihood_N[:15].mean())
    assert found.places["a"].ppl == pytest.approx(first_five)


def test_the_table_puts_the_least_error_first_and_fidelity_beside_it(tmp_path):
    fidelity, alignment = fragments(tmp_path, {"b": (1.0, 6), "a": (0.5, 9)})
    rows = [fragment.score(50, 0) for fragment in alignment]
    agreed = agreements(fidelity, alignment, k=1, samples=50, seed=0)
    summary = summarise(rows, agreed)
    texts = [[cell.text for cell in line.cells] for line in summary.lines]
    assert summary.headings[:4] == ["explainer", "SA PPL", "by PPL", "by AER"]
    assert [line[0] for line in texts] == ["a", "b"]
    assert texts[0][2:4] == ["2", "1"]
    assert texts[0][4:] == ["10.0 [10.0, 10.0]", "90.0 %", "90.0 %", "400"]
    assert "10.0 % of the target words have no gold link and 20.0 % no sure one" in " ".join(
        summary.notes
    )
    assert "**10.0 [10.0, 10.0]**" in to_markdown(summary)


def test_symmetrised_rows_stand_without_ranks(tmp_path):
    fidelity, alignment = fragments(tmp_path, {"a": (1.0, 6), "b": (0.5, 9)})
    more = AlignmentFragment(
        alignment[0].identity | {"alignment": "union"}, "m0", scores=alignment[0].scores
    )
    failed = AlignmentFragment(alignment[0].identity | {"explainer": "c"}, "m0", status="n/a")
    rows = [fragment.score(50, 0) for fragment in [*alignment, more, failed]]
    summary = summarise(rows, agreements(fidelity, alignment, 1, 50, 0))
    texts = [[cell.text for cell in line.cells] for line in summary.lines]
    assert summary.headings[:2] == ["alignment", "explainer"]
    assert ["union", "a", "", "", "", "40.0 [40.0, 40.0]", "60.0 %", "60.0 %", "400"] in texts
    assert texts[-1][-4:] == ["n/a", "", "", ""]


def test_files_are_written_and_fragments_come_back(tmp_path):
    _, alignment = fragments(tmp_path, {"a": (1.0, 6)})
    results = tmp_path / "results"
    with pytest.raises(MissingError, match="no aer results"):
        AlignmentFragment.read(results)
    for fragment in alignment:
        fragment.write(results)
    rows = [fragment.score(50, 0) for fragment in AlignmentFragment.read(results)]
    write_tables(rows, [], results)
    assert (results / "aer.csv").read_text().startswith(",".join(COLUMNS))
    assert "AER|corpus:toy" in rows[0]["signature"]
    assert all((results / f"aer.{e}").stat().st_size for e in ("txt", "md", "tex"))
