"""How `conf/` is composed: a file says what differs, signatures say every other option."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf

from xnmt_bench.help import CONF
from xnmt_bench.registry import GIVEN, load, options, target_of

SCHEME = "signatures"


def with_options(values: Mapping[str, Any], group: str) -> dict[str, Any]:
    """Return what a file of `conf/` says, and each option that it leaves at its default.

    Args:
        values: of the file. Each `_target_` in it gets the options of its signature, `sizes` of a
            proxy those of the proxy's class. A class that cannot be imported gets none;
            `schema.check` names the fault.
        group: of the file, such as `metric`.
    """
    hidden = GIVEN.get(group, ())
    complete: dict[str, Any] = {
        n: with_options(v, group) if isinstance(v, dict) else v for n, v in values.items()
    }
    if "_target_" in complete:
        try:
            declared = options(target_of(complete["_target_"]), hidden)
        except Exception:  # an import can raise anything
            declared = {}
        complete = {"_target_": complete["_target_"]} | declared | complete
    if group == "proxy" and "name" in complete:
        complete["sizes"] = options(load("proxies", complete["name"]), hidden) | complete["sizes"]
    return complete


def load_choice(group: str, name: str) -> DictConfig:
    """Return a file of `conf/` with those that it stands on, as Hydra composes them."""
    values: Any = OmegaConf.to_container(OmegaConf.load(CONF / group / f"{name}.yaml"))
    node = with_options(values, group)
    parts = [
        OmegaConf.create(node) if part == "_self_" else load_choice(group, part)
        for part in node.pop("defaults", ["_self_"])
    ]
    merged: Any = OmegaConf.merge(*parts)
    return merged  # type: ignore[no-any-return]


class SignatureSource(FileConfigSource):
    """The folder `conf/` for Hydra, each of its files with the options of its signatures."""

    @staticmethod
    def scheme() -> str:
        """Return what stands before `://` in the folder's place."""
        return SCHEME

    def load_config(self, config_path: str) -> ConfigResult:
        """Read a file."""
        result = super().load_config(config_path)
        values: Any = OmegaConf.to_container(result.config, resolve=False)
        result.config = OmegaConf.create(with_options(values, config_path.partition("/")[0]))
        return result


class SignatureSearchPath(SearchPathPlugin):
    """Lets Hydra read `conf/` as a `SignatureSource`, and other folders as files only."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Change the place of `conf/`."""
        for element in search_path.get_path():
            # It may be named by the link to it that an installed package has.
            if element.path and Path(element.path).resolve() == CONF.resolve():
                element.path = f"{SCHEME}://{element.path}"


def read_signatures() -> None:
    """Let Hydra compose `conf/` with the options of signatures, from now on in this process."""
    Plugins.instance().register(SignatureSource)
    Plugins.instance().register(SignatureSearchPath)
