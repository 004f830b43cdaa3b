"""Every configuration in the tree is composed and instantiated."""

import re
from pathlib import Path

import hydra
import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from proxies.base import Proxy, Vocabulary
from proxies.lessons import ProxyTrainingOptions
from support.configurations import configure
from support.forked_commands import command
from support.paths import DATA, ROOT
from xnmt_bench.analyses.analysis import Analysis
from xnmt_bench.cli import OURS
from xnmt_bench.corpora.sentence import SPLITS
from xnmt_bench.explainers.base import Explainer
from xnmt_bench.measuring.metric import Metric
from xnmt_bench.nmt.loading import build_model
from xnmt_bench.pipeline.job import Job, trainer_options
from xnmt_bench.pipeline.settings import read_settings, resolve
from xnmt_bench.registry import (
    GIVEN,
    KINDS,
    create,
    entries,
    instantiate,
    load,
    load_explainer,
    options,
    target_of,
)
from xnmt_bench.report.tracking import Tracker
from xnmt_bench.run import configured_metrics

CONF = ROOT / "conf"
NEEDS = {
    "hf_dataset": ["corpus.path=somebody/pairs", "corpus.columns=[de,en]"],
    "multi30k": [f"corpus.root={DATA}/multi30k"],
    "multi30k_twins": [f"corpus.data={DATA}/multi30k"],
    "multi30k_natural": [f"corpus.data={DATA}/multi30k"],
    "fairseq_bin": [
        "corpus.root=/nowhere",
        "corpus.source_language=en",
        "corpus.target_language=de",
    ],
    "text": ["corpus.root=/nowhere", "corpus.source_language=de", "corpus.target_language=en"],
    "enru": [f"corpus.path=[{DATA}/enru/docs.tsv.gz,{DATA}/enru/sentences.tsv.gz]"],
    "ende": [f"corpus.path=[{DATA}/deen/docs.tsv,{DATA}/deen/sentences.tsv.gz]"],
    "tatoeba": [f"corpus.path={DATA}/deen/sentences.tsv.gz"],
    "rwth_deen": [f"corpus.data={DATA}"],
    "parcorfull": [f"corpus.data={DATA}"],
    "tsv": [
        f"corpus.path={DATA}/deen/docs.tsv",
        "corpus.test=[newstest2019.deen]",
        "corpus.valid=[NC-2016.dev]",
    ],
}


def names(group: str) -> list[str]:
    """A group's choices; what begins with `_` is a part that several share."""
    stems = [path.stem for path in (CONF / group).glob("*.yaml")]
    return sorted(stem for stem in stems if not stem.startswith("_"))


def ours(kind: str) -> set[str]:
    """What this project itself declares."""
    return {name for name, point in entries(kind).items() if point.value.startswith(OURS)}


def test_shared_parts_are_no_choices():
    parts = {path.relative_to(CONF).as_posix() for path in CONF.rglob("_*.yaml")}
    nmt = {f"nmt/_{part}.yaml" for part in ("coreference", "native", "system", "training")}
    assert parts == nmt | {"corpus/_shared.yaml", "proxy/_training.yaml"}


def test_every_group_is_covered_here():
    groups = {path.name for path in CONF.iterdir() if path.is_dir()}
    assert groups == {
        "corpus",
        "nmt",
        "explainer",
        "proxy",
        "metric",
        "judge",
        "analysis",
        "sheet",
        "trainer",
        "logger",
        "launcher",
        "experiment",
    }


def test_no_configuration_sets_the_mode():
    """`support/server_preload.py` relies on it."""
    mode = re.compile(r"^\s*mode:", re.MULTILINE)
    assert [path for path in CONF.rglob("*.yaml") if mode.search(path.read_text())] == []
    with initialize_config_dir(str(CONF), version_base="1.3"):
        assert compose("config", return_hydra_config=True).hydra.mode is None


@pytest.mark.parametrize("name", names("corpus"))
def test_corpora(name):
    corpus = Job(configure(f"corpus={name}", *NEEDS.get(name, []))).corpus
    # By what is hidden in it, or how its mark is decided.
    ending = {"toy_catalogue": "_or"}.get(name, "_nothing" if name.endswith("twins") else "")
    assert corpus.name == name + ending


# What each reads of shared/data; the toy corpora are generated.
SHARED = {
    "multi30k": ["multi30k"],
    "multi30k_twins": ["multi30k"],
    "multi30k_natural": ["multi30k"],
    "enru": ["enru"],
    "ende": ["deen"],
    "tatoeba": ["deen"],
    "tsv": ["deen"],
    "rwth_deen": ["alignments", "deen"],
    "parcorfull": ["parcorfull", "deen"],
}
LARGE = ("tatoeba", "parcorfull")  # of which seconds are read


def marked(name: str):
    """A corpus with the marks of its test."""
    marks = [pytest.mark.shared(*SHARED[name])] if name in SHARED else []
    return pytest.param(name, marks=[*marks, pytest.mark.long] if name in LARGE else marks)


@pytest.mark.parametrize(
    "name", [marked(n) for n in names("corpus") if n in SHARED or n.startswith("toy")]
)
def test_each_split_of_a_corpus_has_sentences(name):
    corpus = Job(configure(f"corpus={name}", *NEEDS.get(name, []))).corpus
    assert all(next(corpus.sentences(split), None) for split in SPLITS)


SHIPPED = ("tatoeba_de_en",)
FOREIGN = ("causal_lm", "fairseq", "huggingface", "marian", "m2m100", "nllb", "mbart", "t5")


@pytest.mark.parametrize("name", FOREIGN)
def test_systems_of_others_name_what_opens_them(name):
    config = configure(f"nmt={name}", "nmt.path=somewhere").nmt
    assert callable(hydra.utils.get_method(config.reader._target_))
    others = ("causal_lm", "huggingface", "fairseq")
    assert name in others or config.reader.family == config.name == name


@pytest.mark.parametrize("name", sorted({*names("nmt")} - {*FOREIGN, *SHIPPED}))
def test_systems(name, tmp_path):
    job = Job(configure(f"nmt={name}", f"store={tmp_path}", "corpus.train=300"))
    nmt = job.settings.nmt
    model = build_model(nmt.architecture, nmt.sizes, *job.system.subwords)
    assert isinstance(model, load("architectures", nmt.architecture))
    assert sum(p.numel() for p in model.parameters()) > 5e5
    assert nmt.training.max_epochs > 0


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_systems(name, tmp_path):
    pair = ["corpus=text", "corpus.root=/nowhere", "corpus.source_language=de"]
    job = Job(configure(f"nmt={name}", f"store={tmp_path}", *pair, "corpus.target_language=en"))
    assert len(job.system.subwords[0]) == 8000
    assert job.system.name == name


@pytest.mark.parametrize("name", names("explainer"))
def test_explainers(name):
    config = configure(f"explainer={name}")
    assert config.explainer.name == name
    explainer = instantiate(name, config.explainer.phi)
    assert isinstance(explainer, Explainer)
    assert type(load_explainer(name)) is type(explainer)


@pytest.mark.parametrize("nmt", names("nmt"))
@pytest.mark.parametrize("name", names("proxy"))
def test_proxies(name, nmt):
    config = resolve(configure(f"proxy={name}", f"nmt={nmt}").proxy)
    assert config["name"] == name
    proxy = create("proxies", name, Vocabulary(10, 12, 2), **config["sizes"])
    assert isinstance(proxy, Proxy)
    ProxyTrainingOptions(**config["training"])


@pytest.mark.parametrize("name", names("metric"))
def test_metrics(name):
    [(key, metric)] = configured_metrics(configure(f"metric=[{name}]")).items()
    assert key == metric.name == name
    assert isinstance(metric, Metric)
    assert type(metric) is load("metrics", name)
    assert metric.title
    assert metric.note
    columns = (*metric.identity, *(column.name for column in metric.columns))
    assert len(set(columns)) == len(columns)


def test_metrics_come_in_the_order_in_which_they_are_asked_for():
    order = names("metric")[::-1]
    assert list(configured_metrics(configure(f"metric=[{','.join(order)}]"))) == order
    assert configured_metrics(read_settings(configure("metric=[]"))) == {}
    assert list(configured_metrics(configure())) == ["fidelity", "quality"]


@pytest.mark.parametrize("name", names("analysis"))
def test_analyses(name):
    config = configure(f"analysis=[{name}]")
    assert list(config.analysis) == [name]
    analysis = instantiate(name, config.analysis[name])
    assert isinstance(analysis, Analysis)
    assert type(analysis) is load("analyses", name)
    assert analysis.name == name


def with_targets(node, path=()):
    """Each node that has a `_target_`, and its path."""
    if isinstance(node, dict):
        if "_target_" in node:
            yield path, node
        for key, value in node.items():
            yield from with_targets(value, (*path, key))


TARGETS = {"metric", "judge", "analysis", "explainer", "corpus", "sheet", "logger", "nmt"}


@pytest.mark.parametrize("group", sorted(TARGETS))
def test_a_file_names_no_option_that_equals_its_default(group):
    for path in (CONF / group).rglob("*.yaml"):
        for _, node in with_targets(OmegaConf.to_container(OmegaConf.load(path))):
            for name, default in options(target_of(node["_target_"])).items():
                # A truth value equals 0 or 1 in Python, and an option may take both.
                same = name in node and (type(node[name]), node[name]) == (type(default), default)
                assert not same, f"{path.name}: {name}"


@pytest.mark.parametrize("name", names("proxy"))
def test_the_sizes_of_a_proxy_name_no_default(name):
    sizes = OmegaConf.to_container(OmegaConf.load(CONF / "proxy" / f"{name}.yaml"))["sizes"]
    usual = options(load("proxies", name), KINDS["proxies"].hidden)
    assert [size for size, value in sizes.items() if usual[size] == value] == []
    assert resolve(configure(f"proxy={name}").proxy.sizes).keys() == usual.keys()


@pytest.mark.parametrize("group", sorted(TARGETS))
def test_a_composed_configuration_holds_every_option(group):
    """A file's as a plug-in's: recipes hold them, and they are changed without `+`."""
    hidden = GIVEN.get(group, ())
    for name in names(group):
        chosen = f"[{name}]" if group in ("metric", "judge", "analysis") else name
        section = resolve(configure(f"{group}={chosen}", *NEEDS.get(name, []))[group])
        assert list(with_targets(section)), name
        for path, node in with_targets(section):
            declared = options(target_of(node["_target_"]), hidden)
            assert declared.keys() <= node.keys(), (name, *path)


@pytest.mark.parametrize("kind", sorted(kind for kind in KINDS if KINDS[kind].group))
def test_everything_that_is_declared_has_a_configuration(kind):
    group = KINDS[kind].group
    if kind == "architectures":
        architectures = {configure(f"nmt={name}").nmt.get("architecture") for name in names("nmt")}
        assert ours(kind) == architectures - {None}
        assert ours(kind) <= set(names(group))
    else:
        assert ours(kind) == set(names(group))


@pytest.mark.parametrize("name", names("logger"))
def test_loggers(name):
    assert isinstance(hydra.utils.instantiate(configure(f"logger={name}").logger), Tracker)


@pytest.mark.parametrize("name", names("trainer"))
def test_trainers(name):
    """Each option of the file arrives where training reads it, also with another value."""
    defaults = resolve(OmegaConf.load(CONF / "trainer" / f"{name}.yaml"))
    changed = {"precision": "bf16-mixed", "validate_every": 7, "progress_bar": False}
    ranks = {"devices": 1, "nodes": 1}  # tests/test_engine.py
    assert defaults == defaults | ranks
    defaults = {key: value for key, value in defaults.items() if key not in ranks}
    assert defaults.keys() == changed.keys()
    assert all(defaults[key] != changed[key] for key in defaults)
    for values in (defaults, changed):
        changes = [f"trainer.{key}={'null' if x is None else x}" for key, x in values.items()]
        options = trainer_options(configure(f"trainer={name}", *changes, "device=cpu"))
        assert {key: getattr(options, key) for key in values} == values


def composed(*changes: str) -> DictConfig:
    """A configuration with Hydra's own part, which holds the choice of each group."""
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        return hydra.compose("config", list(changes), return_hydra_config=True)


def leaves(node, path=()):
    """The path and the value of each leaf of a file, without interpolations."""
    for key, value in node.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        elif "${" not in str(value):
            yield ".".join((*path, key)), value


@pytest.mark.parametrize("name", names("launcher"))
def test_launchers(name):
    file = OmegaConf.load(CONF / "launcher" / f"{name}.yaml")
    [chosen] = [d["override /hydra/launcher"] for d in file.defaults if "hydra" in str(d)]
    if chosen.startswith("submitit"):
        pytest.importorskip("submitit", reason="the extra `slurm` is not installed")
    assert composed(f"launcher={name}").hydra.runtime.choices["hydra/launcher"] == chosen


@pytest.mark.parametrize("name", names("experiment"))
def test_an_experiment_sets_what_its_file_says(name):
    file = OmegaConf.to_container(OmegaConf.load(CONF / "experiment" / f"{name}.yaml"))
    config = composed(f"experiment={name}")
    for override in file.pop("defaults", []):
        [(key, chosen)] = override.items()
        group = str(key).removeprefix("override /")
        if isinstance(chosen, list):
            given = ["corpus.data=DIR"] if name == "natural_twins" else []
            assert list(resolve(configure(f"experiment={name}", *given))[group]) == chosen
        else:
            assert config.hydra.runtime.choices[group] == chosen
    # The names of what is swept have dots of their own.
    for swept, values in (file.pop("hydra", {}).get("sweeper", {}).get("params", {})).items():
        assert config.hydra.sweeper.params[swept] == values
    for option, usual in file.pop("left_out", {}).items():
        assert config.left_out[option] == usual
    for path, value in leaves(file):
        assert OmegaConf.select(config, path) == value, path


def test_a_quick_option_of_a_metric_is_set_and_noted_where_the_metric_is_chosen():
    of_metrics = {
        tuple(option.split(".")[1:]): usual
        for option, usual in configure("experiment=quick").left_out.items()
        if option.startswith("metric.")
    }
    assert {metric for metric, _ in of_metrics} == {"erasure", "student"}
    for (metric, option), usual in of_metrics.items():
        assert options(load("metrics", metric))[option] == usual
        chosen = read_settings(configure("experiment=quick", f"metric=[{metric}]"))
        assert chosen.metric[metric][option] != usual
        name = f"metric.{metric}.{option}"
        assert sum(line.startswith(name) for line in chosen.omissions) == 1
        by_hand = configure("experiment=quick", f"metric=[{metric}]", f"{name}={usual}")
        assert not any(line.startswith(name) for line in read_settings(by_hand).omissions)
    other = read_settings(configure("experiment=quick"))
    assert [*other.metric] == ["fidelity"]
    assert not any(line.startswith("metric.") for line in other.omissions)


def test_an_option_of_a_metric_that_is_not_chosen_is_refused(tmp_path):
    done = command("train.py", "experiment=quick", "metric.erasure.limited=7", cwd=tmp_path)
    assert done.returncode == 2
    [line] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert line == (
        "error: metric.erasure.limited=7: erasure is not chosen; add it to metric=[...]"
    )


@pytest.mark.parametrize("name", names("experiment/li2020"))
def test_the_papers_experiments(name):
    """Each sweeps only choices that exist, and names metrics and analyses that exist."""
    config = composed(f"experiment=li2020/{name}")
    for key, values in config.hydra.sweeper.params.items():
        for value in str(values).split(","):
            swept = composed(f"{key}={value}")
            group = swept.hydra.runtime.choices.get(key)
            leaf = "null" if group is None and swept.get(key) is None else None
            leaf = leaf or str(OmegaConf.select(swept, key))
            assert value in (group, leaf), key
    assert configured_metrics(config)
    for analysis, node in (config.get("analysis") or {}).items():
        assert instantiate(analysis, node).name == analysis


def test_help_loads_nothing_heavy():
    """`--help` answers at once, because torch is imported only when a job runs."""
    import subprocess
    import sys

    script = (
        "import sys, runpy; sys.argv = ['train.py', '--help']\n"
        "heavy = {'torch', 'pytorch_lightning', 'captum', 'matplotlib'}\n"
        "try: runpy.run_path('train.py', run_name='__main__')\n"
        "finally: print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=Path(ROOT), capture_output=True, text=True
    )
    assert "HEAVY []" in done.stdout, done.stdout[-300:] + done.stderr[-300:]
