"""Replace strings in the bytes of a stored job, and keep all other bytes.

Another program may have encoded the JSON. So the string is replaced at its position; only if that position is
ambiguous, the whole job is encoded again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from offsider.core.payload import decode, encode, encode_text

#: Maximum positions to try, since the arguments may contain the same key.
_TRIES = 20


def rewritten(raw: bytes, payload: Mapping[str, Any], changes: Mapping[str, str]) -> bytes:
    """Return ``raw``, the bytes of ``payload``, with the strings of ``changes``."""
    for key, text in changes.items():
        payload = {**payload, key: text}
        raw = _replaced(raw, key, text, payload)
    return raw


def _replaced(raw: bytes, key: str, text: str, wanted: Mapping[str, Any]) -> bytes:
    name = encode_text(key)
    member = re.compile(re.escape(name.encode()) + rb'(\s*:\s*)"(?:[^"\\]|\\.)*"')
    for match in islice(member.finditer(raw), _TRIES):
        new = name.encode() + match[1] + encode_text(text).encode()
        changed = raw[: match.start()] + new + raw[match.end() :]
        if decode(changed) == wanted:  # replacing a string by a string keeps the JSON valid
            return changed
    return encode(wanted)
