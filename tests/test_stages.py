"""The stages of the store: CONTRIBUTING.md lists each, and each has one maker."""

import ast
import re
from collections import Counter

from support.paths import ROOT


def listed():
    """The stages in CONTRIBUTING's table, each with the files that make it."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## The store")[2].partition("\n## ")[0]
    lines = [line.split("|")[1:4] for line in section.splitlines() if line.startswith("| `")]
    return {stage: files for stages, _, files in lines for stage in re.findall(r"`(\w+)`", stages)}


def calls(tree, attribute):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == attribute:
            yield node


def makers():
    """The name of each stage, with the file that calls a store's `stage` or `store_decisions`."""
    for path in (ROOT / "xnmt_bench").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for call in calls(tree, "stage"):
            if any(keyword.arg == "version" for keyword in call.keywords):
                names = [call.args[0]]
                if isinstance(names[0], ast.Name):  # the callers of the method name the stage
                    names = [c.args[0] for c in calls(tree, "_made")]
                for name in {name.value for name in names}:
                    yield name, path
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and getattr(call.func, "id", None) == "store_decisions":
                yield call.args[1].value, path


def test_each_stage_has_one_maker_which_contributing_names():
    stages, files = Counter(), listed()
    for name, path in makers():
        stages[name] += 1
        assert path.name in files.get(name, ""), f"{name} is made in {path}"
    assert set(stages) == set(files)
    assert {name for name, count in stages.items() if count > 1} == set()
