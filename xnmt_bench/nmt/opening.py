"""Opening a translation model by one name: a shipped system, a folder, a file, or a hub's name."""

from __future__ import annotations

import json
import re
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from xnmt_bench.device import Device, find_device, move
from xnmt_bench.errors import StoreError, XnmtError
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.nmt.hub import GGUF, download, refuse_missing_path
from xnmt_bench.nmt.loading import load_model, shipped, shipped_names
from xnmt_bench.registry import ALIASES, entries

# `model_type` of a config.json, and the choice of `nmt=` that opens such a model.
FAMILIES = {"marian": "marian", "m2m_100": "m2m100", "mbart": "mbart", "t5": "t5"}
# Ends of the classes in a config.json's `architectures`, of models that write on from a text.
LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel")
CHECKPOINTS = (".pt",)  # endings of fairseq's files
MANY_LANGUAGES = ("m2m100", "nllb", "mbart")
DESCRIPTIONS = {
    "native": "a system of this project",
    "fairseq": "a fairseq checkpoint",
    "marian": "a Marian model",
    "m2m100": "an M2M100 model",
    "nllb": "an NLLB model",
    "mbart": "an mBART model",
    "t5": "a T5 model",
    "causal_lm": "a language model with a prompt",
}


def load(path: str | Path, device: Device = "auto", **options: Any) -> NMTModel:
    """Open a translation model, ready to be explained; a line on stderr says what was found.

    Args:
        path: the name of a shipped system (`tatoeba_de_en`), a folder that `train.py` or
            `save_pretrained` wrote, a fairseq checkpoint, a language model's GGUF file, or a
            model's name on Hugging Face's hub.
        device: where it runs, as in the configuration.
        options: of the reader: `source_language` and `target_language` of a model that reads many
            languages, `prefix` of T5, `template`, `examples`, `columns` and `chat` of a language
            model, `data` and codes of fairseq.

    Raises:
        ConfigError: this machine has no such device.
        XnmtError: no model is there, it is of no family that can be read, or an option is missing.
    """
    if not isinstance(path, str | Path):
        problem = "is an open model already" if isinstance(path, NMTModel) else "is no path or name"
        raise XnmtError(f"load: {path!r:.60} {problem}")
    if not isinstance(device, str) or device in entries("explainers") or device in ALIASES:
        advice = f"load_explainer({device!r}) gives an explainer"
        raise XnmtError(f"load: {device!r} stands in the place of a device; {advice}")
    family = find_family(str(path))
    try:
        model = _open(str(path), family, options)
    except TypeError as error:
        # Python names an argument that a reader lacks. Any other TypeError has another cause.
        slip = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if slip and slip[1] in options:
            raise XnmtError(f"{path}: a {family} model has no option {slip[1]!r}") from None
        raise
    languages = model.languages or (options.get("source_language"), options.get("target_language"))
    pair = f", {languages[0]} to {languages[1]}" if all(languages) else ""
    print(f"{path}: {DESCRIPTIONS[family]}{pair}", file=sys.stderr)
    return move(model, find_device(device))


def find_family(path: str) -> str:
    """Return how a model is opened: `native`, `fairseq`, or a family of Hugging Face's.

    Raises:
        XnmtError: the folder holds no model that can be read.
    """
    folder = shipped(path)
    if (folder / "model.json").is_file():
        return "native"
    if folder.suffix in CHECKPOINTS:
        return "fairseq"
    if folder.suffix == GGUF and folder.is_file():
        return "causal_lm"
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise StoreError(
            f"{path}: no NMT model is here: the folder has neither model.json nor config.json"
        )
    if folder.is_file():
        raise XnmtError(
            f"{path}: not a kind of file that can be read; "
            "give a folder that save_pretrained wrote, or a fairseq checkpoint (.pt)"
        )
    refuse_missing_path(path)
    if not folder.is_dir() and (near := get_close_matches(path, shipped_names(), n=1)):
        raise XnmtError(f"{path}: no such system; did you mean {near[0]}?")
    return _hugging_face_family(path, folder)


def _hugging_face_family(path: str, folder: Path) -> str:
    """Return the family of a model of Hugging Face's, in a folder or on the hub."""
    if not folder.is_dir():
        folder = download(path, ("config.json", "tokenizer_config.json"))
    # An older model has no tokenizer_config.json.
    tokenizer = _read_json(folder / "tokenizer_config.json").get("tokenizer_class")
    config = _read_json(folder / "config.json")
    model_type = config.get("model_type")
    if model_type == "m2m_100" and "nllb" in str(tokenizer).lower():
        return "nllb"  # it differs from M2M100 only by its tokenizer
    if model_type not in FAMILIES:
        of_text_alone = str(*(config.get("architectures") or [""])[:1]).endswith(LANGUAGE_MODELS)
        if of_text_alone or "text_config" in config:  # or of text and images, such as Gemma 3
            return "causal_lm"
        families = ", ".join([*sorted({*FAMILIES.values(), "nllb"}), "language models"])
        kind = f"a model of type {model_type}" if model_type else "config.json has no model_type"
        raise XnmtError(f"{path}: {kind}; types that can be read: {families}")
    return FAMILIES[model_type]


def _read_json(file: Path) -> dict[str, Any]:
    """Return what a JSON file holds; nothing where it is missing."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise XnmtError(f"{file}: not readable: {error}") from None
    if not isinstance(content, dict):
        raise XnmtError(f"{file}: does not describe a model")
    return content


def _open(path: str, family: str, options: dict[str, Any]) -> NMTModel:
    """Open a model of a family, which `find_family` found."""
    if family == "native":
        if options:
            raise XnmtError(
                f"{path}: this is a system of xnmt_bench, which has no option {min(options)}"
            )
        return load_model(path)
    if family == "fairseq":
        from xnmt_bench.nmt.fairseq.opening import open_fairseq

        return open_fairseq(path, **options)
    try:
        from xnmt_bench.nmt.causal_lm import open_causal_lm
        from xnmt_bench.nmt.huggingface import open_huggingface
    except ImportError as error:
        raise XnmtError(f"{error}: install xnmt_bench[huggingface]") from None
    if family == "causal_lm":
        return open_causal_lm(path, **options)
    languages = [options.get(f"{side}_language") for side in ("source", "target")]
    if family in MANY_LANGUAGES and not all(languages):
        raise XnmtError(
            f"{path}: a {family} model reads many languages: give source_language and "
            "target_language in its own codes"
        )
    return open_huggingface(path, family, **options)
