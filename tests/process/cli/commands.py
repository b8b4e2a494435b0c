"""A small application, and the command line run on it in its own process, which may import anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SHOP = """\
from offsider import Job, job


@job(urgency="high", tags=["mail"])
def welcome(user_id: int) -> None: ...


@job(resource_boundary="cpu", feature_category="media", external_dependencies=True)
def resize(path: str) -> None: ...


class ReportJob(Job, queue="low"):
    def perform(self, title): ...
"""


def offsider(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder, without a configuration or variables from elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OFFSIDER_")}
    return subprocess.run(
        [sys.executable, "-m", "offsider", *words],
        cwd=folder,
        env=kept | {"REDIS_URL": "redis://127.0.0.1:1", "PYTHONDONTWRITEBYTECODE": "1"} | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
