"""Fragments, and the table that is collected from them."""

import itertools

import numpy as np
import pytest

from xnmt_bench.errors import StoreError
from xnmt_bench.metrics.perplexity import DecisionScores
from xnmt_bench.report.fidelity import COLUMNS, FidelityFragment, collect
from xnmt_bench.report.fragments import FOLDER

IDENTITY = {
    "corpus": "toy",
    "lang_pair": "en-de",
    "nmt": "transformer",
    "explainer": "attention",
    "k": 1,
    "scenario": "teacher_forcing",
    "learned_from": "teacher_forcing",
    "instantiation": "fn",
    "seed": 1,
    "train_sentences": 100,
}


def fragment(folder, loss=1.0, valid_loss=1.0, model="m0", **identity):
    """A fragment of ten decisions, all of the same loss in nats."""
    path = folder / f"{loss}.parquet"
    n = np.arange(10)
    DecisionScores(n // 2, n % 2, np.full(10, -loss), n < 3).save(path)
    return FidelityFragment(
        IDENTITY | identity,
        model,
        scores=str(path),
        made_by={"scores": "f" * 16},
        valid_loss=valid_loss,
    )


def family(folder, losses, valid_losses, **identity):
    """fn, rn and sa, as many as there are losses."""
    members = zip(("fn", "rn", "sa"), losses, valid_losses, strict=False)
    return [
        fragment(folder, loss, valid, instantiation=name, **identity)
        for name, loss, valid in members
    ]


def rows_of(folder, fragments):
    for one in fragments:
        one.write(folder)
    return collect(folder, 20, 0)


def by_name(rows):
    return {row["instantiation"]: row for row in rows}


def test_a_fragment_is_scored(tmp_path):
    (row,) = rows_of(tmp_path, [fragment(tmp_path, loss=np.log(8))])
    assert [row[c] for c in ("ppl", "ppl_low", "ppl_high")] == pytest.approx([8, 8, 8])
    assert (row["agreement"], row["decisions"], row["hit_at_k"]) == (0.3, 10, "")
    assert row["status"] == "ok"
    assert set(COLUMNS) <= set(row)
    for part in ("PPL|", "|instantiation:fn|", "|model:m0|", "|bootstrap:20@0|", "|version:"):
        assert part in row["signature"]


def test_comb_is_the_best_on_the_test_set_and_comb_valid_on_the_held_out_part(tmp_path):
    rows = by_name(rows_of(tmp_path, family(tmp_path, [1.3, 1.1, 1.2], [0.5, 0.7, 0.3])))
    assert rows["comb"]["ppl"] == rows["rn"]["ppl"] == pytest.approx(np.exp(1.1))
    assert rows["comb_valid"]["ppl"] == rows["sa"]["ppl"]
    assert "|instantiation:comb=rn|" in rows["comb"]["signature"]
    assert "|instantiation:comb_valid=sa|" in rows["comb_valid"]["signature"]


def test_only_complete_families_are_combined(tmp_path):
    fragments = [
        *family(tmp_path, [1.1, 1.2, 1.3], [1, 1, 1]),
        *family(tmp_path, [0.1, 0.2], [1, 1], k=2),
        *family(tmp_path, [0.3], [1], seed=2),
        *family(tmp_path, [0.4], [1], model="m1"),
    ]
    # A member without a number does not complete its family.
    fragments.append(
        FidelityFragment(IDENTITY | {"k": 2, "instantiation": "sa"}, "m0", "failed: x")
    )
    combined = [row for row in rows_of(tmp_path, fragments) if "comb" in row["instantiation"]]
    assert [row["k"] for row in combined] == [1, 1]
    assert combined[0]["ppl"] == pytest.approx(np.exp(1.1))


def test_rows_without_a_number_keep_their_status(tmp_path):
    rows = rows_of(tmp_path, [FidelityFragment(IDENTITY, "m0", status="n/a")])
    assert (rows[0]["status"], rows[0]["ppl"]) == ("n/a", "")


def test_the_order_of_writing_does_not_matter(tmp_path):
    fragments = family(tmp_path, [1.3, 1.1, 1.2], [3, 1, 2])
    fragments += [
        fragment(tmp_path, instantiation="base", seed=""),
        fragment(tmp_path, instantiation="unigram", explainer="", k="", seed=""),
        FidelityFragment(IDENTITY | {"explainer": "random"}, "m0", status="n/a"),
    ]
    tables = []
    for number, order in enumerate(itertools.islice(itertools.permutations(fragments), 0, 720, 97)):
        (tmp_path / str(number)).mkdir()
        tables.append(rows_of(tmp_path / str(number), order))
    assert len(tables) > 5
    assert all(table == tables[0] for table in tables)
    explained = [row["instantiation"] for row in tables[0] if row["explainer"] == "attention"]
    assert explained == ["base", "fn", "rn", "sa", "comb", "comb_valid"]


def test_a_job_that_runs_again_replaces_what_it_said(tmp_path):
    for loss in (1.0, 2.0):
        rows = rows_of(tmp_path, [fragment(tmp_path, loss)])
    assert [row["ppl"] for row in rows] == [pytest.approx(np.exp(2))]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"unknown": 1}', b"\xff\xfe"])
def test_a_damaged_fragment_is_named(tmp_path, content):
    fragment(tmp_path).write(tmp_path)
    path = tmp_path / FOLDER / "fidelity" / "0000.json"
    path.write_bytes(content)
    with pytest.raises(StoreError) as error:
        FidelityFragment.read(tmp_path)
    assert str(path) in str(error.value)


def test_no_fragments_at_all(tmp_path):
    with pytest.raises(StoreError, match=r"run train\.py"):
        FidelityFragment.read(tmp_path)


@pytest.mark.parametrize("damage", ["gone", "truncated"])
def test_scores_that_are_gone_are_a_status(tmp_path, damage):
    good, bad = fragment(tmp_path, 1.0), fragment(tmp_path, 2.0, instantiation="rn")
    path = tmp_path / "2.0.parquet"
    content = path.read_bytes()
    path.unlink()
    if damage == "truncated":
        path.write_bytes(content[:-10])
    rows = by_name(rows_of(tmp_path, [good, bad]))
    assert rows["rn"]["ppl"] == ""
    assert str(path) in rows["rn"]["status"]
    assert rows["fn"]["status"] == "ok"
