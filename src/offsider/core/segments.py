"""Names in the paths of pages.

Names of queues and ids of jobs may contain any character. Percent encoding does not work: WSGI servers and many proxies
decode ``%2F`` before we see it. So unusual characters are written as ``~`` and two hex digits for each byte, which no
layer changes; usual names stay unchanged.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

_ODD = re.compile(r"[^A-Za-z0-9_.:-]")
_WRITTEN = re.compile(r"(?:~[0-9a-f]{2})+")
#: Segments that clients and servers normalize away.
_FOLDERS = re.compile(r"\.{1,2}")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def segment(name: str) -> str:
    """Return a name as one segment of a path.

    >>> segment("default"), segment("a/b é"), segment("..")
    ('default', 'a~2fb~20~c3~a9', '~2e~2e')
    """
    if _FOLDERS.fullmatch(name):
        return _as_bytes(name)
    return _ODD.sub(lambda odd: _as_bytes(odd[0]), name) or "~"


def from_segment(text: str) -> str:
    """Return the name of a segment. A segment that was typed by hand, without escapes, is the name itself."""
    if text == "~":
        return ""
    return _WRITTEN.sub(lambda written: bytes.fromhex(written[0].replace("~", "")).decode(errors="replace"), text)


def _as_bytes(text: str) -> str:
    return "".join(f"~{byte:02x}" for byte in text.encode(errors="replace"))


def pattern_of(path: str) -> re.Pattern[str]:
    """Compile a path like ``/queues/{name}/delete``; each placeholder matches one segment."""
    pieces = _PLACEHOLDER.split(path)
    # Odd pieces are names of placeholders.
    pattern = "".join(f"(?P<{piece}>[^/]+)" if number % 2 else re.escape(piece) for number, piece in enumerate(pieces))
    return re.compile(pattern)


def parts_of(found: re.Match[str]) -> dict[str, str]:
    """Return the values of the placeholders."""
    return {name: from_segment(unquote(part)) for name, part in found.groupdict().items()}
