"""The command `xnmt`: what it lists, prints, hands on and refuses."""

import inspect
import json
import os
import subprocess
import sys

import pytest

import xnmt_bench.registry as registry
from support.forked_commands import command, must_run
from support.paths import ROOT
from xnmt_bench.catalogue import catalogue, describe_all
from xnmt_bench.choices import GROUPS, KIND_LINES, STORE, list_choices
from xnmt_bench.errors import MissingError, XnmtError
from xnmt_bench.help import CONF, help_text
from xnmt_bench.measuring.measurement import FOLDER
from xnmt_bench.program import sentence_first
from xnmt_bench.registry import KINDS, entries, load
from xnmt_bench.report.stored import ROWS, stored_tables
from xnmt_bench.store import Store, Work

PROGRAM = "xnmt_bench/__main__.py"


def lines_of(kind):
    """What is listed of a kind: the lines of each name."""
    listed, name = {}, ""
    for line in list_choices(kind, None, CONF).splitlines():
        if not line.startswith(" "):
            name, _, line = line.partition(" ")
        listed.setdefault(name, []).append(line.strip())
    return listed


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_is_what_importing_the_class_shows(kind):
    listed = lines_of(kind)
    assert list(listed) == list(entries(kind))
    for name, (first, *_) in listed.items():
        cls = load(kind, name)
        blind = "(blind) " if kind == "explainers" and cls.blind else ""
        assert first == blind + inspect.getdoc(cls).splitlines()[0]


def test_needs_and_doors_are_those_of_the_classes():
    for name, (_, *words) in lines_of("metrics").items():
        cls = load("metrics", name)
        inputs = ", ".join(f"{kind}.path" for kind in cls.inputs)
        expected = [f"needs {cls.needs}"] * bool(cls.needs)
        assert words == expected + [f"can read {inputs} instead of opening a system"] * bool(inputs)


@pytest.mark.parametrize("name", sorted(GROUPS))
def test_a_group_lists_its_files(name):
    files = {p.relative_to(CONF / GROUPS[name]) for p in (CONF / GROUPS[name]).rglob("*.yaml")}
    listed = lines_of(name)
    assert set(listed) == {
        p.with_suffix("").as_posix() for p in files if not p.name.startswith("_")
    }
    assert all(line for lines in listed.values() for line in lines), "a file without a comment"
    assert lines_of(GROUPS[name]) == listed or GROUPS[name] == "nmt"


def test_every_kind_is_listed():
    assert set(lines_of(None)) == {*KINDS, *GROUPS, STORE} == set(KIND_LINES)


def test_the_catalogue_is_as_the_classes_are():
    """`python -m xnmt_bench.catalogue` writes it."""
    assert catalogue() == describe_all()


BROKEN = """
raise RuntimeError("no such library")
"""
PLUGIN_METRIC = '''
from xnmt_bench.measuring.metric import SumMetric

class Base(SumMetric):
    needs = "a crystal ball"

class Ours(Base):
    """What will be measured.

    More of it.
    """
    inputs = ("outputs",)
'''


def test_a_plugin_is_marked_also_where_it_cannot_be_imported(tmp_path, monkeypatch):
    package = tmp_path / "xnmt_oracle"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "deep" / "__init__.py").write_text("from .ours import Ours\n")
    (package / "deep" / "ours.py").write_text(PLUGIN_METRIC)
    (package / "broken.py").write_text(BROKEN)
    described = tmp_path / "xnmt_oracle-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: xnmt-oracle\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(
        "[xnmt_bench.metrics]\noracle = xnmt_oracle.deep:Ours\nlost = xnmt_nowhere:Lost\n"
        "broken = xnmt_oracle.broken:Lost\nmodule = xnmt_oracle\nempty = xnmt_oracle:None\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.installed.cache_clear()
    try:
        listed = lines_of("metrics")
    finally:
        registry.installed.cache_clear()
    assert listed["oracle"] == [
        "(plug-in of xnmt-oracle) What will be measured.",
        "needs a crystal ball",
        "can read outputs.path instead of opening a system",
    ]
    failed = "(plug-in of xnmt-oracle) cannot be imported: metric "
    for name, reason in {
        "lost": "No module named 'xnmt_nowhere'",
        "broken": "no such library",
        "module": "is no class but <module 'xnmt_oracle'",
        "empty": "has no attribute 'None'",
    }.items():
        [line] = listed[name]
        assert line.startswith(f"{failed}'{name}' (") and reason in line


def test_the_options_of_a_choice_are_listed():
    def options_of(kind, name):
        lines = list_choices(kind, name, CONF).splitlines()
        return dict(line.partition(" ")[::2] for line in lines)

    lime = options_of("explainers", "lime")
    assert lime["explainer.phi.samples=200"].strip() == "rows of a sentence."
    assert "explainer.phi.seed=${seed}" in lime
    # What a base says, and the values of an annotation.
    removal = lime["explainer.phi.removal=zero"].strip()
    assert removal.startswith("zero, mean, unk, attention: what replaces the embedding of a word")
    assert "proxy.sizes.heads=4" in options_of("proxies", "sa")
    assert "sheet.mention=pronoun" in options_of("sheet", "consistency")
    assert "metric.aer.gold_reverse=false" in options_of("metrics", "aer")
    assert "nmt.sizes.layers=2" in options_of("architectures", "transformer")
    assert "judge.evalx.leak=false" in options_of("judges", "evalx")
    assert not any("rules" in option for option in options_of("judges", "evalx"))
    # Of a group without entry points: by the file's class, or that of the file it stands on.
    source = "which of them are translated from and to."
    assert options_of("corpora", "ende")["corpus.source_language=en"].strip() == source
    assert "nmt.reader.prefix=null" in options_of("systems", "marian")
    assert "logger.folder=outputs/mlflow" in options_of("loggers", "mlflow")
    # Which no option of the configuration holds.
    assert "path=???" in options_of("resolvers", "file")
    assert list_choices("metrics", "repetition", CONF) == "repetition has no options"


def test_the_store_is_listed_without_reading_its_files(tmp_path):
    store = Store(tmp_path)

    def work(folder):
        (folder / "weights").write_bytes(b"x" * 4000)
        return {"name": "small", "bleu": 12.34567, "parts": [1]}

    amount = Work("transformer on toy", 3, "epochs")
    artefact = store.stage("nmt", work, version=1, amount=amount, seed=3).artefact
    other = store.stage("hits", lambda folder: None, version=2, k=1).artefact
    (artefact.path / "weights").write_bytes(b"altered, and longer than before" * 200)
    damaged = store.stage("labels", lambda folder: None, version=1).artefact
    (damaged.path / "meta.json").write_text("{}")
    (tmp_path / "rules" / "0123.partial").mkdir(parents=True)
    listed = {}
    for line in list_choices("store", str(tmp_path), CONF).splitlines():
        name, *words = line.split()
        listed[name] = " ".join(words)
    assert (
        "6." in listed[f"nmt/{artefact.fingerprint}"]
        and "kB" in listed[f"nmt/{artefact.fingerprint}"]
    )
    assert listed[f"nmt/{artefact.fingerprint}"].endswith(
        "transformer on toy; name small, bleu 12.35"
    )
    assert listed[f"hits/{other.fingerprint}"].endswith("k 1")
    assert "damaged: " in listed[f"labels/{damaged.fingerprint}"]
    assert "unfinished" in listed["rules/0123.partial"]


@pytest.mark.parametrize(
    ("kind", "folder", "problem"),
    [
        ("metrcs", None, "no list 'metrcs'; did you mean metrics?"),
        ("judges", "x", "no judge 'x'; there are base"),
        ("corpora", "toi", "no choice of corpus 'toi'; did you mean toy?"),
        ("experiments", "quick", "list experiments: takes no name; quick is itself a file"),
        ("store", "/nowhere", "/nowhere: no store is here yet"),
    ],
)
def test_slips_of_list_are_named(kind, folder, problem):
    with pytest.raises(XnmtError, match=problem.replace("?", r"\?")):
        list_choices(kind, folder, CONF)


def table_of(results, name, text, rows=()):
    folder = results / ROWS / name
    folder.mkdir(parents=True, exist_ok=True)
    for row in rows:
        (folder / row).write_text("{}")
    if text:
        (results / f"{name}.txt").write_text(text)


def test_tables_are_printed_as_they_were_written(tmp_path):
    assert ROWS == FOLDER
    table_of(tmp_path, "quality", "BLEU 30\n", ["a.json"])
    table_of(tmp_path, "fidelity", "PPL 7\n", ["b.json"])
    (tmp_path / "agreement.txt").write_text("tau 0.5\n")
    (tmp_path / "fidelity_kl.txt").write_text("KL 1\n")  # made with its metric's table
    for path in tmp_path.rglob("*.json"):
        os.utime(path, (1, 1))
    assert stored_tables(tmp_path) == "PPL 7\n\nBLEU 30\n\ntau 0.5\n\nKL 1"
    # A row that came later is in no table yet.
    os.utime(tmp_path / ROWS / "quality" / "a.json", (2**33, 2**33))
    older, newer = stored_tables(tmp_path).splitlines()[-3::2]
    assert older.startswith("Older than the newest row: agreement; ")
    assert newer == (
        f"Rows of quality were measured since; `xnmt evaluate results={tmp_path} "
        "metric=[quality]` makes their tables anew."
    )


def test_a_table_without_rows_is_named(tmp_path):
    """As of a folder of bundles, after it was pooled anew."""
    table_of(tmp_path, "quality", "BLEU 30\n", [])
    table_of(tmp_path, "fidelity", "PPL 7\n", ["b.json"])
    os.utime(tmp_path / ROWS / "fidelity" / "b.json", (1, 1))
    (tmp_path / ROWS / "quality").rmdir()
    last = stored_tables(tmp_path).splitlines()[-1]
    assert last == ("Tables of rows that are no longer here: quality.txt. Delete or measure again.")


def test_results_without_tables_say_what_makes_them(tmp_path):
    with pytest.raises(MissingError, match="no results are here yet; run `xnmt train` first"):
        stored_tables(tmp_path)
    table_of(tmp_path, "aer", "", ["a.json"])
    with pytest.raises(MissingError, match=r"no table was made .* metric=\[aer\]` makes them"):
        stored_tables(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["Der Hund ."], ["explain=Der Hund ."]),
        (["Hund", "device=cpu"], ["explain=Hund", "device=cpu"]),
        (["1 + 1=2 ."], ["explain=1 + 1=2 ."]),
        (["null"], ["explain='null'"]),
    ],
)
def test_the_sentence_comes_first(arguments, expected):
    assert sentence_first(arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "no command ''"),
        (["explian"], "no command 'explian'; did you mean explain?"),
        (["explain"], "explain: the sentence comes first"),
        (["explain", "nmt=marian", "Der Hund ."], "explain: the sentence comes first"),
        (
            ["explain", "Der", "Hund"],
            "explain: 'Hund' is not an option; put the sentence in quotes",
        ),
        (["explain", "  "], "explain: the sentence is empty"),
        (["list", "a", "b", "c"], "list: give a kind"),
        (["results", "a", "b"], "results: give at most one folder"),
        (["train", "explainer=atention"], "no explainer 'atention'; did you mean attention"),
    ],
)
def test_slips_are_answered_in_one_line(arguments, problem, tmp_path):
    done = command(PROGRAM, *(arguments or [""]), cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith(f"error: {problem}")


@pytest.mark.parametrize("arguments", [["--help"], ["list", "--help"], ["results", "-h"], []])
def test_help_shows_every_command(arguments, tmp_path):
    done = command(PROGRAM, *arguments, cwd=tmp_path)
    assert done.returncode == 0
    for name in ("explain", "train", "evaluate", "results", "list"):
        assert f"  xnmt {name}" in done.stdout


@pytest.mark.parametrize("name", ["train", "evaluate"])
@pytest.mark.parametrize(
    ("program", "form"), [("/bin/xnmt", "xnmt {}"), ("./train.py", "python {}.py")]
)
def test_help_of_a_command_names_the_program_that_was_called(name, program, form, monkeypatch):
    monkeypatch.setattr(sys, "argv", [program, "--help"])
    first, _, choices = help_text(name).partition("Groups, with")
    commands = [line for line in first.splitlines() if line.startswith("  ") and line[2] != " "]
    forms = tuple(f"  {form.format(other)}" for other in ("train", "evaluate"))
    assert len(commands) > 3 and all(line.startswith(forms) for line in commands)
    assert f"{form.format(name)} --cfg job" in choices


LIGHT = """
import json, os, resource, sys
sys.argv = ["xnmt", *json.loads(sys.argv[1])]
from xnmt_bench.program import xnmt
xnmt()
used = resource.getrusage(resource.RUSAGE_SELF)
names = {name.partition(".")[0] for name in sys.modules}
seconds = used.ru_utime + used.ru_stime
print(json.dumps([seconds, sorted(names)]), file=sys.stderr)
"""
HEAVY = {"captum", "hydra", "matplotlib", "pyarrow", "pytorch_lightning", "scipy", "torch", "wandb"}


@pytest.mark.parametrize("arguments", [["list"], ["list", "metrics"], ["list", "explainers"]])
def test_a_list_imports_nothing_heavy_and_is_quick(arguments, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, json.dumps(arguments)],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    seconds, names = json.loads(done.stderr)
    assert not HEAVY & set(names)
    # Of the processor: a busy machine makes the clock's time longer.
    assert seconds < 1.5


def test_importing_the_package_is_quick(tmp_path):
    code = (
        "import resource, sys; import xnmt_bench\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(used.ru_utime + used.ru_stime, *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    seconds, *names = done.stdout.split()
    assert not HEAVY & {name.partition(".")[0] for name in names}
    assert float(seconds) < 0.2


def test_explain_shows_a_sentence(tmp_path):
    done = must_run(PROGRAM, "explain", "Der Hund schläft .", cwd=tmp_path)
    other = command("evaluate.py", "explain=Der Hund schläft .", cwd=tmp_path)
    assert "target (en): The dog is sleeping ." in done.stdout
    # The log's first line has the time.
    assert done.stdout.splitlines()[1:] == other.stdout.splitlines()[1:]


def test_the_scripts_are_declared():
    text = (ROOT / "pyproject.toml").read_text()
    assert all(f"\n{name} = " in text for name in ("xnmt", "xnmt-train", "xnmt-evaluate"))
