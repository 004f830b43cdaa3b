"""Measurements on disk, and the rows that are collected from them."""

import itertools
import json

import numpy as np
import pytest

from support.example_rows import FIDELITY, decisions, measured, row_facts
from xnmt_bench.errors import MissingError, StoreError
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.measuring.measurement import FOLDER, SETTINGS, read
from xnmt_bench.measuring.units import Units
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.report.report import collect
from xnmt_bench.report.table import csv_columns, tables
from xnmt_bench.store import fingerprint

DRAWS = Draws(20, 0)
NUMBERS = np.arange(10)


def units(loss=1.0):
    """Ten decisions in five sentences, all of the same loss in nats."""
    return decisions(NUMBERS // 2, np.full(10, -loss), NUMBERS < 3)


def measure(results, loss=1.0, valid_loss=1.0, model="m0", facts=None, **identity):
    """Writes a row of Fidelity; a loss in words is a status."""
    outcome = loss if isinstance(loss, str) else units(loss)
    made_by = {"scores": "f" * 16}
    return measured(
        Fidelity, results, FIDELITY | identity, outcome, model, made_by=made_by,
        valid_loss=valid_loss, **(facts or {}),
    )  # fmt: skip


def family(losses, valid_losses, **identity):
    """What to write of fn, rn and sa, as many as there are losses."""
    members = zip(("fn", "rn", "sa"), losses, valid_losses, strict=False)
    return [
        {"loss": loss, "valid_loss": valid, "instantiation": name, **identity}
        for name, loss, valid in members
    ]


def rows_of(results, rows):
    for row in rows:
        measure(results, **row)
    return [scored.row for scored in collect(Fidelity(), results, DRAWS)]


def by_name(rows):
    return {row["instantiation"]: row for row in rows}


def only_file(results, ending):
    [path] = (results / FOLDER / "fidelity").glob(f"*.{ending}")
    return path


def test_what_was_written_comes_back(tmp_path):
    kept = tmp_path / "elsewhere" / "rules.parquet"
    kept.parent.mkdir()
    kept.write_bytes(b"rules")
    row = measured(
        Fidelity, tmp_path, FIDELITY, units(2.0), "m1", {"rules": kept}, {"scores": "a"},
        valid_loss=0.5,
    )  # fmt: skip
    [back] = read("fidelity", tmp_path, Fidelity().identity)
    assert back == row
    assert back.facts.by_name() == row_facts(FIDELITY) | {"valid_loss": 0.5}
    assert back.settings == {"test set": "toy test"}
    assert back.made_by == {"scores": "a"}
    # Its file lies in the results, so that they can be moved without the store.
    kept.unlink()
    assert back.file("rules").read_bytes() == b"rules"
    assert back.file("rules").is_relative_to(tmp_path / "measurements")
    back.file("rules").write_bytes(b"Rules")
    with pytest.raises(StoreError, match="truncated or altered"):
        back.file("rules")
    kept.write_bytes(b"rules")
    written = (Fidelity, tmp_path, FIDELITY, units(2.0), "m1", {"rules": kept}, {"scores": "a"})
    again = measured(*written, valid_loss=0.5)
    assert again.file("rules").read_bytes() == b"rules"  # anew, as the error says
    loaded = back.units()
    assert (loaded.test_set, loaded.number_U.tolist()) == ("toy test", [0, 1, 2, 3, 4])
    assert {name: column.tolist() for name, column in loaded.columns.items()} == {
        "log_likelihood": [-4.0] * 5,
        "correct": [2, 1, 0, 0, 0],
        "rows": [2] * 5,
    }


def test_a_measurement_is_scored(tmp_path):
    (row,) = rows_of(tmp_path, [{"loss": np.log(8)}])
    assert [row[c] for c in ("ppl", "ppl_low", "ppl_high")] == pytest.approx([8, 8, 8])
    assert (row["accuracy"], row["decisions"], row["units"]) == (0.3, 10, 5)
    assert row["status"] == "ok"
    measured = ("kl", "leak", "matched", "choice", "stripe_1", "stripe_10")
    optional = {f"{name}{end}" for name in measured for end in ("", "_low", "_high")}
    # Of other jobs.
    optional |= {"hit_at_k", "hit_any_at_k", "planted", "planted_log_q", "off_words"}
    assert set(csv_columns(Fidelity())) - set(row) == optional
    for part in ("FIDELITY|", "|instantiation:fn|", "|model:m0|", "|bootstrap:20@0|", "|version:"):
        assert part in row["signature"]
    assert f"|scores:{'f' * 16}|" in row["signature"]


def test_comb_is_the_best_on_the_test_set_and_comb_valid_on_the_held_out_part(tmp_path):
    rows = by_name(rows_of(tmp_path, family([1.3, 1.1, 1.2], [0.5, 0.7, 0.3])))
    assert rows["comb"]["ppl"] == rows["rn"]["ppl"] == pytest.approx(np.exp(1.1))
    assert rows["comb_valid"]["ppl"] == rows["sa"]["ppl"] == pytest.approx(np.exp(1.2))
    assert "|instantiation:comb=rn|" in rows["comb"]["signature"]
    assert "|instantiation:comb_valid=sa|" in rows["comb_valid"]["signature"]
    scored = collect(Fidelity(), tmp_path, DRAWS)
    derived = {s.row["instantiation"] for s in scored if s.derived}
    assert derived == {"comb", "comb_valid"}


def test_only_complete_families_are_combined(tmp_path):
    rows = [
        *family([1.1, 1.2, 1.3], [1, 1, 1]),
        *family([0.1, 0.2], [1, 1], k=2),
        *family([0.3], [1], seed=2),
        *family([0.4], [1], model="m1"),
        # A member without a number does not complete its family.
        {"loss": "failed: x", "k": 2, "instantiation": "sa"},
    ]
    combined = [row for row in rows_of(tmp_path, rows) if "comb" in row["instantiation"]]
    assert [row["k"] for row in combined] == [1, 1]
    assert combined[0]["ppl"] == pytest.approx(np.exp(1.1))


def test_proxies_of_other_trainings_are_no_family(tmp_path):
    """Else Comb would be the best of four, or of a short training and a long one."""
    for row in family([1.1, 1.2, 1.3], [1, 1, 1]):
        name = row["instantiation"]
        measure(tmp_path, **row, facts={SETTINGS: {f"{name} max_epochs": 5}})
    measure(tmp_path, loss=0.5, instantiation="sa", facts={SETTINGS: {"sa max_epochs": 30}})
    rows = [s.row for s in collect(Fidelity(), tmp_path, DRAWS)]
    [comb] = [row["ppl"] for row in rows if row["instantiation"] == "comb"]
    assert comb == pytest.approx(np.exp(1.1))


def test_a_damaged_member_does_not_complete_its_family(tmp_path):
    for row in family([1.1, 1.2, 1.3], [1, 1, 1]):
        member = measure(tmp_path, **row)
    member.path.unlink()
    rows = by_name(rows_of(tmp_path, []))
    assert set(rows) == {"fn", "rn", "sa"}
    assert rows["sa"]["status"].startswith("failed")


def test_rows_without_a_number_keep_their_status(tmp_path):
    [row] = rows_of(tmp_path, [{"loss": "n/a"}])
    assert row["status"] == "n/a"
    assert "ppl" not in row


def test_the_order_of_writing_does_not_matter(tmp_path):
    rows = family([1.3, 1.1, 1.2], [3, 1, 2])
    rows += [
        {"instantiation": "base", "seed": ""},
        {"instantiation": "unigram", "explainer": "", "k": "", "prefix": "", "seed": ""},
        {"loss": "n/a", "explainer": "random"},
    ]
    tables = []
    for number, order in enumerate(itertools.islice(itertools.permutations(rows), 0, 720, 97)):
        tables.append(rows_of(tmp_path / str(number), order))
    assert len(tables) > 5
    assert all(table == tables[0] for table in tables)
    explained = [row["instantiation"] for row in tables[0] if row["explainer"] == "attention"]
    assert explained == ["base", "fn", "rn", "sa", "comb", "comb_valid"]


def test_numbers_of_a_column_stand_in_their_own_order(tmp_path):
    rows = rows_of(tmp_path, [{"k": k} for k in (10, 9, 1)])
    assert [row["k"] for row in rows] == [1, 9, 10]


def test_a_seed_that_is_no_number_spoils_nothing(tmp_path):
    rows = rows_of(tmp_path, [{"loss": 1.0, "seed": "one"}, {"loss": 2.0, "seed": 1}])
    assert [row["seed"] for row in rows] == [1, "one"]
    [(_, summary)] = tables(Fidelity(), collect(Fidelity(), tmp_path, DRAWS), [])
    [line] = summary.lines
    mean, low, high = ((np.exp(a) + np.exp(b)) / 2 for a, b in ((1, 2), (1, 1), (2, 2)))
    assert line.cells[-1].text == f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def test_a_job_that_runs_again_replaces_its_row(tmp_path):
    for loss in (1.0, 2.0):
        rows = rows_of(tmp_path, [{"loss": loss}])
    assert [row["ppl"] for row in rows] == [pytest.approx(np.exp(2))]


def test_a_row_that_failed_stands_until_it_has_a_number(tmp_path):
    """A number of an earlier run stays right, so it is kept beside the failure."""
    for loss, statuses in (
        ("failed: oh no", ["failed: oh no"]),
        (1.0, ["ok"]),
        ("failed: oh no", ["failed: oh no", "ok"]),
        (1.0, ["ok"]),
    ):
        rows = rows_of(tmp_path, [{"loss": loss}])
        assert sorted(row["status"] for row in rows) == statuses
    measure(tmp_path, "failed: oh no")
    [(_, summary), *_] = tables(Fidelity(), collect(Fidelity(), tmp_path, DRAWS), [])
    assert not any("seeds)" in cell.text for line in summary.lines for cell in line.cells)
    assert any("failed: oh no" in note for note in summary.notes)


def test_rows_of_other_test_sentences_replace_nothing(tmp_path):
    """Also where the second job has the same columns, as with another rules.test_sentences."""
    for sentences in ("20 (abc)", "60 (def)", "60 (def)"):
        measured(Fidelity, tmp_path, FIDELITY, units(), settings={"test sentences": sentences})
    kept = read("fidelity", tmp_path, Fidelity().identity)
    assert sorted(m.settings["test sentences"] for m in kept) == ["20 (abc)", "60 (def)"]


def test_another_model_of_the_same_name_replaces_nothing(tmp_path):
    rows = rows_of(tmp_path, [{"loss": 1.0}, {"loss": 2.0, "model": "m1"}])
    assert {row["model"]: row["ppl"] for row in rows} == pytest.approx(
        {"m0": np.exp(1), "m1": np.exp(2)}
    )


DAMAGED = [b"", b"{", b"[]", b"{}", b"null", b'{"unknown": 1}', b"\xff\xfe"]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_measurement_is_named(tmp_path, content):
    measure(tmp_path)
    path = tmp_path / FOLDER / "fidelity" / "0000.json"
    path.write_bytes(content)
    with pytest.raises(StoreError) as error:
        read("fidelity", tmp_path, Fidelity().identity)
    assert str(path) in str(error.value)


def test_a_measurement_without_one_of_the_columns_is_named(tmp_path):
    measure(tmp_path)
    path = only_file(tmp_path, "json")
    document = json.loads(path.read_text())
    del document["identity"]["k"], document["seal"]
    path.write_text(json.dumps(document | {"seal": fingerprint(document)}))
    with pytest.raises(StoreError, match="'k'") as error:
        read("fidelity", tmp_path, Fidelity().identity)
    assert str(path) in str(error.value)


def test_no_measurements_at_all(tmp_path):
    with pytest.raises(MissingError, match=r"no fidelity results.*run train\.py"):
        read("fidelity", tmp_path, Fidelity().identity)


@pytest.mark.parametrize("damage", ["gone", "truncated", "altered"])
def test_units_that_are_damaged_are_a_status(tmp_path, damage):
    measure(tmp_path, 1.0)
    bad = measure(tmp_path, 2.0, instantiation="rn")
    content = bad.path.read_bytes()
    bad.path.unlink()
    if damage == "truncated":
        bad.path.write_bytes(content[:-10])
    elif damage == "altered":
        units(9.0).save(bad.path)  # a table as good as any, but not the one that was measured
    rows = by_name(rows_of(tmp_path, []))
    assert "ppl" not in rows["rn"]
    assert rows["rn"]["status"].startswith("failed: ")
    assert str(bad.path) in rows["rn"]["status"]
    assert rows["fn"]["status"] == "ok"
    with pytest.raises(StoreError, match=str(bad.path)):
        bad.units()


def test_a_parquet_file_of_something_else_is_no_units(tmp_path):
    import pyarrow as pa

    from xnmt_bench.parquet import write_table

    write_table(pa.table({"unit": [1]}), tmp_path / "one.parquet")
    with pytest.raises(StoreError, match=r"one\.parquet: not a table of units"):
        Units.load(tmp_path / "one.parquet")


def test_no_flipped_bit_of_a_description_goes_unnoticed(tmp_path):
    measure(tmp_path)
    path = only_file(tmp_path, "json")
    written, identity = path.read_bytes(), Fidelity().identity
    [row] = read("fidelity", tmp_path, identity)
    for place in range(len(written)):
        changed = bytearray(written)
        changed[place] ^= 1
        path.write_bytes(changed)
        try:
            assert read("fidelity", tmp_path, identity) == [row]  # such as another blank
        except StoreError as error:
            assert str(path) in str(error)


def test_a_column_with_nan_is_not_written_again(tmp_path):
    """Finished work may be read-only."""
    scores = Units("toy test", np.arange(2), {"log_likelihood": np.array([1.0, np.nan])})
    for _ in range(2):
        measured(Fidelity, tmp_path, FIDELITY, scores)
        path = only_file(tmp_path, "parquet")
        path.chmod(0o444)
        times = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.*")}
    measured(Fidelity, tmp_path, FIDELITY, scores)
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.*")} == times
