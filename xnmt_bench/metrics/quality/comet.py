"""COMET (Rei et al. 2020), run as a program of its own, whose requirements are not ours."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xnmt_bench.errors import XnmtError


def comet(
    command: str,
    model: str,
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    folder: Path,
) -> np.ndarray:
    """The COMET score of each translation, (U,), by `comet-score` of unbabel-comet 2.

    Args:
        command: path of `comet-score`.
        model: a model's name, or the path of a checkpoint.
        sources: raw source sentences.
        hypotheses: raw translations.
        references: raw references.
        folder: where the texts and the score of each sentence go.

    Raises:
        XnmtError: the program is not there, or it failed.
    """
    texts = {"source": sources, "hypothesis": hypotheses, "reference": references}
    paths = {name: folder / f"{name}.txt" for name in texts}
    for name, lines in texts.items():
        paths[name].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    scores = folder / "scores.json"
    line = [Path(command).expanduser(), "-s", paths["source"], "-t", paths["hypothesis"],
            "-r", paths["reference"], "--model", model, "--quiet", "--only_system",
            "--to_json", scores]  # fmt: skip
    try:
        ended = subprocess.run(list(map(str, line)), capture_output=True, text=True)
    except OSError as error:
        raise XnmtError(f"metric.quality.comet_command={command}: {error.strerror}") from None
    if ended.returncode or not scores.exists():
        reason = (ended.stderr.strip() or ended.stdout.strip()).splitlines()[-1:]
        raise XnmtError(f"metric.quality.comet_command={command} failed: {' '.join(reason)}")
    [rows] = json.loads(scores.read_text(encoding="utf-8")).values()
    if len(rows) != len(hypotheses):
        raise XnmtError(f"{command}: {len(rows)} scores for {len(hypotheses)} translations")
    return np.array([row["COMET"] for row in rows], dtype=np.float64)
