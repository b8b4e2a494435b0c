"""Run the tests of frameworks with their oldest supported versions: `python scripts/oldest.py [PYTEST ARGUMENTS ...]`.

requirements/oldest.txt is installed (checked by hash) into `.oldest`. The tests import from that folder first, then
from `.venv`, which has all other packages, and newer versions of these. another_python.py tests with Django 6.
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
FOLDER = ROOT / ".oldest"
REQUIREMENTS = ROOT / "requirements" / "oldest.txt"
TESTS = (
    *("tests/unit/django", "tests/redis/django", "tests/unit/fastapi", "tests/redis/fastapi", "tests/redis/flask"),
    *("tests/redis/integrations/test_sqlalchemy.py", "tests/redis/integrations/test_sqlalchemy_outbox.py"),
)
#: The test client of an old Starlette leaves streams open.
WARNINGS = ("-W", "ignore::pytest.PytestUnraisableExceptionWarning")


def prepare() -> None:
    """Install the requirements, unless they are there."""
    mark = FOLDER / "installed"
    wanted = hashlib.sha256(f"{sys.version}\0{REQUIREMENTS.read_text()}".encode()).hexdigest()
    if mark.exists() and mark.read_text() == wanted:
        return
    print(f"oldest.py: installing {REQUIREMENTS.name} into {FOLDER.name}", flush=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--target", str(FOLDER)]
    subprocess.run([*pip, "--require-hashes", "--no-deps", "--requirement", str(REQUIREMENTS)], check=True)
    mark.write_text(wanted)


def main(words: list[str]) -> int:
    prepare()
    one_server = ("-n", os.environ.get("OFFSIDER_TEST_WORKERS", "4"), "--dist", "worksteal", "-k", "not redis7")
    path = os.pathsep.join(filter(None, (str(FOLDER), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "scripts/run_tests.py", "-q", *WARNINGS, *(words or (*one_server, *TESTS))]
    return subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
