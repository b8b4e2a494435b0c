"""Run pytest, and run up to MAX_FAILURES failed tests again, one after the other, for their diagnosis.

    python scripts/run_tests.py [--coverage] [PYTEST ARGUMENTS ...]

Every failure fails the run. The second attempt separates defects from tests that need a quiet machine: the last line
lists tests that passed then as flaky. More than MAX_FAILURES failures are not repeated. Standard library only.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: More failures have a cause that a second run should not hide.
MAX_FAILURES = 5
TESTS_FAILED = 1
PARALLEL = ("-n", "--numprocesses", "--dist")


def failed_tests(cache: Path) -> list[str]:
    """Return the tests that failed in the last run, from pytest's cache."""
    note = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(note.read_text())) if note.exists() else []


def without_parallel(words: list[str]) -> list[str]:
    """Return pytest's arguments without those for parallel runs."""
    kept = list[str]()
    values = iter(words)
    for word in values:
        if word in PARALLEL:
            next(values, None)
        elif not word.startswith(tuple(f"{option}=" for option in PARALLEL)):
            kept.append(word)
    return kept


def main(words: list[str]) -> int:
    measured = ("-m", "coverage", "run") if "--coverage" in words else ()
    words = [word for word in words if word != "--coverage"]
    with tempfile.TemporaryDirectory(prefix="offsider-tests-") as folder:  # two interpreters may run at the same time
        cache = Path(folder, "cache")
        pytest = [sys.executable, *measured, "-m", "pytest", "-o", f"cache_dir={cache}"]
        code = subprocess.run([*pytest, *words], cwd=ROOT, check=False).returncode
        failed = failed_tests(cache)
        if code != TESTS_FAILED or not 0 < len(failed) <= MAX_FAILURES:
            return code
        print(f"run_tests.py: {len(failed)} failed; they run once more, one after the other", flush=True)
        subprocess.run([*pytest, "--last-failed", *without_parallel(words)], cwd=ROOT, check=False)
        flaky = sorted({*failed} - {*failed_tests(cache)})
    if flaky:
        print(f"run_tests.py: FLAKY, passed when run alone: {' '.join(flaky)}", flush=True)
    return TESTS_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
