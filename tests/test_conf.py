"""Every configuration in the tree is composed and instantiated."""

from pathlib import Path

import hydra
import pytest
from conftest import DATA, ROOT, configure

from xnmt_bench.corpora.sentence import SPLITS
from xnmt_bench.explainers.base import Explainer
from xnmt_bench.explainers.registry import explainers, load_explainer
from xnmt_bench.report.analyses.run import ANALYSES
from xnmt_bench.report.tracking import Tracker
from xnmt_bench.stages.job import METRICS
from xnmt_bench.stages.systems import Systems, plain

CONF = ROOT / "conf"
NEEDS = {
    "multi30k": [f"corpus.root={DATA}/multi30k"],
    "fairseq_bin": [
        "corpus.root=/nowhere",
        "corpus.source_language=en",
        "corpus.target_language=de",
    ],
    "text": ["corpus.root=/nowhere", "corpus.source_language=de", "corpus.target_language=en"],
    "rwth_deen": [f"corpus.data={DATA}"],
    "parcorfull": [f"corpus.data={DATA}"],
    "tsv": [
        f"corpus.path={DATA}/deen/docs.tsv",
        "corpus.test=[newstest2019.deen]",
        "corpus.valid=[NC-2016.dev]",
    ],
}


def names(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def test_every_group_is_covered_here():
    groups = {path.name for path in CONF.iterdir() if path.is_dir()}
    assert groups == {
        "corpus",
        "nmt",
        "explainer",
        "proxy",
        "metric",
        "analysis",
        "trainer",
        "logger",
        "launcher",
        "experiment",
    }


@pytest.mark.parametrize("name", names("corpus"))
def test_corpora(name):
    corpus = Systems(configure(f"corpus={name}", *NEEDS.get(name, []))).corpus
    assert corpus.name == name
    if name == "toy" or (DATA.exists() and name not in ("text", "fairseq_bin")):
        assert all(next(corpus.sentences(s), None) for s in SPLITS)


FOREIGN = ("fairseq", "huggingface", "marian", "m2m100", "nllb", "mbart", "t5")


@pytest.mark.parametrize("name", FOREIGN)
def test_systems_of_others_name_what_opens_them(name):
    config = configure(f"nmt={name}", "nmt.path=somewhere").nmt
    assert callable(hydra.utils.get_method(config.reader._target_))
    assert name in ("huggingface", "fairseq") or config.reader.family == config.name == name


@pytest.mark.parametrize("name", sorted({*names("nmt")} - {*FOREIGN}))
def test_systems(name, tmp_path):
    from xnmt_bench.nmt.loading import build_model

    systems = Systems(configure(f"nmt={name}", f"store={tmp_path}", "corpus.train=300"))
    config = plain(systems.config.nmt)
    model = build_model(config["architecture"], config["sizes"], *systems.subwords)
    assert sum(p.numel() for p in model.parameters()) > 1e6


@pytest.mark.parametrize("name", names("explainer"))
def test_explainers(name):
    config = configure(f"explainer={name}")
    assert config.explainer.name == name
    assert isinstance(hydra.utils.instantiate(config.explainer.phi), Explainer)
    assert type(load_explainer(name)) is type(hydra.utils.instantiate(config.explainer.phi))


def test_every_declared_explainer_has_a_configuration():
    ours = {n for n, point in explainers().items() if point.value.startswith("xnmt_bench.")}
    assert ours == set(names("explainer"))


@pytest.mark.parametrize("nmt", names("nmt"))
@pytest.mark.parametrize("name", names("proxy"))
def test_proxies(name, nmt):
    from proxies import PROXIES
    from proxies.base import Vocabulary
    from proxies.training import TrainingOptions

    config = plain(configure(f"proxy={name}", f"nmt={nmt}").proxy)
    PROXIES[name](Vocabulary(10, 12, 2), **config["sizes"])
    TrainingOptions(**config["training"])


@pytest.mark.parametrize("name", names("logger"))
def test_loggers(name):
    assert isinstance(hydra.utils.instantiate(configure(f"logger={name}").logger), Tracker)


@pytest.mark.parametrize("group", ["metric", "analysis", "trainer", "launcher", "experiment"])
def test_the_other_groups_compose(group):
    for name in names(group):
        assert plain(configure(f"{group}={name}"))


@pytest.mark.parametrize("name", names("experiment/li2020"))
def test_the_papers_experiments(name):
    """Each sweeps only what there is, and asks for analyses that there are."""
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        changes = [f"experiment=li2020/{name}"]
        config = hydra.compose("config", changes, return_hydra_config=True)
    for key, values in config.hydra.sweeper.params.items():
        for value in str(values).split(","):
            assert plain(configure(f"{key}={value}"))
    assert set(config.get("analysis") or ()) <= set(ANALYSES)
    assert set(config.metric) <= set(METRICS)


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
