"""Text on the command line: it arrives as it was typed."""

import os
from types import SimpleNamespace
from typing import get_args, get_origin

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from pydantic import BaseModel

from support.configurations import configure
from xnmt_bench import schema
from xnmt_bench.errors import ConfigError
from xnmt_bench.overrides import TEXTS, quote, quoted, split, texts
from xnmt_bench.pipeline.settings import (
    CorpusSettings,
    JobSettings,
    SheetSettings,
    SystemSettings,
)
from xnmt_bench.registry import KINDS, entries, load
from xnmt_bench.schema import check
from xnmt_bench.sweep import JOBS, SWEPT, CountJobs, as_typed

PARSER = OverridesParser.create()
# Texts that stand for themselves in every option; a sentence may hold commas and brackets too.
AWKWARD = [
    "d/Müller", "d/(v1)", "(v1)", "f(v1)", "a#1", "#1", "a~b", "~", "O'Neil", 'say "ja"', "a=b",
    "http://x.y/z?q=1&r=2", "100 %", "1 € (net)", "a;b", "a^b", "a`b", "a|b", "a<b>c", "猫 😀",
    "“quoted”", "C:\\data\\new", "ends in \\", "two\nlines", "[a", "a]b", "{x", "a b c", "12:30",
    "2020-01-01", "007", "0x1f", "v1.10", "none", "yes", "Null", "NULL", "null_", "@a", "$HOME", "",
    "-m", "!important", "*", "?", "a:b", "ü" * 30,
]  # fmt: skip
SENTENCE_ALONE = ["a, b", "[a,b]", "{a}", "choice(a,b)", "nan", "true", "1e3", "${x}", "~/x"]


def takes_text(annotation):
    """Whether an annotation allows any text, and not only a choice of several words."""
    parts = [takes_text(part) for part in get_args(annotation)]
    return annotation is str or (get_origin(annotation) is not None and any(parts))


def text_options(section, where):
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from text_options(field.annotation, f"{where}{name}.")
        elif takes_text(field.annotation):
            yield f"{where}{name}"


def all_text_options():
    sections = {
        "": JobSettings,
        "corpus.": CorpusSettings,
        "nmt.": SystemSettings,
        "sheet.": SheetSettings,
    }
    for where, settings in sections.items():
        made_by = schema.section(settings, schema.ELSEWHERE.get(settings, ()))
        yield from text_options(made_by, where)
    for kind, described in KINDS.items():
        group = described.group or kind
        for name in entries(kind):
            made_by = schema.section(load(kind, name), described.hidden)
            yield from text_options(made_by, f"{group}.{name}.")


OPTIONS = sorted({*all_text_options(), "corpus.root", "corpus.data"})


def test_the_schema_is_walked():
    expected = {"results", "explain", "scores.name", "sheet.path", "nmt.path", "bundle_author"}
    assert expected | {"metric.quality.comet_command", "corpus.name"} <= set(OPTIONS)
    assert len(OPTIONS) > 50 and "scenario" not in OPTIONS and "k" not in OPTIONS


@pytest.mark.parametrize("text", AWKWARD)
def test_a_text_arrives_as_it_was_typed(text):
    for name in OPTIONS:
        override = PARSER.parse_override(quoted(f"{name}={text}"))
        config = OmegaConf.create({"x": override.value()})
        assert (override.key_or_group, config.x) == (name, text)


@pytest.mark.parametrize("text", SENTENCE_ALONE)
@pytest.mark.parametrize("name", TEXTS)
def test_a_sentence_may_be_anything(name, text):
    override = PARSER.parse_override(quoted(f"{name}={text}"))
    assert OmegaConf.create({"x": override.value()}).x == text


@pytest.mark.parametrize("prefix", ["", "+", "++", "hydra."])
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("[d/Müller.zip,b (1).zip,'x, y',\"z\"]", ["d/Müller.zip", "b (1).zip", "x, y", "z"]),
        ("[[ü,1],[2]]", [["ü", 1], [2]]),
        ("{a: ü,b:[1,#]}", {"a": "ü", "b": [1, "#"]}),
        ("[ü,'a]b']", ["ü", "a]b"]),
        ("'d/Müller'", "d/Müller"),
        ('"it\'s"', "it's"),
        ("[]", []),
        ("null", None),
        ("1e3", 1000.0),
        ("true", True),
    ],
)
def test_what_hydra_reads_keeps_its_meaning(prefix, typed, expected):
    assert PARSER.parse_override(quoted(f"{prefix}x={typed}")).value() == expected


@pytest.mark.parametrize(
    ("typed", "jobs"),
    [
        ("d/Müller,d/O'Neil", ["d/Müller", "d/O'Neil"]),
        ("a b,(v1)", ["a b", "(v1)"]),
        ("choice(a,ü)", ["a", "ü"]),
        ("'a,b','ü'", ["a,b", "ü"]),
        ("1,2", [1, 2]),
    ],
)
def test_each_job_of_a_sweep_has_its_text(typed, jobs):
    override = PARSER.parse_override(quoted(f"x={typed}"))
    assert override.is_sweep_override()
    values = [PARSER.parse_override(f"x={job}").value() for job in override.sweep_string_iterator()]
    assert values == jobs
    assert texts(override) == [job for job in jobs if isinstance(job, str)]


def test_interpolations_stay(monkeypatch):
    monkeypatch.setenv("PLACE", "/data")
    for typed, expected in {"${oc.env:PLACE}/Müller": "/data/Müller", "${y}": "other"}.items():
        value = PARSER.parse_override(quoted(f"x={typed}")).value()
        assert OmegaConf.create({"x": value, "y": "other"}).x == expected


def test_the_users_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/Müller")
    assert quoted("corpus.root=~/d") == "corpus.root='/home/Müller/d'"
    assert quoted("results=[~/a.zip,b]") == "results=['/home/Müller/a.zip',b]"
    assert quoted("corpus.root=d/~/e") == "corpus.root='d/~/e'"


@pytest.mark.parametrize("argument", ["--config-dir=ü", "-m", "~ü", "help", "größe=1", "~a.b=c"])
def test_flags_and_what_is_no_option_stay(argument):
    assert quoted(argument) == argument


def test_commas_in_brackets_and_quotes_do_not_split():
    assert split("a,[b,c],'d,e',{f:g,h:i}") == ["a", "[b,c]", "'d,e'", "{f:g,h:i}"]
    assert split("O'Neil,it's") == ["O'Neil", "it's"]
    assert split("(a,b") == ["(a,b"]


@pytest.fixture
def command_line(monkeypatch):
    def composed(*options):
        task = list(map(quoted, options))
        overrides = SimpleNamespace(overrides=SimpleNamespace(task=task))
        stand_in = SimpleNamespace(initialized=lambda: True, get=lambda: overrides)
        monkeypatch.setattr(schema, "HydraConfig", stand_in)
        return configure(*task)

    return composed


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "1e3", "1_000", "1.10", "42", "true", "No"])
def test_a_name_that_looks_like_a_number_is_text(text, command_line):
    config = command_line(f"scores.name={text}", f"corpus.name={text}", f"results=[a.zip,{text}]")
    check(config)
    assert (config.scores.name, config.corpus.name) == (text, text)
    assert config.results == ["a.zip", text]


def test_null_is_no_value_and_other_spellings_are_names(command_line):
    config = command_line("scores.name=null", "outputs.name=Null", "corpus.name=null")
    check(config)
    assert config.scores.name is None
    assert (config.outputs.name, config.corpus.name) == ("Null", "null")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("k=[1", "k='[1': should be a valid integer"),
        ("k=nan", "k=nan: should be a valid integer"),
        ("nmt.name=[a]", "nmt.name=['a']: should be a valid string"),
        ("corpus.name=", "corpus.name=: should not be empty"),
    ],
)
def test_what_is_no_text_is_named(option, message, command_line):
    with pytest.raises(ConfigError) as refused:
        check(command_line(option))
    assert {*refused.value.problems} == {message}


def test_quotes_hold_any_text():
    for text in ["\\'", "'\\\\'", "\\", "''", "a\\'b\\"]:
        assert PARSER.parse_override(f"x={quote(text)}").value() == text


def test_the_only_value_of_a_sweep_is_as_typed(monkeypatch):
    """Such as `nmt.name=1e3` beside a sweep of systems, which `cli.defer_to_jobs` writes so."""
    monkeypatch.setenv(SWEPT, "{}")
    monkeypatch.setenv(JOBS, "")
    hydra = {"sweeper": {"params": None}, "overrides": {"task": ["nmt.name=choice(1e3)"]}}
    CountJobs().on_multirun_start(OmegaConf.create({"hydra": hydra}))
    assert as_typed("nmt.name=1000.0") == ("nmt.name", "1e3")


def test_a_glob_counts_no_jobs(monkeypatch):
    monkeypatch.setenv(SWEPT, "{}")
    monkeypatch.delenv(JOBS, raising=False)
    task = ["explainer=glob(*)", "nmt.name=1e3,true"]
    hydra = {"sweeper": {"params": None}, "overrides": {"task": task}}
    CountJobs().on_multirun_start(OmegaConf.create({"hydra": hydra}))
    assert JOBS not in os.environ and as_typed("nmt.name=1000.0") == ("nmt.name", "1e3")


def test_the_jobs_of_a_sweep_have_names_as_typed(command_line, monkeypatch):
    typed = ["1e3", "true", "007", "nan", "Null", "ü"]
    [sweep] = map(quoted, [f"scores.name={','.join(typed)}"])
    monkeypatch.setenv(SWEPT, "{}")
    monkeypatch.setenv(JOBS, "")
    hydra = {"sweeper": {"params": None}, "overrides": {"task": [sweep]}}
    CountJobs().on_multirun_start(OmegaConf.create({"hydra": hydra}))
    for name, value in zip(
        typed, PARSER.parse_override(sweep).sweep_string_iterator(), strict=True
    ):
        config = command_line(f"scores.name={value}")
        check(config)
        assert config.scores.name == name
