"""The errors a user can cause and mend; each says what is wrong and where."""

from collections.abc import Sequence
from pathlib import Path


class XnmtError(Exception):
    """Base of every error this project raises on purpose."""


class DataError(XnmtError):
    """Bad input data, named by file and line."""

    def __init__(self, path: Path | str, line: int | None, problem: str) -> None:
        where = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{where}: {problem}")


class StoreError(XnmtError):
    """A stored artefact is truncated, altered or missing."""


class MissingError(StoreError):
    """Nothing is there, as opposed to something that is damaged."""


class NotApplicable(XnmtError):
    """A combination that has no meaning, such as prefix attention in RNNSearch."""


class ConfigError(XnmtError):
    """A configuration that cannot be meant; `problems` has a line for each fault."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))
