"""Bundles: what is in them, that bad ones are refused in one line, and several as one folder."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import shutil
import stat
import struct
import zipfile
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.bundle_files import (
    add_files,
    change_row,
    make_bundle,
    make_results,
    read_members,
    rewrite_bundle,
    row_name,
)
from support.example_rows import SYSTEM, scored
from support.paths import DATA
from support.pickles import Hostile
from xnmt_bench.bundles import archive
from xnmt_bench.bundles.archive import Limits, unpack
from xnmt_bench.bundles.pool import pool
from xnmt_bench.bundles.records import records
from xnmt_bench.errors import MissingError, StoreError
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.metrics.quality import Quality
from xnmt_bench.parquet import write_table
from xnmt_bench.report.report import collect

SCHEMA = DATA / "every_eval_ever" / "eval.schema.json.gz"


@pytest.fixture(scope="module")
def results_folder(tmp_path_factory):
    return make_results(tmp_path_factory.mktemp("results"))


@pytest.fixture
def bundle(results_folder, tmp_path):
    return make_bundle(tmp_path / "a.zip", results_folder, author="Ada")


def refused(path, tmp_path, limits=archive.LIMITS):
    """Returns the one-line message about a bad bundle; nothing is written outside of its folder."""
    place = tmp_path / "deep" / "place"
    before = sorted(p for p in tmp_path.rglob("*") if place not in p.parents)
    with pytest.raises(StoreError) as error:
        if limits is archive.LIMITS:
            pool([path], place)
        else:
            place.mkdir(parents=True)
            unpack(path, place, "measurements/", limits)
    remaining = sorted(p for p in tmp_path.rglob("*") if place not in p.parents)
    assert set(remaining) - set(before) <= {place, place.parent}
    assert not (place / "measurements").exists() or limits is not archive.LIMITS
    message = str(error.value)
    assert "\n" not in message and message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def test_a_bundle_holds_what_the_table_stands_on(bundle, results_folder):
    contents = read_members(bundle)
    folders = {name.partition("/")[0] for name in contents}
    assert folders == {
        *("manifest.json", "card.md", "signatures.txt", "commands.txt", "versions.json"),
        *("measurements", "tables", "every_eval_ever"),
    }  # fmt: skip
    assert contents["tables/fidelity.csv"] == (results_folder / "fidelity.csv").read_bytes()
    for path in (results_folder / "measurements").rglob("*.*"):
        assert contents[path.relative_to(results_folder).as_posix()] == path.read_bytes()
    card = contents["card.md"].decode()
    for text in ("Published by: Ada.", "fingerprint: m0", "blind: random", "explainers: attention"):
        assert text in card
    assert "The toy corpus is generated data." in card
    assert len(contents["signatures.txt"].splitlines()) == 4


def test_a_bundle_gives_the_table_it_was_made_of(bundle, results_folder, tmp_path):
    [pooled] = pool([bundle], tmp_path / "pooled")
    assert len(pooled.rows) == 4 and not pooled.repeated
    before, after = (
        [(row.row, row.values) for row in collect(Fidelity(), folder, Draws(50, 0))]
        for folder in (results_folder, tmp_path / "pooled")
    )
    assert before == after


def test_the_same_rows_are_the_same_bytes(results_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first, second = (make_bundle(tmp_path / name, results_folder) for name in ("a.zip", "b.zip"))
    assert first.read_bytes() == second.read_bytes()
    assert b'"retrieved_timestamp": "1700000000"' in b"".join(read_members(first).values())


def test_two_bundles_are_one_table(bundle, tmp_path):
    other_results = make_results(tmp_path / "other", ("random", "gradient_norm"))
    second = make_bundle(tmp_path / "b.zip", other_results)
    first_pooled, second_pooled = pool([bundle, second], tmp_path / "pooled")
    rows = collect(Fidelity(), tmp_path / "pooled", Draws(20, 0))
    names = {row.measurement.identity["explainer"] for row in rows}
    assert names == {"attention", "random", "gradient_norm"}
    assert len(first_pooled.rows) == 4 and len(second_pooled.rows) == 2
    # The same explainer with other numbers: those of the bundle that is named first.
    assert len(second_pooled.contradicted) == 2
    random = [
        row.values["ppl"] for row in rows if row.measurement.identity["explainer"] == "random"
    ]
    alone = collect(Fidelity(), make_results(tmp_path / "alone"), Draws(20, 0))
    assert random == [
        row.values["ppl"] for row in alone if row.measurement.identity["explainer"] == "random"
    ]
    # A second time in the same place, other rows stand there.
    pool([second], tmp_path / "pooled")
    assert len(collect(Fidelity(), tmp_path / "pooled", Draws(20, 0))) == 4


def test_equal_rows_are_kept_once(bundle, results_folder, tmp_path):
    again = make_bundle(tmp_path / "again.zip", results_folder, author="Grace")
    _, second = pool([bundle, again], tmp_path / "pooled")
    assert len(second.repeated) == 4 and not second.contradicted and not second.rows


def test_equal_numbers_in_other_bytes_are_no_contradiction(bundle, tmp_path):
    """Another version of pyarrow writes the same units as other bytes."""
    contents = read_members(bundle)
    name = row_name(contents)
    units = name.replace(".json", ".parquet")
    file = tmp_path / "units.parquet"
    pq.write_table(pq.read_table(io.BytesIO(contents[units])), file, compression="none")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    contents = change_row(contents | {units: file.read_bytes()}, name, digest=digest)
    again = rewrite_bundle(tmp_path / "again.zip", contents)
    _, second = pool([bundle, again], tmp_path / "pooled")
    assert len(second.repeated) == 4 and not second.contradicted


def test_rows_that_were_measured_into_a_pooled_folder_stay(bundle, tmp_path):
    place = tmp_path / "pooled"
    pool([bundle], place)
    make_results(place, ("gradient_norm",))
    with pytest.raises(StoreError, match="holds measurements of its own"):
        pool([bundle], place)
    assert len(collect(Fidelity(), place, Draws(20, 0))) == 6


def test_a_row_that_is_nested_too_deep_is_one_line(bundle, tmp_path):
    contents = read_members(bundle)
    contents[row_name(contents)] = b'{"facts":' * 100_000 + b"1" + b"}" * 100_000
    assert "not a readable measurement" in refused(
        rewrite_bundle(tmp_path / "b.zip", contents), tmp_path
    )


def test_a_folder_of_measurements_is_not_overwritten(bundle, tmp_path):
    own_results = make_results(tmp_path / "own")
    with pytest.raises(StoreError, match=r"holds measurements of its own; .* pooled=FOLDER"):
        pool([bundle], own_results)
    assert len(collect(Fidelity(), own_results, Draws(20, 0))) == 4


@pytest.mark.shared("every_eval_ever")
def test_systems_that_are_files_of_one_name_have_a_record_each(tmp_path):
    rows = []
    for digest in ("a" * 16, "b" * 16):
        row = scored(SYSTEM | {"nmt": "mt"}, {"bleu": 30.0}, model="")
        rows.append(replace(row, measurement=replace(row.measurement, content={"outputs": digest})))
    made_records = records({"quality": (Quality(), rows)}, None, 20, 0)
    assert len(made_records) == 2
    results = [record["evaluation_results"] for record in made_records.values()]
    assert len({result["evaluation_result_id"] for [result] in results}) == 2


@pytest.mark.shared("every_eval_ever")
def test_records_are_as_the_schema_of_every_eval_ever_has_them(bundle):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(gzip.decompress(SCHEMA.read_bytes()))
    validator = jsonschema.Draft7Validator(schema)
    [record] = (
        json.loads(data) for name, data in read_members(bundle).items() if "every_eval_ever" in name
    )
    assert [error.message for error in validator.iter_errors(record)] == []
    # A validator that passes everything would show nothing.
    assert list(validator.iter_errors(record | {"schema_version": 3}))


def test_records_have_the_numbers_of_the_table(bundle, results_folder):
    [record] = (
        json.loads(data) for name, data in read_members(bundle).items() if "every_eval_ever" in name
    )
    assert record["source_metadata"]["source_organization_name"] == "Ada"
    rows = {row.signature: row for row in collect(Fidelity(), results_folder, Draws(20, 0))}
    of_ppl = [
        result
        for result in record["evaluation_results"]
        if result["metric_config"]["metric_id"] == "xnmt_bench.fidelity.ppl"
    ]
    assert len(of_ppl) == 4
    for result in of_ppl:
        details = result["score_details"]
        row = rows[details["details"]["signature"]]
        explainer = row.measurement.identity["explainer"]
        assert details["score"] == row.values["ppl"]
        assert details["uncertainty"]["confidence_interval"]["lower"] == row.values["ppl_low"]
        assert details["uncertainty"]["num_samples"] == 3
        assert details["details"]["blind"] == str(explainer == "random").lower()
        assert result["metric_config"]["lower_is_better"] is True
    assert len({r["evaluation_result_id"] for r in record["evaluation_results"]}) == len(
        record["evaluation_results"]
    )


def units_name(contents):
    return row_name(contents).replace(".json", ".parquet")


def other_version(contents):
    manifest = json.loads(contents["manifest.json"]) | {"version": 2}
    return contents | {"manifest.json": json.dumps(manifest).encode()}


def without(contents, name):
    return {other: data for other, data in contents.items() if other != name}


def altered(contents, name):
    data = contents[name]
    return contents | {name: data[:-1] + bytes([data[-1] ^ 1])}


# A change of a bundle, and the message that refuses it.
SPOILED = {
    "no manifest": (lambda c: without(c, "manifest.json"), "it has no manifest.json"),
    "manifest is a list": (lambda c: c | {"manifest.json": b"[]"}, "manifest.json cannot be read"),
    "manifest is no text": (
        lambda c: c | {"manifest.json": b"\xff\xfe"}, "manifest.json cannot be read",
    ),
    "another version": (other_version, "version 2 of the format"),
    "a table altered": (
        lambda c: altered(c, "tables/fidelity.csv"), "tables/fidelity.csv was altered",
    ),
    "units altered": (lambda c: altered(c, units_name(c)), ".parquet was altered"),
    "a row altered": (lambda c: altered(c, row_name(c)), ".json was altered"),
    "a row is missing": (lambda c: without(c, row_name(c)), ".json is missing"),
    "a file was added": (lambda c: c | {"more.txt": b"x"}, "more.txt was added"),
    "shorter": (
        lambda c: c | {"card.md": c["card.md"][:-5]}, "card.md was altered",
    ),
    "longer": (lambda c: c | {"card.md": c["card.md"] + b"x"}, "card.md was altered"),
}  # fmt: skip


@pytest.mark.parametrize("hand", SPOILED)
def test_a_spoiled_bundle_is_refused_by_name(hand, bundle, tmp_path):
    spoil, message = SPOILED[hand]
    path = rewrite_bundle(tmp_path / "b.zip", spoil(read_members(bundle)), manifest=False)
    assert message in refused(path, tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "../out.txt",
        "measurements/../../out.txt",
        "/out.txt",
        "a//b",
        "C:/out",
        "a\\..\\..\\b",
        "./a",
    ],
)
def test_names_lead_nowhere_else(name, bundle, tmp_path):
    path = rewrite_bundle(tmp_path / "b.zip", read_members(bundle) | {name: b"x"})
    assert "would be written outside the folder" in refused(path, tmp_path)


def test_links_and_encrypted_members_are_refused(bundle, tmp_path):
    for number, kind in enumerate((stat.S_IFLNK, stat.S_IFIFO)):
        path = rewrite_bundle(tmp_path / f"{number}.zip", read_members(bundle))
        with zipfile.ZipFile(path, "a") as opened:
            info = zipfile.ZipInfo("measurements/link")
            info.external_attr = (kind | 0o777) << 16
            opened.writestr(info, "/etc/passwd")
        assert "measurements/link is no plain file" in refused(path, tmp_path)


def test_a_member_twice_is_refused(bundle, tmp_path):
    path = rewrite_bundle(tmp_path / "b.zip", read_members(bundle))
    with zipfile.ZipFile(path, "a") as opened, pytest.warns(UserWarning, match="Duplicate"):
        opened.writestr("card.md", "another")
    assert "card.md is there twice" in refused(path, tmp_path)


def test_what_is_no_zip_is_refused(bundle, tmp_path):
    for name, data in {
        "text.zip": b"no zip at all",
        "empty.zip": b"",
        "half.zip": bundle.read_bytes()[: bundle.stat().st_size // 2],
    }.items():
        (tmp_path / name).write_bytes(data)
        assert "no zip file, or a damaged one" in refused(tmp_path / name, tmp_path)
    with pytest.raises(MissingError, match="no bundle is here"):
        pool([tmp_path / "none.zip"], tmp_path / "pooled")


def test_a_flipped_bit_anywhere_is_noticed(bundle, tmp_path):
    data = bundle.read_bytes()
    path = tmp_path / "flipped.zip"
    refusals = 0
    for place in range(100, len(data) - 100, len(data) // 40):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
        try:
            pool([path], tmp_path / f"pooled{place}")
        except StoreError:
            refusals += 1
            continue
        # Dates and the like decide nothing: the members are still those of the manifest.
        assert read_members(path) == read_members(bundle)
    assert refusals > 20


def test_packing_that_is_not_read_is_refused(bundle, tmp_path):
    path = rewrite_bundle(tmp_path / "b.zip", read_members(bundle) | {"x.txt": b"x"})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as opened:
        for name, data in read_members(bundle).items():
            opened.writestr(name, data)
    assert "packed in a way that is not read" in refused(path, tmp_path)


def test_a_bomb_is_stopped_by_ratio_size_and_number(bundle, tmp_path):
    contents = read_members(bundle) | {"measurements/bomb.bin": bytes(50_000_000)}
    path = rewrite_bundle(tmp_path / "b.zip", contents)
    assert path.stat().st_size < 200_000
    assert "unpacks to more than" in refused(path, tmp_path)
    assert "has more than 1,000,000 bytes" in refused(
        path, tmp_path / "size", Limits(member=1_000_000, ratio=10**6)
    )
    assert "members, and at most 5 are read" in refused(
        path, tmp_path / "number", Limits(members=5)
    )
    many = read_members(bundle) | {"manifest.json": b" " * 20_000_000}
    path = rewrite_bundle(tmp_path / "manifest.zip", many, manifest=False)
    assert "manifest.json has more than 16,777,216 bytes" in refused(path, tmp_path)


def test_a_size_that_the_header_hides_is_counted_while_reading(bundle, tmp_path):
    """The central directory says 1 byte; what comes out is another matter."""
    contents = read_members(bundle) | {"measurements/bomb.bin": bytes(50_000_000)}
    path = rewrite_bundle(tmp_path / "b.zip", contents)
    with zipfile.ZipFile(path) as opened:
        info = opened.getinfo("measurements/bomb.bin")
    data = bytearray(path.read_bytes())
    for place in range(len(data) - 4):
        if data[place : place + 4] == struct.pack("<I", info.file_size):
            data[place : place + 4] = struct.pack("<I", 1)
    path.write_bytes(bytes(data))
    message = refused(path, tmp_path)
    assert "measurements/bomb.bin" in message


def identity_of(contents, **changes):
    return json.loads(contents[row_name(contents)])["identity"] | changes


HOSTILE_ROWS = {
    "a file elsewhere": (lambda c: {"files": {"decisions": "../../../secret"}}, "outside the f"),
    "an absolute file": (lambda c: {"files": {"decisions": "/etc/passwd"}}, "outside the f"),
    "a corpus elsewhere": (
        lambda c: {"identity": identity_of(c, corpus="../../up")}, "outside the f",
    ),
    "identity is a list": (lambda c: {"identity": []}, "not a readable measurement"),
    "identity holds a list": (
        lambda c: {"identity": identity_of(c, explainer=["attention"])}, "identity.explainer",
    ),
    "doubts are a number": (lambda c: {"facts": {"doubts": 3}}, "facts.doubts"),
    "a path of its own": (lambda c: {"status": "n/a", "path": "/etc/passwd"}, "path"),
    "another status": (lambda c: {"status": "fine"}, "status"),
    "other units": (lambda c: {"digest": "0" * 64}, "truncated or altered"),
    "a column is missing": (lambda c: {"identity": {"corpus": "toy"}}, "no column"),
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE_ROWS)
def test_rows_whose_digests_fit_are_checked_too(kind, bundle, tmp_path):
    change, message = HOSTILE_ROWS[kind]
    contents = read_members(bundle)
    contents = change_row(contents, row_name(contents), **change(contents))
    path = rewrite_bundle(tmp_path / "b.zip", contents)
    assert message in refused(path, tmp_path)


def with_units(contents, data):
    import hashlib

    contents = contents | {units_name(contents): data}
    return change_row(contents, row_name(contents), digest=hashlib.sha256(data).hexdigest())


def test_units_of_another_kind_are_refused(bundle, tmp_path):
    contents, table = read_members(bundle), tmp_path / "units.parquet"
    for columns, message in (
        ({"unit": [0, 1], "other": [1.0, 2.0]}, "its units are not those of fidelity"),
        ({"unit": ["a", "b"], "log_likelihood": [1.0, 2.0]}, "'unit' should hold whole"),
        ({"log_likelihood": [1.0]}, "not a table of units"),
    ):
        content = pa.table(columns).replace_schema_metadata({"test_set": "toy test"})
        write_table(content, table)
        path = rewrite_bundle(tmp_path / "b.zip", with_units(contents, table.read_bytes()))
        assert message in refused(path, tmp_path)
    path = rewrite_bundle(tmp_path / "b.zip", with_units(contents, b"PAR1 is no table PAR1"))
    assert "no readable table" in refused(path, tmp_path)


IMPOSSIBLE = {
    "a log-likelihood above 0": ({"log_likelihood": [3.0, -1.0, -1.0]}, "'log_likelihood' of unit"),
    "more right than there are": ({"correct": [3, 0, 0]}, "'correct' of unit 0 is too large"),
    "no number": ({"log_likelihood": [-1.0, float("nan"), -1.0]}, "has no number in unit 1"),
    "infinite": ({"log_likelihood": [-1.0, -1.0, float("-inf")]}, "is infinite in unit 2"),
    "a unit twice": ({"unit": [0, 1, 1]}, "should ascend from 0 without repeats"),
    "reversed": ({"unit": [2, 1, 0]}, "should ascend from 0 without repeats"),
    "half a unit": ({"unit": [0.0, 0.5, 1.0]}, "should hold whole numbers"),
    "no decision": ({"rows": [2, 0, 2]}, "'rows' of unit 1 is too small"),
}


@pytest.mark.parametrize("kind", IMPOSSIBLE)
def test_impossible_units_are_refused_though_their_seals_fit(kind, bundle, tmp_path):
    columns, message = IMPOSSIBLE[kind]
    contents = read_members(bundle)
    table = pq.read_table(io.BytesIO(contents[units_name(contents)]))
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    write_table(table, tmp_path / "units.parquet")
    data = (tmp_path / "units.parquet").read_bytes()
    path = rewrite_bundle(tmp_path / "b.zip", with_units(contents, data))
    assert message in refused(path, tmp_path)
    # The same in a results folder is a row without a number.
    folder = tmp_path / "results" / "measurements" / "fidelity"
    folder.mkdir(parents=True)
    for name in (row_name(contents), units_name(contents)):
        (folder / name.rpartition("/")[2]).write_bytes(read_members(path)[name])
    [row] = collect(Fidelity(), tmp_path / "results", Draws(9, 0))
    assert row.damaged and message in row.measurement.status


def test_what_would_be_refused_is_not_written(results_folder, tmp_path):
    folder = shutil.copytree(results_folder, tmp_path / "results")
    described = min(folder.rglob("*.json"))
    contents = add_files(
        {row_name({"measurements/" + described.name: b""}): described.read_bytes()},
        weights=(b"[1]", ".json"),
    )
    [text] = [data for name, data in contents.items() if name.endswith(described.name)]
    described.write_bytes(text)
    [name] = json.loads(text)["files"].values()
    (described.parent / "files").mkdir(exist_ok=True)
    beside = described.parent / "files" / name
    beside.write_bytes(b"[1]")
    make_bundle(tmp_path / "whole.zip", folder)
    for damage in (lambda: beside.write_bytes(b"[2]"), beside.unlink):
        damage()
        with pytest.raises(StoreError, match=rf"^{described}: its file '{name}': .*train\.py"):
            make_bundle(tmp_path / "spoiled.zip", folder)
        assert not (tmp_path / "spoiled.zip").exists()


def test_a_table_of_too_many_rows_is_not_opened(bundle, tmp_path, monkeypatch):
    monkeypatch.setattr("xnmt_bench.bundles.rows.ROWS", 2)
    assert "has more rows than are read: 3" in refused(bundle, tmp_path)


def test_nothing_is_unpickled(bundle, tmp_path):
    import pickle

    mark = tmp_path / "unpickled"
    data = pickle.dumps(Hostile(mark))
    contents = read_members(bundle)
    hidden = contents | {name: data for name in contents if name != "manifest.json"}
    assert refused(rewrite_bundle(tmp_path / "b.zip", hidden), tmp_path)
    assert not mark.exists()


def test_rows_of_a_plug_in_that_is_missing_are_left_out(bundle, tmp_path, caplog):
    contents = read_members(bundle)
    contents |= {"measurements/sparkle/0123.json": b"{}"}
    [pooled] = pool([rewrite_bundle(tmp_path / "b.zip", contents)], tmp_path / "pooled")
    assert len(pooled.rows) == 4
    assert "left out: rows of sparkle, which is not installed" in caplog.text


def test_bundles_are_frames_too(bundle, tmp_path):
    pytest.importorskip("pandas")
    import xnmt_bench

    other_results = make_results(tmp_path / "other", ("gradient_norm",))
    second = make_bundle(tmp_path / "b.zip", other_results)
    table = xnmt_bench.results([bundle, second], samples=20).table("fidelity")
    assert set(table.explainer) == {"attention", "random", "gradient_norm"}
    assert len(xnmt_bench.results(bundle, samples=20).units("fidelity")) == 4 * 3


def test_files_beside_a_row_are_no_bombs(bundle, tmp_path):
    # Nothing comes out of the zip in excess: the bomb is a member that is packed itself.
    bomb = gzip.compress(bytes(60_000_000), mtime=0)
    path = rewrite_bundle(
        tmp_path / "b.zip", add_files(read_members(bundle), weights=(bomb, ".jsonl.gz"))
    )
    assert "unpacks to more than" in refused(path, tmp_path)
    path = rewrite_bundle(
        tmp_path / "b.zip", add_files(read_members(bundle), weights=(b"no gzip", ".jsonl.gz"))
    )
    assert "is damaged" in refused(path, tmp_path)
    path = rewrite_bundle(
        tmp_path / "b.zip", add_files(read_members(bundle), weights=(b"no table", ".parquet"))
    )
    assert "is no readable table" in refused(path, tmp_path)
    good = gzip.compress(b"{}\n" * 100, mtime=0)
    path = rewrite_bundle(
        tmp_path / "b.zip", add_files(read_members(bundle), weights=(good, ".jsonl.gz"))
    )
    assert len(pool([path], tmp_path / "pooled")[0].rows) == 4


def test_a_table_of_equal_values_is_measured_by_what_comes_out(bundle, tmp_path, monkeypatch):
    """A million equal numbers are four kilobytes in a file, and eight megabytes in memory."""
    monkeypatch.setattr("xnmt_bench.bundles.rows.BYTES", 4_000_000)
    table = tmp_path / "equal.parquet"
    columns = {"a": pa.array([1.0]).take(pa.array([0] * 1_000_000))}
    write_table(pa.table(columns), table)
    data = table.read_bytes()
    assert len(data) < 100_000
    # Also under an ending that is of no table.
    for ending in (".parquet", ".bin"):
        contents = add_files(read_members(bundle), facets=(data, ending))
        assert "more rows than are read" in refused(
            rewrite_bundle(tmp_path / "b.zip", contents), tmp_path
        )


@pytest.mark.parametrize(
    "column",
    [pa.array(["x" * 1000]).take(pa.array([0] * 5000)), pa.array([[1.0] * 600_000])],
    ids=["text", "list"],
)
def test_one_long_value_is_measured_by_what_comes_out(column, bundle, tmp_path, monkeypatch):
    monkeypatch.setattr("xnmt_bench.bundles.rows.BYTES", 4_000_000)
    table = tmp_path / "long.parquet"
    write_table(pa.table({"a": column, "b": pa.array([["y"]] * len(column))}), table)
    contents = add_files(read_members(bundle), facets=(table.read_bytes(), ".parquet"))
    assert "than is read" in refused(
        rewrite_bundle(tmp_path / "b.zip", contents), tmp_path
    ).replace("are read", "is read")
    monkeypatch.setattr("xnmt_bench.bundles.rows.BYTES", 8_000_000)
    assert pool([rewrite_bundle(tmp_path / "b.zip", contents)], tmp_path / "pooled")


def test_a_row_has_the_name_of_its_identity(bundle, tmp_path):
    """Under another name a table would take it for another seed of the row beside it."""
    contents = read_members(bundle)
    name = row_name(contents)
    stem = name.rpartition("/")[2].removesuffix(".json")
    copied = contents | {
        place.replace(stem, "0" * 16): contents[place]
        for place in (name, name.replace(".json", ".parquet"))
    }
    message = refused(rewrite_bundle(tmp_path / "b.zip", copied), tmp_path)
    assert "its name is not that of the row that it holds" in message


def test_a_file_beside_a_row_is_named_by_its_digest(bundle, tmp_path):
    contents = read_members(bundle)
    for name, problem in (
        (".jsonl", "is not named by its digest"),
        ("0.jsonl", "is not named by its digest"),
        ("0" * 16 + ".jsonl", "truncated or altered"),
    ):
        spoilt = contents | {f"measurements/fidelity/files/{name}": b"{}"}
        spoilt = change_row(spoilt, row_name(contents), files={"weights": name})
        assert problem in refused(rewrite_bundle(tmp_path / "b.zip", spoilt), tmp_path)


def test_rows_that_make_no_table_are_named(bundle, tmp_path, monkeypatch):
    """A row of another version may lack what a note reads."""
    monkeypatch.setattr(
        Fidelity,
        "notes",
        lambda self, scored: [scored[0].measurement.facts.of_metric["of_another_version"]],
    )
    message = refused(bundle, tmp_path)
    assert message == "rows of fidelity make no table: KeyError: 'of_another_version'"


def test_names_that_are_not_utf8_are_refused(bundle, tmp_path):
    data = bundle.read_bytes()
    for start, flags, name in ((b"PK\1\2", 8, 46), (b"PK\3\4", 6, 30)):
        place = data.index(start)
        spoilt = bytearray(data)
        spoilt[place + flags + 1] |= 0x08  # "this name is UTF-8"
        spoilt[place + name] = 0xFF
        path = tmp_path / "b.zip"
        path.write_bytes(bytes(spoilt))
        assert "damaged" in refused(path, tmp_path)


def test_a_run_that_is_killed_while_it_pools_may_pool_again(bundle, tmp_path, monkeypatch):
    from pathlib import Path

    class Killed(BaseException):
        pass

    place, replace_path = tmp_path / "pooled", Path.replace
    with monkeypatch.context() as patched:
        # Behind the last rename.
        patched.setattr(Path, "replace", killed_at(replace_path, place / "measurements", Killed))
        with pytest.raises(Killed):
            pool([bundle], place)
    assert len(pool([bundle], place)[0].rows) == 4
    other_results = make_results(tmp_path / "other", ("gradient_norm",))
    second = make_bundle(tmp_path / "second.zip", other_results)
    with monkeypatch.context() as patched:
        # Between the two descriptions, the rows of the first pooling still there.
        patched.setattr("xnmt_bench.bundles.pool.shutil", Raising(Killed))
        with pytest.raises(Killed):
            pool([second], place)
    assert len(pool([second], place)[0].rows) == 2


class Raising:
    """Stands for `shutil`; removing the rows of a folder raises."""

    def __init__(self, error):
        self.error = error

    def rmtree(self, path, **_):
        if path.name == "measurements":
            raise self.error
        shutil.rmtree(path)


def test_a_full_disk_is_no_fault_of_a_bundle(bundle, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("xnmt_bench.bundles.pool.unpack", full)
    refused_bundles = {}
    with pytest.raises(OSError, match="No space left"):
        pool([bundle], tmp_path / "pooled", refused_bundles)
    assert refused_bundles == {}


def test_what_is_unpacked_of_a_bundle_is_removed_before_the_next(bundle, tmp_path, monkeypatch):
    """The disk of a leaderboard needs room for the rows of all, and for the rest of one."""
    unpacked = []

    def count(path, folder, *arguments):
        unpacked.append(sum(place.name.isdigit() for place in folder.parent.iterdir()))
        return unpack(path, folder, *arguments)

    monkeypatch.setattr("xnmt_bench.bundles.pool.unpack", count)
    pool([bundle, bundle, bundle], tmp_path / "pooled")
    assert unpacked == [0, 0, 0]


def killed_at(replace, last, error):
    """A rename of a path that raises once its target is `last`."""

    def rename(self, target):
        moved = replace(self, target)
        if target == last:
            raise error
        return moved

    return rename
