"""Does once, in the server of `forked`, what each run of a command would do again."""

from hydra._internal.hydra import Hydra
from hydra.core.plugins import Plugins

from xnmt_bench.code_hash import code_hash
from xnmt_bench.metrics.confidence import language
from xnmt_bench.registry import load_all

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
# The languages of the toy corpora. Their model is unpacked for each set of languages.
if language.available():
    language.code("en")
    language.language("a text of four words", ("en", "de"))
