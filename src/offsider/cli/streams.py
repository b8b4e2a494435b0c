"""The standard streams of a command: present, and able to write any text."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def prepare_streams() -> None:
    """Open streams that were closed when the process started, and escape characters that an encoding does not have.

    A closed descriptor is opened too: otherwise a connection would get its number, and the output of a subprocess
    would be written to that connection. If other code has opened it since, it belongs to that code, and remains.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number, which is this one
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode)  # noqa: PTH123, SIM115  # open until the process ends
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        with suppress(AttributeError, ValueError):  # not a text file; closed
            getattr(sys, name).reconfigure(errors="backslashreplace")


def finish_streams() -> None:
    """Discard output that a stream does not take: Python would report it at the end, and change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)
