"""Run the tests of the Django app with Django 4.2 LTS: `python scripts/django42.py [PYTEST ARGUMENTS ...]`.

requirements/django-4.2.txt is installed (checked by hash) into `.django-4.2`. The tests import from that folder first,
then from `.venv`, which has all other packages, and Django 5.2. python314.py tests with Django 6.
Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".django-4.2"
REQUIREMENTS = ROOT / "requirements" / "django-4.2.txt"
TESTS = ("tests/unit/django", "tests/redis/django")


def prepare() -> None:
    """Install the requirements, unless they are there."""
    mark = FOLDER / "installed"
    wanted = hashlib.sha256(f"{sys.version}\0{REQUIREMENTS.read_text()}".encode()).hexdigest()
    if mark.exists() and mark.read_text() == wanted:
        return
    print(f"django42.py: installing {REQUIREMENTS.name} into {FOLDER.name}", flush=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--target", str(FOLDER)]
    subprocess.run([*pip, "--require-hashes", "--no-deps", "--requirement", str(REQUIREMENTS)], check=True)
    mark.write_text(wanted)


def main(words: list[str]) -> int:
    prepare()
    one_server = ("-n", os.environ.get("OFFSIDER_TEST_WORKERS", "4"), "--dist", "worksteal", "-k", "not redis7")
    path = os.pathsep.join(filter(None, (str(FOLDER), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "scripts/run_tests.py", "-q", *(words or (*one_server, *TESTS))]
    return subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
