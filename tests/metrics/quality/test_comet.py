"""COMET as another program's answer; a small one stands in its place that speaks like it."""

import json
import re
import stat
from types import SimpleNamespace

import pytest

from xnmt_bench.errors import XnmtError
from xnmt_bench.metrics.quality import Quality
from xnmt_bench.metrics.quality.comet import comet
from xnmt_bench.store import Store

# As comet-score 2.2 does: one entry for the translations' file, one row for each segment.
PROGRAM = """#!/usr/bin/env python3
import argparse, json
parser = argparse.ArgumentParser()
for short, name in (("-s", "--sources"), ("-t", "--translations"), ("-r", "--references")):
    parser.add_argument(short, name)
for name in ("--model", "--to_json"):
    parser.add_argument(name)
for name in ("--quiet", "--only_system"):
    parser.add_argument(name, action="store_true")
given = parser.parse_args()
read = lambda path: [line.strip() for line in open(path, encoding="utf-8")]
rows = [dict(src=s, mt=t, ref=r, COMET=len(t) / len(r)) for s, t, r in
        zip(read(given.sources), read(given.translations), read(given.references))]
json.dump({given.translations: rows}, open(given.to_json, "w"))
"""


def program(folder, text=PROGRAM):
    path = folder / "comet-score"
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_score_of_each_segment(tmp_path):
    sides = (["ä b", "c"], ["aa", ""], ["aaaa", "cc"])
    assert comet(program(tmp_path), "some/model", *sides, tmp_path).tolist() == [0.5, 0.0]
    [rows] = json.loads((tmp_path / "scores.json").read_text()).values()
    assert [(r["src"], r["mt"], r["ref"]) for r in rows] == list(zip(*sides, strict=True))


def test_a_program_that_is_not_there_or_fails(tmp_path):
    texts = (["a"], ["b"], ["c"])
    with pytest.raises(XnmtError, match=r"no-such.*: No such file"):
        comet(str(tmp_path / "no-such"), "m", *texts, tmp_path)
    failing = program(tmp_path, "#!/bin/sh\necho no such model >&2\nexit 3\n")
    with pytest.raises(XnmtError, match="failed: no such model"):
        comet(failing, "m", *texts, tmp_path)
    silent = program(tmp_path, "#!/bin/sh\nexit 0\n")
    with pytest.raises(XnmtError, match="failed"):
        comet(silent, "m", *texts, tmp_path)


def test_a_score_for_each_translation(tmp_path):
    with pytest.raises(XnmtError, match="1 scores for 2 translations"):
        comet(program(tmp_path), "m", ["a"], ["b", "c"], ["d", "e"], tmp_path)


def scored_by(tmp_path, references, model):
    metric = Quality(program(tmp_path), model)
    outputs = SimpleNamespace(raw=lambda: (["a", "b"], ["cc", "d"], references))
    values, named = metric._comet(SimpleNamespace(store=Store(tmp_path / "store")), outputs)
    return values.tolist(), named


def test_other_references_and_other_bytes_of_a_model_are_scored_again(tmp_path):
    assert scored_by(tmp_path, ["c", "d"], "some/model") == ([2.0, 1.0], "some/model")
    assert scored_by(tmp_path, ["cc", "d"], "some/model") == ([1.0, 1.0], "some/model")
    names = set()
    for content in ("one", "two"):
        (tmp_path / "model.ckpt").write_text(content)
        names.add(scored_by(tmp_path, ["c", "d"], str(tmp_path / "model.ckpt"))[1])
    assert len(names) == 2 and all(re.fullmatch("model.ckpt [0-9a-f]{12}", name) for name in names)
    assert len([*(tmp_path / "store" / "comet").glob("[0-9a-f]" * 16)]) == 4
