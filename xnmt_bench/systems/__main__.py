"""Makes a folder that ships a trained system: its weights in half precision, and nothing else."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file

from xnmt_bench.corpora.sentence import SIDES
from xnmt_bench.corpora.vocabulary.subwords import vocabulary_file
from xnmt_bench.nmt.loading import SHIPPED
from xnmt_bench.store import MODE, write_atomically


def ship(trained: Path, target: Path) -> None:
    """Write a trained system to a folder, with weights of 2 bytes.

    Args:
        trained: the folder of the system, such as `outputs/store/nmt/0123456789abcdef`.
        target: the folder that is made.
    """
    # Read first: a wrong folder leaves nothing behind.
    weights = load_file(trained / "model.safetensors")
    described = json.loads((trained / "model.json").read_text(encoding="utf-8"))
    target.mkdir(parents=True, exist_ok=True)
    # Contiguous, since safetensors refuses views.
    half = {name: weight.half().contiguous() for name, weight in weights.items()}
    save_file(half, target / "model.safetensors", metadata={"format": "pt"})
    (target / "model.safetensors").chmod(MODE)  # safetensors lets only the owner read a file
    for side in SIDES:
        shutil.copyfile(vocabulary_file(trained, side), vocabulary_file(target, side))
    write_atomically(target / "model.json", json.dumps(described, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m xnmt_bench.systems", description=__doc__)
    parser.add_argument("trained", type=Path, help="the folder of a trained system")
    parser.add_argument("name", help="what `nmt.path=` and `xnmt_bench.load` call it")
    arguments = parser.parse_args()
    ship(arguments.trained, SHIPPED / arguments.name)
