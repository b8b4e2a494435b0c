"""The pinned requirements: every file by its hash, without its origin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PINNED = sorted((ROOT / "requirements").glob("*.txt"))


@pytest.mark.parametrize("path", PINNED, ids=lambda path: path.name)
def test_no_index_and_no_host_is_named(path):
    assert not re.findall(r"(?i)\S*(?:://|--[\w-]*(?:index|links|host)|@ ).*", path.read_text())


@pytest.mark.parametrize("path", PINNED, ids=lambda path: path.name)
def test_every_package_has_one_version_and_its_hashes(path):
    packages = re.split(r"\n(?=\S)", path.read_text().strip())
    assert packages
    for package in packages:
        assert re.match(r"[a-z0-9._-]+(\[\w+\])?==\S+ ", package), package
        assert "--hash=sha256:" in package


def test_the_small_set_is_part_of_the_large_one():
    small, large = (
        set(re.findall(r"^\S+==\S+", (ROOT / "requirements" / name).read_text(), re.MULTILINE))
        for name in ("demo.txt", "dev.txt")
    )
    assert small < large
