"""What inseq 0.6 and 0.7 return and save, read and written without inseq.

In the JSON of a file objects are `{"__instance_type__": [module, class], "attributes": {...}}`;
their classes are never imported, and nothing is unpickled. A tensor is a base64 text of a
safetensors file with the one tensor `attribution` (0.7), or `{"__ndarray__": ..., "dtype": ...,
"shape": [...]}` (0.6), whose numbers are lists or a base64 text, packed or not. In memory, objects
have attributes, and tensors are torch's.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save

from xnmt_bench.corpora.text import json_at, present
from xnmt_bench.dumps.base import number_array
from xnmt_bench.errors import DataError, XnmtError
from xnmt_bench.parsing import parse_json
from xnmt_bench.store import write_atomically

GZIP = b"\x1f\x8b"
LARGEST = 2**31  # bytes of a file or a tensor, unpacked
WIDTH = 8  # bytes of the widest number
TENSOR = "attribution"  # the name of a safetensors file's one tensor
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "F8_E4M3": torch.float8_e4m3fn,
}
ARRAYS = ("float16", "float32", "float64")
PACKED, PLAIN = "b64.gz:", "b64:"
MODULE = "inseq.data.attribution"
NEEDED = "inseq's FeatureAttributionOutput, or a list of its sequence_attributions"
FIELDS = ("source", "target", "source_attributions")  # of a sentence in memory


@dataclass(frozen=True)
class InseqOutput:
    """Explained sentences, their tensors still as they were found.

    Attributes:
        info: facts of the run, such as `attribution_method`.
        sequences: the class and the fields of each sentence.
    """

    info: dict[str, Any]
    sequences: list[tuple[str, dict[str, Any]]]


def read_file(path: Path) -> InseqOutput:
    """Read a file, packed or not.

    Raises:
        DataError: it is missing, damaged, too large, or not what inseq saves.
    """
    data = present(path).read_bytes()
    # By its first bytes, since the name of a packed file may end in .json.
    if data.startswith(GZIP):
        try:
            data = _unpacked(data, LARGEST)
        except ValueError as error:
            raise DataError(path, None, str(error)) from None
        if len(data) > LARGEST:
            raise DataError(path, None, f"more than {LARGEST:,} bytes when unpacked")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(path, None, "not UTF-8; expected the JSON that inseq saves") from None
    _, fields = _instance(json_at(path, 1, text))
    sequences, info = fields.get("sequence_attributions"), fields.get("info", {})
    if not isinstance(sequences, list) or not isinstance(info, dict):
        problem = "no 'sequence_attributions'; expected a file that inseq's out.save() wrote"
        raise DataError(path, None, problem)
    return InseqOutput(info, [_instance(sequence) for sequence in sequences])


def read_output(output: Any) -> InseqOutput:
    """Read what inseq's `attribute` returned, by its attributes.

    Args:
        output: a `FeatureAttributionOutput`; or one of its `sequence_attributions`, or a list of
            them, which lack the facts of the run.

    Raises:
        XnmtError: it is something else.
    """
    sequences = getattr(output, "sequence_attributions", output)
    if not isinstance(sequences, list | tuple):
        sequences = [sequences]
    for sequence in sequences:
        if hasattr(sequence, "sequence_attributions"):
            raise XnmtError(f"a list of outputs is not {NEEDED} (out1 + out2 joins two)")
        if not all(hasattr(sequence, field) for field in FIELDS):
            hint = " (load_explanations reads a file)" if isinstance(output, str | Path) else ""
            raise XnmtError(f"{type(sequence).__name__} is not {NEEDED}{hint}")
    return InseqOutput(getattr(output, "info", {}), [_instance(s) for s in sequences])


def _instance(value: Any) -> tuple[str, dict[str, Any]]:
    """Return an object's class and fields; other values have no fields."""
    if not isinstance(value, dict):  # in memory, or a number or text of a file
        return type(value).__name__, getattr(value, "__dict__", {})
    named, fields = value.get("__instance_type__"), value.get("attributes", value)
    # Saved with `use_primitives`, an object is only its fields.
    name = named[-1] if isinstance(named, list) and named else ""
    return str(name), fields if isinstance(fields, dict) else {}


def read_tokens(value: Any) -> list[str]:
    """Return a side's tokens.

    Raises:
        ValueError: it is not a list of tokens.
    """
    if not isinstance(value, list):
        raise ValueError("expected a list of tokens")
    tokens = [_instance(token)[1].get("token") for token in value]
    for place, token in enumerate(tokens, start=1):
        if not isinstance(token, str):
            raise ValueError(f"token {place} has no text")
    return tokens  # type: ignore[return-value]


def read_tensor(value: Any) -> np.ndarray:
    """Return a tensor's numbers in float64.

    Raises:
        ValueError: it is not a tensor, or of another size than it says.
    """
    if isinstance(value, torch.Tensor | np.ndarray):  # in memory
        return torch.as_tensor(value).detach().cpu().double().numpy()
    if isinstance(value, str):
        return _from_safetensors(_decoded(value))
    if isinstance(value, dict) and "__ndarray__" in value:
        return _from_array(value)
    if isinstance(value, list):  # saved with `use_primitives`
        return number_array(value)
    raise ValueError(f"expected a tensor, not {type(value).__name__}")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("no base64") from None


def _from_safetensors(data: bytes) -> np.ndarray:
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise ValueError("not a safetensors file, the only kind that is read (is it a pickle?)")
    try:
        entry = parse_json(data[8 : 8 + size].decode("utf-8"))[TENSOR]
        dtype, shape, (start, end) = DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
    except (UnicodeDecodeError, JSONDecodeError, KeyError, TypeError, ValueError):
        raise ValueError(f"expected safetensors with one tensor {TENSOR!r} of floats") from None
    body = data[8 + size :]
    expected = _size(shape) * torch.empty(0, dtype=dtype).element_size()
    if (start, end) != (0, expected) or len(body) != expected:
        raise ValueError(f"{len(body):,} bytes, but its shape {shape} needs {expected:,}")
    if not body:
        return np.zeros(shape)
    numbers = torch.frombuffer(bytearray(body), dtype=dtype)
    return numbers.to(torch.float64).numpy().reshape(shape)


def _from_array(value: dict[str, Any]) -> np.ndarray:
    written, dtype, shape = value["__ndarray__"], value.get("dtype"), value.get("shape")
    if dtype not in ARRAYS:
        raise ValueError(f"an array of {str(dtype)[:40]!r}; expected {' or '.join(ARRAYS)}")
    count = _size(shape)
    assert isinstance(shape, list)
    if not isinstance(written, str):
        numbers = number_array(written)
        if numbers.size != count:
            raise ValueError(f"{numbers.size:,} numbers, but its shape is {shape}")
        return numbers.reshape(shape)
    expected = count * np.dtype(dtype).itemsize
    if written.startswith(PACKED):
        data = _unpacked(_decoded(written.removeprefix(PACKED)), expected)
    else:
        data = _decoded(written.removeprefix(PLAIN))
    if len(data) != expected:
        raise ValueError(f"{len(data):,} bytes, but its shape {shape} needs {expected:,}")
    return np.frombuffer(data, dtype=dtype).astype(np.float64).reshape(shape)


def _unpacked(data: bytes, most: int) -> bytes:
    """Return what is packed, of `most` bytes, or its beginning with one byte more."""
    try:
        with gzip.open(io.BytesIO(data)) as file:
            return file.read(most + 1)  # one more, so that a larger array is noticed
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"damaged gzip: {error}") from None


def _size(shape: Any) -> int:
    """Return how many numbers a shape holds.

    Raises:
        ValueError: it is not a shape, or far too large.
    """
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"{str(shape)[:40]!r} is not a shape")
    count = math.prod(shape)
    if count * WIDTH > LARGEST:
        raise ValueError(f"a shape of {count:,} numbers is too large")
    return count


def write_file(
    path: Path, info: dict[str, Any], sequences: Sequence[dict[str, Any]], method_class: str
) -> None:
    """Write a file as inseq 0.7 saves it, which its `FeatureAttributionOutput.load` reads.

    Args:
        path: the file.
        info: facts of the run.
        sequences: the fields of each sentence: `source` and `target` (lists of tokens), and
            tensors, alone or in a dictionary by name, which are written in float32.
        method_class: the class of each sentence, which says how inseq shows it.
    """
    attributes = {
        "info": info,
        "sequence_attributions": [
            _written(method_class, {name: _field(v) for name, v in fields.items()})
            for fields in sequences
        ],
        "step_attributions": None,
    }
    text = json.dumps(_written("FeatureAttributionOutput", attributes), ensure_ascii=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)


def _written(name: str, fields: dict[str, Any], module: str = MODULE) -> dict[str, Any]:
    return {"__instance_type__": [module, name], "attributes": fields}


def _field(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _as_safetensors(value)
    if isinstance(value, dict):
        return {name: _field(part) for name, part in value.items()}
    if isinstance(value, list):  # ids are unknown here, for which inseq has -1
        tokens = ({"id": -1, "token": token} for token in value)
        return [_written("TokenWithId", token, "inseq.utils.typing") for token in tokens]
    return value


def _as_safetensors(array: np.ndarray) -> str:
    written = save({TENSOR: np.ascontiguousarray(array, dtype="<f4")})
    return base64.b64encode(written).decode("ascii")
