"""The bytes of a stored job with other texts at some of its keys, and every other byte as it was.

Whoever stored the job may write JSON in another way than we do. So the text is replaced where it stands, and the
whole is written anew only when that place cannot be told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from offsider.core.payload import decode, encode, encode_text

#: The same key may stand in arguments as well; so many places are tried.
_TRIES = 20


def rewritten(raw: bytes, payload: Mapping[str, Any], changes: Mapping[str, str]) -> bytes:
    """``raw``, which is ``payload``, with these texts at these keys."""
    for key, text in changes.items():
        payload = {**payload, key: text}
        raw = _replaced(raw, key, text, payload)
    return raw


def _replaced(raw: bytes, key: str, text: str, wanted: Mapping[str, Any]) -> bytes:
    name = encode_text(key)
    place = re.compile(re.escape(name.encode()) + rb'(\s*:\s*)"(?:[^"\\]|\\.)*"')
    for match in islice(place.finditer(raw), _TRIES):
        said = name.encode() + match[1] + encode_text(text).encode()
        changed = raw[: match.start()] + said + raw[match.end() :]
        if decode(changed) == wanted:  # a text in place of a text breaks no JSON
            return changed
    return encode(wanted)
