"""What is typed on the command line."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import CompactHydraException, ConfigCompositionException
from omegaconf import OmegaConf

from support.forked_commands import command, must_run
from support.paths import ROOT
from xnmt_bench.cli import defer_to_jobs, flags_first, guarded, prepare
from xnmt_bench.overrides import quoted

PARSER = OverridesParser.create()


@pytest.mark.parametrize(
    "sentence",
    [
        "Der Hund schläft .",
        "it's \"here\", isn't it?",
        "a=b [c] {d} (e) $f",
        "100 %",
        "naïve 猫",
        '"Ja" sagt "er"',
        "ends in \\",
        "x",
        "${oc.env:HOME} and \\${now:}",
        "ends in ${",
    ],
)
@pytest.mark.parametrize("name", ["explain", "explain_target", "explain_foil"])
def test_a_sentence_arrives_as_it_was_typed(name, sentence):
    override = PARSER.parse_override(quoted(f"{name}={sentence}"))
    assert override.key_or_group == name
    config = OmegaConf.create({name: override.value()})
    assert config[name] == sentence


@pytest.mark.parametrize(
    "argument",
    ["explain='quoted already'", "explain=null", "k=1,2", "nmt.path=/a/b", "--help", "-m"],
)
def test_everything_else_stays(argument):
    assert quoted(argument) == argument


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("metric=[erasure] --cfg job", "--cfg job metric=[erasure]"),
        ("seed=1 -m ~proxy k=2", "-m seed=1 ~proxy k=2"),
        ("--config-dir=a=b seed=1", "--config-dir=a=b seed=1"),
    ],
)
def test_flags_may_stand_behind_overrides(typed, read):
    assert flags_first(typed.split()) == read.split()


def test_the_configuration_of_a_choice_is_shown(tmp_path):
    done = must_run("train.py", "metric=[erasure]", "--cfg", "job", cwd=tmp_path)
    assert "erasure:\n" in done.stdout and "beam:" in done.stdout


def test_options_of_a_swept_group_are_of_the_jobs():
    before, after = ["-m", "--config-dir", "confs", "explainer=attention,alti"], ["nmt.seed=1"]
    swept = defer_to_jobs([*before, "explainer.phi.layer=0", *after])
    assert swept == [*before, "explainer.phi.layer=choice(0)", *after]
    for value in ("{hides:cue}", "[1,2]", "0.5"):
        [_, option] = defer_to_jobs(["corpus=toy,multi30k", f"corpus.x={value}"])
        override = PARSER.parse_override(option)
        assert override.is_sweep_override()
        expected = PARSER.parse_override(f"corpus.x={value}").value()
        assert [str(v) for v in override.value().list] == [str(expected)]
    for changes in (
        ["explainer=attention", "explainer.phi.layer=0,1"],
        ["explainer=a,b", "explainer.phi.layer=null"],
        ["explainer=a,b", "explainer.phi.name='1'"],
        ["explainer=a,b", "k=("],
    ):
        assert defer_to_jobs(changes) == changes


def test_a_sweep_over_explainers_takes_an_option_that_the_default_lacks(tmp_path):
    done = must_run(
        "train.py", "-m", "explainer=attention,alti", "explainer.phi.layer=0", "dry_run=true",
        f"store={tmp_path}", f"hydra.sweep.dir={tmp_path}/sweep", cwd=tmp_path,
    )  # fmt: skip
    assert "explainer=alti explainer.phi.layer=0" in done.stdout
    done = command(
        "train.py", "-m", "explainer=attention,alti", "explainer.phi.lyer=0", cwd=tmp_path
    )
    assert done.returncode == 2
    assert "no option in explainer.phi 'lyer'; did you mean layer?" in done.stderr


@pytest.mark.parametrize(
    ("changes", "key"),
    [(["nmt=marian"], "nmt.path"), (["corpus=text", "corpus.root=x"], "corpus.source_language")],
)
def test_a_value_that_has_to_be_given_is_named(changes, key, tmp_path):
    done = command("train.py", *changes, cwd=tmp_path)
    assert done.returncode == 2
    assert f"error: {key}: has no value yet; give {key}=..." in done.stderr
    assert "Traceback" not in done.stderr


def refused(tmp_path, script, *changes):
    """The error for a choice that does not exist comes before anything is made."""
    done = command(script, *changes, fresh=True, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []
    return done.stderr.splitlines()


@pytest.mark.parametrize("script", ["train.py", "evaluate.py"])
def test_a_slip_is_answered_in_one_line(tmp_path, script):
    [line] = refused(tmp_path, script, "explainer=atention")
    assert line == "error: no explainer 'atention'; did you mean attention?"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("nmt.bema=3", "no option in nmt 'bema'; did you mean beam?"),
        ("sed=1", "no option in the configuration 'sed'; did you mean seed?"),
        ("help", "help: an option is NAME=VALUE; its name has letters, digits, _ and ."),
        ("größe=1", "größe=1: an option is NAME=VALUE; its name has letters, digits, _ and ."),
        (
            "k=1,2",
            "k=1,2: several values; -m k=1,2 runs a job for each; "
            "one text with commas is in quotes, 'k=\"1,2\"'",
        ),
        (
            "metric=aer,quality",
            "metric=aer,quality: several values; -m metric=aer,quality runs a job for each; "
            "metric=[aer,quality] takes all of them",
        ),
    ],
)
def test_what_hydra_would_not_compose_is_one_line(tmp_path, argument, message):
    assert refused(tmp_path, "train.py", argument) == [f"error: {message}"]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("metric=[fidelity,qualty]", "no metric 'qualty'; did you mean quality?"),
        ("analysis=[densty]", "no analysis 'densty'; did you mean density?"),
        (
            "explainer=random,atention",
            "no explainer 'atention'; did you mean attention?",
        ),
        ("experiment=li2020/tabel1", "no experiment 'li2020/tabel1'; did you mean li2020/table1"),
        ("+experiment=li2020/tabel1", "no experiment 'li2020/tabel1'; did you mean li2020/table1"),
        ("nmt=_native", "no nmt '_native'; there are "),
        ("proxy=zzz", "no proxy 'zzz'; there are fn, rn, sa"),
        ("corpus=tooy", "no corpus 'tooy'; did you mean toy?"),
        ("corpus='töy'", "no corpus 'töy'; did you mean toy?"),
    ],
)
def test_choices_that_do_not_exist(argument, message, capsys):
    with pytest.raises(SystemExit) as ended:
        prepare([argument], ROOT / "conf")
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {message}")


@pytest.mark.parametrize(
    "place", [["--config-dir", "{}"], ["--config-dir={}"], ["-cd", "{}"],
              ["hydra.searchpath=[file://{}]"]],
)  # fmt: skip
def test_a_choice_of_a_users_own_folder_exists(place, tmp_path, capsys):
    (tmp_path / "explainer").mkdir()
    (tmp_path / "explainer" / "mine.yaml").write_text("name: mine\n")
    arguments = [part.format(tmp_path) for part in place]
    prepare([*arguments, "explainer=mine,attention", "-m"], ROOT / "conf")
    with pytest.raises(SystemExit):
        prepare([*arguments, "explainer=mien"], ROOT / "conf")
    assert "no explainer 'mien'; did you mean mine?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("job", "raised", "message"),
    [
        (lambda: (ROOT / "train.py" / "train.de").read_text(), CompactHydraException,
         f"{ROOT}/train.py/train.de: Not a directory; what was finished is kept"),
        (lambda: OmegaConf.create({"nmt": {"path": "???"}}).nmt.path, ConfigCompositionException,
         "nmt.path: has no value yet; give nmt.path=..."),
    ],
)  # fmt: skip
def test_a_job_of_a_sweep_that_fails_ends_no_other(job, raised, message, monkeypatch, capsys):
    """Hydra goes on to the next job after an exception, and not after an exit."""
    monkeypatch.setattr("xnmt_bench.cli._sweeps", lambda: True)
    with pytest.raises(raised) as ended:
        guarded(job)
    assert str(ended.value) == message
    monkeypatch.setattr("xnmt_bench.cli._sweeps", lambda: False)
    with pytest.raises(SystemExit) as exited:
        guarded(job)
    assert message in f"{exited.value} {capsys.readouterr().err}"


def test_every_slip_has_a_line(capsys):
    with pytest.raises(SystemExit):
        prepare(["explainer=atention", "metric=[aeer,qualty]", "k=9"], ROOT / "conf")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("'")[1] for line in lines] == ["atention", "aeer", "qualty"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["explainer=attention,random", "metric=[fidelity,aer]", "analysis=[]", "-m"],
        ["experiment=li2020/table1", "nmt=marian", "nmt.path=x", "explain='a (b'", "--help"],
        ["experiment=null", "metric=[]", "explain=a=b [c", "proxy=choice(fn,sa)"],
        ["trainer=default", "launcher=joblib", "logger=csv", "~analysis"],
    ],
)
def test_choices_that_exist_pass(arguments):
    prepare(arguments, ROOT / "conf")
