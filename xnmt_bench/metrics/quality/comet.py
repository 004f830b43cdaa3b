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
    """Return the COMET score of each translation, (U,), by `comet-score` of unbabel-comet 2.

    Args:
        command: path of `comet-score`.
        model: a model's name, or the path of a checkpoint.
        sources: raw, as are the other texts.
        hypotheses: one a source.
        references: one a source.
        folder: where the texts and the score of each sentence go.

    Raises:
        XnmtError: the program is not there, or it failed.
    """
    scores = folder / "scores.json"
    line = [str(Path(command).expanduser()), "--model", model, "--quiet", "--only_system"]
    line += ["--to_json", str(scores)]
    texts = {
        "source": ("-s", sources),
        "hypothesis": ("-t", hypotheses),
        "reference": ("-r", references),
    }
    for name, (option, sentences) in texts.items():
        path = folder / f"{name}.txt"
        path.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
        line += [option, str(path)]
    try:
        # A process of its own, since its requirements are not this project's.
        ended = subprocess.run(line, capture_output=True, text=True)
    except OSError as error:
        raise XnmtError(f"metric.quality.comet_command={command}: {error.strerror}") from None
    if ended.returncode or not scores.exists():
        # The last line of a traceback is the error itself.
        reason = (ended.stderr.strip() or ended.stdout.strip()).splitlines()[-1:]
        raise XnmtError(f"metric.quality.comet_command={command} failed: {' '.join(reason)}")
    # One key, the name of the file of translations.
    [rows] = json.loads(scores.read_text(encoding="utf-8")).values()
    if len(rows) != len(hypotheses):
        raise XnmtError(f"{command}: {len(rows)} scores for {len(hypotheses)} translations")
    return np.array([row["COMET"] for row in rows], dtype=np.float64)
