"""Style sheets, scripts and images, served under names that contain a digest of their content."""

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
    """A static file.

    Attributes:
        name: name with a digest of the content: ``offsider.3f2a1b0c9d8e.css``.
        media_type: media type for HTTP.
    """

    name: str
    media_type: str
    content: bytes


class Assets:
    """Files by their plain name, and by the name they are served under."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._by_plain_name = {plain: _read(plain, path) for plain, path in files.items()}
        self._by_name = {asset.name: asset for asset in self._by_plain_name.values()}

    def __contains__(self, plain: object) -> bool:
        return plain in self._by_plain_name

    def name_of(self, plain: str) -> str:
        """Return the served name of a file."""
        return self._by_plain_name[plain].name

    def find(self, name: str) -> Asset | None:
        """Return a file by its served name."""
        return self._by_name.get(name)

    def of_kind(self, suffix: str) -> list[str]:
        """Return the plain names of all files with a suffix; the base file first, because the others build on it."""
        names = [plain for plain in self._by_plain_name if plain.endswith(suffix)]
        return sorted(names, key=lambda plain: (not plain.startswith("offsider."), plain))


@cache
def own_assets() -> Assets:
    """Return the files of the package."""
    return Assets({path.name: path for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES})


def _read(plain: str, path: Path) -> Asset:
    content = path.read_bytes()
    stem, dot, suffix = plain.rpartition(".")
    digest = hashlib.sha256(content).hexdigest()[:12]
    return Asset(f"{stem}.{digest}{dot}{suffix}", TYPES.get(path.suffix, "application/octet-stream"), content)
