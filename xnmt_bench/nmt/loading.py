"""Saving a translation model as a folder, and opening it without running any code it brings."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_model as load_weights
from safetensors.torch import save_model as save_weights

from xnmt_bench.code_hash import code_of_plug_in
from xnmt_bench.corpora.passage import Context
from xnmt_bench.corpora.sentence import SIDES
from xnmt_bench.corpora.vocabulary.subwords import (
    StoredSubwords,
    Subwords,
    open_vocabulary,
    vocabulary_file,
)
from xnmt_bench.device import Device, find_device, move
from xnmt_bench.errors import StoreError, XnmtError
from xnmt_bench.nmt.base import NMTModel
from xnmt_bench.registry import create
from xnmt_bench.store import META, MODEL_FILES, Artefact, file_hash, fingerprint, write_atomically

SHIPPED = Path(__file__).parent.parent / "systems"  # systems that come with the package
MEANING = ("heads", "pre_norm", "tied", "position_shift")  # sizes that no weight's shape tells


def build_model(
    architecture: str, sizes: dict[str, Any], source: Subwords, target: Subwords
) -> NMTModel:
    """Return a model with fresh weights; an XnmtError for an unknown architecture or size."""
    model: NMTModel = create("architectures", architecture, source, target, **sizes)
    return model


def save_model(
    model: NMTModel,
    architecture: str,
    sizes: dict[str, Any],
    folder: Path,
    context: Context,
    languages: tuple[str, str],
) -> None:
    """Write weights, sizes, vocabularies, languages and the context of training into a folder."""
    for side in SIDES:
        subwords: StoredSubwords = getattr(model, f"{side}_subwords")
        shutil.copyfile(subwords.path, vocabulary_file(folder, side))  # the folder stands alone
    vocabularies = {side: file_hash(vocabulary_file(folder, side)) for side in SIDES}
    description: dict[str, Any] = {
        "architecture": architecture,
        "sizes": sizes,
        "vocabularies": vocabularies,
        "context": asdict(context),
        "languages": dict(zip(SIDES, languages, strict=True)),
    }
    source: StoredSubwords = model.source_subwords  # type: ignore[assignment]
    if source.clusters:
        description["marked_clusters"] = source.clusters
    # Names and hashes of files, never code: a folder that comes from elsewhere is safe to open.
    write_atomically(folder / "model.json", json.dumps(description, indent=1))
    save_weights(model, str(folder / "model.safetensors"))


def load_model(path: str | Path, device: Device = "cpu") -> NMTModel:
    """Open a trained system, ready to be explained.

    Args:
        path: the folder that `train.py` named, such as `outputs/store/nmt/0123456789abcdef`, or
            the name of a shipped system.
        device: where it runs, as in the configuration.

    Raises:
        ConfigError: this machine has no such device.
        StoreError: files are missing, truncated or altered, or a vocabulary is not the model's.
    """
    folder = shipped(path)
    if (folder / META).exists():  # a copy that was carried off may have lost it
        Artefact.open(folder)
    named = folder / "model.json"
    try:
        description = json.loads(named.read_text(encoding="utf-8"))
        architecture, sizes = description["architecture"], description["sizes"]
        hashes = [description["vocabularies"][side] for side in SIDES]
        trained_context = Context(**description["context"])
        languages = description["languages"]
        pair = languages["source"], languages["target"]
        clusters = description.get("marked_clusters", 0)
        if not isinstance(clusters, int):
            raise TypeError(f"marked_clusters is {clusters!r}, not a number")
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{named}: no NMT model is here{_other_family(folder)}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{named}: not a description of an NMT model: {error!r}") from None
    vocabularies = [vocabulary_file(folder, side) for side in SIDES]
    for expected, file in zip(hashes, vocabularies, strict=True):
        if not file.is_file():
            raise StoreError(f"{file}: no such file; the model's folder lacks a vocabulary")
        if file_hash(file) != expected:
            raise StoreError(f"{file}: this vocabulary does not belong to the model")
    source, target = open_vocabulary(vocabularies[0], clusters), open_vocabulary(vocabularies[1])
    model = build_model(architecture, sizes, source, target)
    weights = folder / "model.safetensors"
    try:
        load_weights(model, str(weights))
    except (SafetensorError, RuntimeError, FileNotFoundError) as error:
        raise StoreError(f"{weights}: not this model's weights: {error}") from None
    # A training that diverged would give relevance without a number much later, and far from its
    # cause.
    if not all(weight.isfinite().all() for weight in model.parameters()):
        raise StoreError(f"{weights}: a weight is NaN or infinite")
    model.fingerprint, model.trained_context = system_id(folder), trained_context
    if code := code_of_plug_in(type(model)):
        model.fingerprint = fingerprint({"system": model.fingerprint, "code": code})
    model.languages = pair
    # Explained weights never learn; gradients are taken only of embeddings.
    return move(model.eval().requires_grad_(False), find_device(device))


def shipped(path: str | Path) -> Path:
    """Return the folder of a shipped system by its name; any other path unchanged."""
    name = str(path)
    is_name = name in shipped_names() and not Path(name).exists()
    return SHIPPED / name if is_name else Path(path)


def shipped_names() -> list[str]:
    """Return the names of the systems that come with the package."""
    return sorted(file.parent.name for file in SHIPPED.glob("*/model.json"))


def _other_family(folder: Path) -> str:
    """Return a hint where a folder or file holds a model of another toolkit."""
    if folder.suffix == ".pt":
        return "; open a fairseq checkpoint with nmt=fairseq"
    try:
        described = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        family = described["model_type"].replace("m2m_100", "m2m100 (or nllb)")
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return ""
    return f"; config.json describes a Hugging Face model: choose nmt={family}"


def system_id(folder: Path) -> str:
    """Return the fingerprint of a trained system: weights, sizes and vocabularies.

    Args:
        folder: that of the system.

    Raises:
        StoreError: there is none.
    """
    # The description holds the hashes of the vocabularies, and sizes that change no weight's shape.
    files = [folder / name for name in MODEL_FILES]
    if not all(file.exists() for file in files):
        raise StoreError(f"{folder}: no NMT model is here")
    return fingerprint({file.name: file_hash(file) for file in files})


def start_from(model: NMTModel, sizes: dict[str, Any], path: str | Path) -> NMTModel:
    """Give a model the weights of a trained system, and return that system.

    Args:
        model: with fresh weights.
        sizes: that it was built with.
        path: the trained system's folder, or a shipped one's name.

    Raises:
        XnmtError: its weights do not fit.
    """
    trained = load_model(path)  # its own errors name the folder
    description = (shipped(path) / "model.json").read_text(encoding="utf-8")
    trained_sizes = json.loads(description)["sizes"]
    try:
        model.start_from(trained)
        # What changes no shape may change what the weights mean.
        for name in MEANING:
            # Architectures that shift no positions have no such size.
            absent = 0 if name == "position_shift" else None
            here, there = sizes.get(name, absent), trained_sizes.get(name, absent)
            # A concatenation may learn to shift positions that its start did not shift; a base
            # learns nothing.
            if here != there and (model.starts_trained or name != "position_shift"):
                raise ValueError(f"size {name} is {there}, expected {here}")
    except ValueError as error:
        raise XnmtError(f"nmt.initial={path}: {error}") from None
    return trained
