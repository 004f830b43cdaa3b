"""Keeps what tests make a thousand times: composed configurations, sentences of the toy corpus."""

import gc
import os
import pickle
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from hydra._internal import defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository, IConfigRepository
from hydra.core.config_store import ConfigStore
from hydra.core.default_element import InputDefault, ResultDefault
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig

from support.paths import ROOT
from xnmt_bench.composition import SCHEME, read_signatures
from xnmt_bench.corpora.sentence import Sentence, Split
from xnmt_bench.corpora.toy import ToyCorpus

# A composition makes objects by ten thousands, and few of them are cycles to be looked for.
gc.set_threshold(200_000, 50, 100)
# The loader in C reads the same files faster.
yaml.SafeLoader = yaml.CSafeLoader
read_config = ConfigRepository.load_config
# As the commands do.
read_signatures()
# By file and the time of its last change. Hydra changes what it is given, so that each composition
# gets a copy, which pickle makes faster than `deepcopy`.
copies: dict[tuple, bytes] = {}
# The folder of a test session where its processes keep what each of them would compose again.
KEPT = "XNMT_BENCH_TESTS_COMPOSED"
kept: dict[str, bytes] = {}
# Packages whose configurations stay as they are; those of a test's plug-in may not.
LASTING = (f"{SCHEME}://", "file://", "pkg://hydra.conf", "pkg://xnmt_bench.conf", "structured://")
OWN = ROOT / "conf"


def load_config(self: ConfigRepository, config_path: str) -> ConfigResult | None:
    """Read a configuration file, or copy what an earlier composition read of it."""
    source = self._find_object_source(config_path, ObjectType.CONFIG)
    if source is None:
        return None
    file = Path(source.path, source._normalize_file_name(config_path))
    # A file of an installed package never changes, and its `pkg://` path is not on disk.
    changed = file.stat().st_mtime_ns if file.exists() else None
    key = (source.provider, file, changed)
    if key not in copies:
        copies[key] = pickle.dumps(read_config(self, config_path))
    return pickle.loads(copies[key])


def composed_once(repo: IConfigRepository, arguments: object, compose: Callable[[], Any]) -> Any:
    """Compose something, or copy what a process of this test session composed of the same files."""
    sources = [source.full_path() for source in repo.get_sources()]
    if KEPT not in os.environ or not all(source.startswith(LASTING) for source in sources):
        return compose()
    places = (source.partition("://") for source in sources)
    folders = (Path(path) for scheme, _, path in places if scheme in (SCHEME, "file"))
    files = [_own_files() if folder == OWN else _files(folder) for folder in folders]
    # Plug-ins are choices of their groups, each process those of its own path.
    groups = {name: nodes for name, nodes in ConfigStore.instance().repo.items() if name != "hydra"}
    key = sha256(repr((sources, files, groups, arguments)).encode()).hexdigest()
    file = Path(os.environ[KEPT], key)
    if key not in kept and file.exists():
        kept[key] = file.read_bytes()
    if key in kept:
        return pickle.loads(kept[key])
    result = compose()
    kept[key] = pickle.dumps(result)
    temporary = file.with_suffix(f".{os.getpid()}")
    temporary.write_bytes(kept[key])
    temporary.rename(file)
    return result


@cache
def _own_files() -> list[tuple[str, int]]:
    """Return this project's configuration files, which no test changes."""
    return _files(OWN)


def _files(folder: Path) -> list[tuple[str, int]]:
    """Return the files below a folder, and when each last changed."""
    paths = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
    return sorted((str(path), path.stat().st_mtime_ns) for path in paths)


list_defaults = defaults_list._create_defaults_list
merge_defaults = ConfigLoaderImpl._compose_config_from_defaults_list


def create_defaults_list(repo, config_name, overrides, prepend_hydra, skip_missing):
    """List the files of a configuration; Hydra notes in `overrides` which of them it used."""

    def state() -> dict[str, Any]:
        return {name: v for name, v in vars(overrides).items() if name != "config_overrides"}

    def listed() -> tuple:
        defaults, tree = list_defaults(repo, config_name, overrides, prepend_hydra, skip_missing)
        return defaults, tree, state()

    arguments = ("list", config_name, state(), prepend_hydra, skip_missing)
    defaults, tree, after = composed_once(repo, arguments, listed)
    vars(overrides).update(after)
    return defaults, tree


@dataclass
class Merged(ResultDefault):
    """Stands for the first files of a configuration."""

    config: DictConfig | None = None


def compose_config(self, defaults, repo):
    """Merge the files of a configuration, before values are changed."""
    return composed_once(repo, ("merge", defaults), lambda: merge_onto_first(self, defaults, repo))


def merge_onto_first(
    self: ConfigLoaderImpl, defaults: list[ResultDefault], repo: IConfigRepository
) -> DictConfig:
    """Merge files onto a copy of what the first of them give, the same for many configurations.

    Hydra's own files come first, then the one that names the groups, a corpus and a system.
    """
    groups = [(default.config_path or "").partition("/")[0] for default in defaults]
    for last in ("nmt", "config"):
        count = len(groups) - groups[::-1].index(last) if last in groups else 0
        if 0 < count < len(defaults):
            config = compose_config(self, defaults[:count], repo)
            return merge_defaults(self, [Merged(config=config), *defaults[count:]], repo)
    return merge_defaults(self, defaults, repo)


def load_merged(self: ConfigLoaderImpl, default: ResultDefault, repo: IConfigRepository) -> Any:
    """Load a file of a configuration, or what the first files gave."""
    if isinstance(default, Merged):
        return SimpleNamespace(config=default.config)
    return load_single(self, default, repo)


def map_choices_later(
    overrides: defaults_list.Overrides, defaults: list[InputDefault], self_added: bool
) -> Callable[[], DictConfig]:
    """Return what makes Hydra's map of choices, which few entries of a list of defaults need."""
    choices, listed = SimpleNamespace(known_choices={**overrides.known_choices}), copy(defaults)
    return lambda: map_choices(choices, listed, self_added)


def resolve_with_map(self: InputDefault, make_map: Callable[[], DictConfig], value: str) -> str:
    """Resolve an entry whose name holds `${...}`."""
    return resolve(self, make_map(), value)


parse_rule = OverridesParser.parse_rule
parsed: dict[str, Override] = {}


def parse_once(self: OverridesParser, text: str, rule: str) -> Any:
    """Parse an override, or copy what an earlier composition parsed."""
    if rule != "override":
        return parse_rule(self, text, rule)
    if text not in parsed:
        parsed[text] = parse_rule(self, text, rule)
    return copy(parsed[text])


generate = ToyCorpus.sentences
# By the corpus and the split: what was read of it so far, and the rest.
generated: dict[tuple, tuple[list[Sentence], Iterator[Sentence]]] = {}


def sentences(self: ToyCorpus, split: Split) -> Iterator[Sentence]:
    """Stream the split; sentences that this process has made are not made again."""
    key = (type(self), repr(self.recipe()), split)
    sentences_made, remaining = generated.setdefault(key, ([], generate(self, split)))
    for place in count():
        if place == len(sentences_made):
            sentence = next(remaining, None)
            if sentence is None:
                return
            sentences_made.append(sentence)
        yield sentences_made[place]


ToyCorpus.sentences = sentences
OverridesParser.parse_rule = parse_once
# Each composition copies a repository to give it other sources, and changes none of the old ones.
ConfigRepository.__deepcopy__ = lambda self, memo: copy(self)
load_single = ConfigLoaderImpl._load_single_config
map_choices, resolve = (
    defaults_list._create_interpolation_map,
    InputDefault._resolve_interpolation_impl,
)
ConfigLoaderImpl._load_single_config = load_merged
defaults_list._create_interpolation_map = map_choices_later
InputDefault._resolve_interpolation_impl = resolve_with_map
ConfigRepository.load_config = load_config
defaults_list._create_defaults_list = create_defaults_list
ConfigLoaderImpl._compose_config_from_defaults_list = compose_config
