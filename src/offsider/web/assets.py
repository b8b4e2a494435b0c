"""Style sheets, scripts and pictures: our own files only, each under a name that changes with its content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("assets")
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}


@dataclass(frozen=True)
class Asset:
    """One file.

    Attributes:
        name: with a digest of its content: ``offsider.3f2a1b0c9d8e.css``.
        media_type: of HTTP.
    """

    name: str
    media_type: str
    content: bytes


class Assets:
    """Files by the name they have in their folder, and by the name they are served under."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._by_plain_name = {plain: _read(plain, path) for plain, path in files.items()}
        self._by_name = {asset.name: asset for asset in self._by_plain_name.values()}

    def __contains__(self, plain: object) -> bool:
        return plain in self._by_plain_name

    def name_of(self, plain: str) -> str:
        """The name that a file is served under."""
        return self._by_plain_name[plain].name

    def find(self, name: str) -> Asset | None:
        """The file that is served under this name."""
        return self._by_name.get(name)

    def of_kind(self, suffix: str) -> list[str]:
        """The plain names of all files of a kind; our basic one first, since the others build on it."""
        names = [plain for plain in self._by_plain_name if plain.endswith(suffix)]
        return sorted(names, key=lambda plain: (not plain.startswith("offsider."), plain))


@cache
def own_assets() -> Assets:
    """The files that come with the package."""
    return Assets({path.name: path for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES})


def _read(plain: str, path: Path) -> Asset:
    content = path.read_bytes()
    stem, dot, suffix = plain.rpartition(".")
    digest = hashlib.sha256(content).hexdigest()[:12]
    return Asset(f"{stem}.{digest}{dot}{suffix}", TYPES.get(path.suffix, "application/octet-stream"), content)
