"""Files of a model on Hugging Face's hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xnmt_bench.errors import XnmtError, refusal
from xnmt_bench.nmt.loading import shipped_names

GGUF = ".gguf"  # a language model's weights, sizes and tokenizer in one file
# Endings of files. A name on the hub may have a dot too, as `nllb-200-distilled-1.3B` has.
FILES = (".bin", ".gz", ".h5", ".json", ".npz", ".onnx", ".safetensors", ".tar", ".yaml", ".zip")


def refuse_missing_path(path: str) -> None:
    """Raise an XnmtError for a path where nothing is and that is no name on the hub."""
    place = Path(path)
    # A name on the hub has one slash at most.
    is_path = place.is_absolute() or path.startswith((".", "~")) or path.count("/") > 1
    if not place.exists() and (is_path or place.suffix in (*FILES, GGUF)):
        raise XnmtError(f"{path}: no such folder or file")


def download(path: str, patterns: Sequence[str]) -> Path:
    """Return the folder with a model's files; those that are there already are not fetched.

    Args:
        path: the model's name on the hub.
        patterns: of the names of the files.

    Raises:
        XnmtError: the hub has no such model, or cannot be reached.
    """
    refuse_missing_path(path)
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils import disable_progress_bars
    except ImportError as error:
        raise XnmtError(f"{error}: install xnmt_bench[huggingface]") from None
    disable_progress_bars()
    try:
        # Of a single file the hub's client would retry for half a minute where there is no network.
        return Path(snapshot_download(path, allow_patterns=list(patterns)))
    except Exception as error:  # the hub's client raises many kinds of errors
        names = ", ".join(shipped_names())
        missing = f"neither a folder, a shipped system ({names}) nor a model on the hub"
        raise XnmtError(f"{path}: {missing}: {refusal(error)}") from None
