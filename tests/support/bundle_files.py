"""Bundles of small made-up results, and functions that change them."""

import hashlib
import json
import zipfile

import numpy as np

from support.example_rows import FIDELITY, decisions, measured
from xnmt_bench.bundles.write import Report, write_bundle
from xnmt_bench.measuring.bootstrap import Draws
from xnmt_bench.metrics.fidelity import Fidelity
from xnmt_bench.report.report import collect
from xnmt_bench.report.table import csv_columns
from xnmt_bench.report.write import write_rows
from xnmt_bench.store import fingerprint


def make_results(folder, explainers=("attention", "random"), model="m0", shift=0.0, **changes):
    """A results folder: explainers under two judges on six decisions of three sentences."""
    rng = np.random.default_rng(0)
    for explainer in explainers:
        for judge in ("base", "fn"):
            identity = FIDELITY | {"explainer": explainer, "instantiation": judge} | changes
            log_p_N = rng.uniform(-3, -1, 6) - (explainer == "random") - shift
            units = decisions([0, 0, 1, 1, 2, 2], log_p_N)
            blind = {"blind": True} if explainer == "random" else {}
            measured(Fidelity(), folder, identity, units, model=model, **blind)
    return folder


def make_bundle(path, folder, author=None):
    """The bundle of a results folder, with its table."""
    rows = collect(Fidelity(), folder, Draws(20, 0))
    write_rows("fidelity", [row.row for row in rows], csv_columns(Fidelity()), folder)
    scored = {"fidelity": (Fidelity(), rows)}
    tables, verdicts = [folder / "fidelity.csv"], ["attention beats every blind row"]
    write_bundle(Report(scored, folder, tables, verdicts, 20, author=author), path)
    return path


def read_members(path):
    """The contents of a bundle by name."""
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def rewrite_bundle(path, contents, manifest=True):
    """Writes a bundle of other contents, with a manifest that fits unless `manifest` is False."""
    if manifest:
        described = {
            name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in contents.items()
            if name != "manifest.json"
        }
        old = json.loads(contents["manifest.json"])
        contents = contents | {"manifest.json": json.dumps(old | {"members": described}).encode()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return path


def row_name(contents):
    return min(name for name in contents if name.endswith(".json") and "measurements" in name)


def change_row(contents, name, **changes):
    """Returns the contents with other values in a row, under a seal that fits."""
    row = json.loads(contents[name])
    row.pop("seal")
    row |= changes
    return contents | {name: json.dumps(row | {"seal": fingerprint(row)}).encode()}


def add_files(contents, **files):
    """Returns the contents with files beside a row: bytes and ending of each, by what it holds."""
    names = {}
    for kind, (data, ending) in files.items():
        # As `Measurement.file` wants it.
        names[kind] = f"{hashlib.sha256(data).hexdigest()[:16]}{ending}"
        contents = contents | {f"measurements/fidelity/files/{names[kind]}": data}
    return change_row(contents, row_name(contents), files=names)
