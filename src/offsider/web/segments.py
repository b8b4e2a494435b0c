"""Names in the paths of pages, whatever letters they hold.

Names of queues and ids of jobs come from others and may hold any letter. Percent signs are no way to carry them: a
WSGI server and many a proxy decode ``%2F`` before we see it. So odd letters are written as ``~`` and the two hex digits
of each byte, which every layer leaves alone; the usual names stay as they are.
"""

from __future__ import annotations

import re

_ODD = re.compile(r"[^A-Za-z0-9_.:-]")
_WRITTEN = re.compile(r"(?:~[0-9a-f]{2})+")
#: What clients and servers take for a folder, or for nothing at all.
_FOLDERS = re.compile(r"\.{1,2}")


def segment(name: str) -> str:
    """The name as one segment of a path.

    >>> segment("default"), segment("a/b é"), segment("..")
    ('default', 'a~2fb~20~c3~a9', '~2e~2e')
    """
    if _FOLDERS.fullmatch(name):
        return _as_bytes(name)
    return _ODD.sub(lambda odd: _as_bytes(odd[0]), name) or "~"


def from_segment(text: str) -> str:
    """The name that `segment` wrote. A segment that somebody typed, with letters as they are, means itself."""
    if text == "~":
        return ""
    return _WRITTEN.sub(lambda written: bytes.fromhex(written[0].replace("~", "")).decode(errors="replace"), text)


def _as_bytes(text: str) -> str:
    return "".join(f"~{byte:02x}" for byte in text.encode(errors="replace"))
