"""Standard input, output and error of a command: any may be closed, full, or without a reader.

A command makes files, so it goes on where its output cannot be written, and its status says so.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

READER_GONE = 128 + 13  # as a shell reports a program that SIGPIPE ended, where `head` has gone
# What tables and heatmaps have besides letters; a form is as wide as what it replaces.
PLAIN_FORMS = {
    **{"░": ".", "▒": ":", "▓": "*", "█": "#", "·": "'", "×": "x", "−": "-", "†": "+", "‡": "*"},
    **{"▁": "_", "␣": "_", "–": "-", "…": "~", "≈": "~", "←": "<", "→": ">"},
    **{"“": '"', "”": '"', "’": "'"},
}


class _Output(io.FileIO):
    """A stream whose writing never fails; it keeps the first error."""

    error: OSError | None = None

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.error = self.error or error
            return memoryview(data).nbytes


@contextmanager
def standard_streams() -> Iterator[None]:
    """Let a command read and print; end it with a status of its own if its output was not written.

    That status is 141 where the reader of a pipe has gone, and else 1 after one line. A command
    that fails for another reason keeps its own status.
    """
    codecs.register_error("plain_forms", _plain_forms)
    _fill_closed()
    output: _Output | None = None  # that of an outer call
    if sys.stdout is sys.__stdout__:
        sys.stdout, output = _opened(1, sys.stdout)
        sys.stderr, _ = _opened(2, sys.stderr)
    try:
        sys.argv[1:] = map(_decoded, sys.argv[1:])
    except UnicodeDecodeError as error:
        print(f"error: {error.object!r}: not UTF-8", file=sys.stderr)
        sys.exit(2)
    yield
    sys.stdout.flush()
    if output is None or output.error is None:
        return
    if output.error.errno == errno.EPIPE:
        sys.exit(READER_GONE)
    sys.exit(f"error: standard output: {output.error.strerror}")


def _fill_closed() -> None:
    """Give a closed stream's number to a device.

    The next file to be opened would get it, and what is printed would end in that file.
    """
    # Opened for reading, so that printing fails as on a closed stream; errors are dropped.
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest free number


def _opened(number: int, stream: TextIO | None) -> tuple[TextIO, _Output]:
    """Return a stream of text in the place of Python's, and the output under it."""
    output = _Output(number, "w", closefd=False)
    if stream is not None:
        stream.flush()
    encoding = stream.encoding if stream else "utf-8"
    # Standard error, a terminal, or Python's option -u.
    by_line = number == 2 or any(
        getattr(stream, name, 0) for name in ("line_buffering", "write_through")
    )
    buffer = io.BufferedWriter(output)
    return io.TextIOWrapper(buffer, encoding, "plain_forms", line_buffering=by_line), output


def _plain_forms(error: UnicodeError) -> tuple[str, int]:
    """Return what replaces characters that an encoding lacks: a form alike, or an escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    forms = "".join(PLAIN_FORMS.get(letter, letter) for letter in text)
    plain = forms.encode(error.encoding, "backslashreplace").decode(error.encoding)
    return plain, error.end


def _decoded(argument: str) -> str:
    """Return an argument as it was typed: bytes that the locale could not read are UTF-8.

    Raises:
        UnicodeDecodeError: they are not.
    """
    try:
        argument.encode("utf-8")
    except UnicodeEncodeError:
        return os.fsencode(argument).decode("utf-8")
    return argument
