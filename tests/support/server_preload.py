"""Does once, in the server of `forked_commands`, what each run of a command would do again."""

import gc
from collections import deque
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.hydra import Hydra
from hydra.core.plugins import Plugins
from omegaconf import OmegaConf, open_dict

from support import caches  # noqa: F401
from support.paths import ROOT
from xnmt_bench.code_hash import code_hash
from xnmt_bench.corpora.toy import ToyCorpus
from xnmt_bench.metrics.confidence import language
from xnmt_bench.morphology.german_nouns import PACKAGE, read_dictionary
from xnmt_bench.registry import load_all
from xnmt_bench.report import figure
from xnmt_bench.schema import check

for kind in ("metrics", "analyses", "proxies", "architectures", "dumps", "sheets", "morphologies"):
    load_all(kind)
# The syntax trees of what they import are kept.
for cls in [*load_all("explainers").values(), *load_all("judges").values()]:
    code_hash(cls)
# Hydra looks through its plug-ins when they are first asked for.
Plugins.instance()
# Hydra composes each configuration a first time to read `hydra.mode`, which none of ours sets
# (tests/test_conf.py). None is what it finds there.
Hydra.get_mode = lambda *_, **__: None
# A sweep composes each job's configuration twice: to check it, and to run it. The second time takes
# what the first has made.
compose_job = ConfigLoaderImpl.load_sweep_config
checked_jobs = {}


def load_sweep_config(self, master_config, sweep_overrides):
    """Compose a job's configuration, or take the one that was composed to check it."""
    key = tuple(sweep_overrides)
    if key in checked_jobs:
        return checked_jobs.pop(key)
    checked_jobs[key] = compose_job(self, master_config, sweep_overrides)
    return checked_jobs[key]


ConfigLoaderImpl.load_sweep_config = load_sweep_config
# The languages of the toy corpora. Their model is unpacked for each set of languages.
if language.available():
    language.code("en")
    language.language("a text of four words", ("en", "de"))
# The small systems' corpus (`configurations.SMALL`).
corpus = ToyCorpus(train=3000, valid=60, test=100)
for split in ("train", "valid", "test"):
    deque(corpus.sentences(split), maxlen=0)
# The genders of German nouns.
if find_spec(PACKAGE.replace("-", "_")):
    read_dictionary()
# Pixels of a picture cost time, and a test of a command looks at its file alone.
figure.LONGEST_SIDE = 1000
# Parsers keep what they have met, and so do fonts and the readers of options.
with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
    overrides = ["nmt=transformer", "metric=[fidelity,aer]", "store=a/b.c"]
    config = compose("config", overrides, return_hydra_config=True)
    OmegaConf.to_yaml(config)
    with open_dict(config):
        del config["hydra"]
    check(config, complete=False)
with TemporaryDirectory() as folder:
    drawn, axes = plt.subplots()
    axes.errorbar([1, 30], ["gradient_norm", "x"], xerr=[1, 2], label="Base, SA (k = 1) 95 %")
    figure.log_scale(axes, "x")
    figure.lay_out(drawn, [axes])
    figure.save_figure(drawn, Path(folder, "drawn"))
# A collection in a fork would copy the server's memory to look through what never changes.
gc.collect()
gc.freeze()
