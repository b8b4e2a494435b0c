#!/usr/bin/env python3
"""Run the project's tools: create .venv from the pinned requirements, then start the program.

    python3 dev.py demo [--seconds N]     a small application on its own server; its last line counts lost jobs
    python3 dev.py test                   lint, types, sizes, every test with Valkey, the unit and redis tests also
                                          with Redis 7 (on Debian on CPython 3.14), the coverage of lower layers, the
                                          scoreboard, and the frameworks' tests also with their oldest versions
    python3 dev.py test PATH... [-k x]    pytest alone, in parallel, with these arguments (`--` before them is allowed)
    python3 dev.py full                   `test`, the redis and process tests on Clusters of six nodes, and then each
                                          row of the scoreboard in full, which takes hours; also after a failure
    python3 dev.py full --python 3.13|3.14|PATH [TEST ...]
                                          the unit, redis and process tests on another CPython, or only some
    python3 dev.py quick [REVISION]       lint, types and the tests nearest to your change (since REVISION), in 90 s
    python3 dev.py lint [--fix]           ruff, its formatter, and the layers (import-linter)
    python3 dev.py types                  mypy and pyright, both strict
    python3 dev.py bench [NAME ...]       a program of bench/
    python3 dev.py scoreboard [--tier full] [--row R1 ...]   inject faults into workers and servers, and count lost jobs
    python3 dev.py docs [--check]         write the parts of the docs that are generated from code and tests
    python3 dev.py docs --build|--serve   build the documentation's site in build/site, or show it while you write
    python3 dev.py release --check        build the sdist and the wheel, and try the wheel with each extra
    python3 dev.py lock [--upgrade]       pin requirements/*.txt from pyproject.toml

`--install-system` (or CI=true) lets `test` install the Debian packages it needs. Standard library only.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / "bin"
IN_CI = os.environ.get("CI", "").lower() == "true"
# A program of the package -> Debian package
SYSTEM_PARTS = {
    "redis-server": "redis-server",
    "sidekiq": "ruby-sidekiq",
    "puma": "puma",
    "openssl": "openssl",
    "chromium": "chromium",
    "promtool": "prometheus",
    "patchelf": "patchelf",
    "pg_createcluster": "postgresql",
    "nginx": "nginx",
    "caddy": "caddy",
}
# Tests wait for processes and servers more than they compute, hence more workers than cores.
WORKERS = int(os.environ.get("OFFSIDER_TEST_WORKERS", "4"))
PARALLEL = ("-n", str(WORKERS), "--dist", "worksteal")
# The tests that start few programs. Their coverage is measured, which costs least on CPython 3.14.
IN_PROCESS = ("tests/unit", "tests/redis", "tests/contract")
# The step that combines another interpreter with another server, in place of one run for each.
ON_REDIS7 = "tests with Redis 7 on CPython 3.14"
# Options that decide how many processes pytest uses; without them `test PATH` runs in parallel.
SEQUENTIAL = ("-n", "--numprocesses", "--pdb", "--trace", "-s", "--capture=no", "-h", "--help", "--collect-only")
# Tests and scripts/another_python.py note here what they skipped, for the last line of `test` and `full`.
SKIPS = VENV / "skipped"
# Exit code of scripts/another_python.py if the interpreter is not available.
SKIPPED = 77


def run(*command: str | Path) -> int:
    """Run a program in the project's folder with .venv first on PATH and return its exit code."""
    program = subprocess.Popen([str(part) for part in command], cwd=ROOT, env=_environ())
    while True:
        try:
            return program.wait()
        except KeyboardInterrupt:
            continue  # the program got Ctrl-C too; subprocess.run would kill it before it has cleaned up


def _environ() -> dict[str, str]:
    """Return the environment with .venv first on PATH."""
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    return os.environ | {"PATH": path, "VIRTUAL_ENV": str(VENV), "OFFSIDER_TEST_SKIPS": str(SKIPS)}


def must(*command: str | Path) -> None:
    """Run a program; exit if it fails."""
    code = run(*command)
    if code:
        sys.exit(f"dev.py: `{' '.join(str(part) for part in command)}` ended with code {code}")


# ---------------------------------------------------------------------------------------- .venv


def prepare(kind: str) -> None:
    """Install requirements/KIND.txt into .venv if necessary; "demo" is the small part of "dev"."""
    marks = {name: VENV / f"installed-{name}" for name in ("demo", "dev")}
    wanted = {name: _fingerprint(name) for name in marks}
    have = {name: mark.read_text() if mark.exists() else "" for name, mark in marks.items()}
    if have["dev"] == wanted["dev"] or have[kind] == wanted[kind]:
        return
    if not any(have.values()):  # never finished: make a new one instead of repairing it
        _make_venv()
    pip = (BIN / "python", "-m", "pip", "--disable-pip-version-check", "--quiet")
    print(f"dev.py: installing requirements/{kind}.txt into .venv", flush=True)
    must(*pip, "install", "--require-hashes", "--requirement", f"requirements/{kind}.txt")
    must(*pip, "install", "--no-deps", "--no-build-isolation", "--editable", ".")
    marks[kind].write_text(wanted[kind])


def _fingerprint(kind: str) -> str:
    parts = [sys.version, *((ROOT / name).read_text() for name in (f"requirements/{kind}.txt", "pyproject.toml"))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _make_venv() -> None:
    if importlib.util.find_spec("ensurepip") is None:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        sys.exit(f"dev.py: this Python comes without ensurepip. On Debian: sudo apt-get install python{version}-venv")
    print("dev.py: making .venv", flush=True)
    must(sys.executable, "-m", "venv", "--clear", VENV)


# ------------------------------------------------------------------------------ Debian packages


def system_packages(*, install: bool) -> bool:
    """Print the missing Debian packages, or install them; False if packages are missing afterwards."""
    missing = [package for program, package in SYSTEM_PARTS.items() if not shutil.which(program)]
    if not missing:
        return True
    line = f"apt-get install -y --no-install-recommends {' '.join(missing)}"
    if not install:
        print(f"dev.py: some tests will be skipped. For all of them: sudo {line}   (or dev.py test --install-system)")
        return False
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    must(*root, "apt-get", "update")
    must(*root, "env", "DEBIAN_FRONTEND=noninteractive", *line.split())
    for service in {"redis-server", "prometheus", "postgresql", "nginx", "caddy"} & set(missing):
        # Debian starts the service at installation; the tests start their own servers.
        run(*root, "service", service, "stop")
        if Path("/run/systemd/system").exists():
            run(*root, "systemctl", "disable", service)
    return True


# ---------------------------------------------------------------------------------------- words


def demo(words: Sequence[str]) -> int:
    prepare("demo")
    return run("offsider", "demo", *words)


def lint(words: Sequence[str]) -> int:
    prepare("dev")
    fix = "--fix" in words
    steps = (
        # Without a cache, which does not notice when a package becomes one of ours.
        ("ruff", "check", "--no-cache", *(["--fix"] if fix else [])),
        ("ruff", "format", *([] if fix else ["--check"])),
        ("lint-imports", "--no-logo"),
    )
    return _all_of(*steps)


def types(_words: Sequence[str]) -> int:
    prepare("dev")
    return _at_once(("mypy",), ("pyright",))


def test(words: Sequence[str]) -> int:
    prepare("dev")
    complete = system_packages(install=IN_CI or "--install-system" in words)
    words = [word for word in words if word not in {"--install-system", "--"}]
    if words:
        sequential = any(word.startswith(SEQUENTIAL) for word in words)
        return run("pytest", *(() if sequential else PARALLEL), *words)
    SKIPS.unlink(missing_ok=True)
    results = {"lint": _timed("lint", lint, [])}
    tests = ("python", "scripts/run_tests.py", *PARALLEL)
    steps: dict[str, Sequence[str]] = {
        "tests": (*tests, *IN_PROCESS),
        "tests of programs": (*tests, "-n", str(WORKERS + 1), "tests", *(f"--ignore={name}" for name in IN_PROCESS)),
    }
    # One after the other beside the tests, which wait for servers and processes more than they compute.
    further: dict[str, Sequence[str]] = {
        "types": (sys.executable, "dev.py", "types"),
        "house": ("python", "scripts/house.py"),
        "oldest frameworks": ("python", "scripts/oldest.py"),
        ON_REDIS7: ("python", "scripts/another_python.py"),
        "scoreboard": ("python", "-m", "bench.scoreboard"),
    }
    with ThreadPoolExecutor(1) as beside:
        others = {name: beside.submit(_timed, name, _shown_at_its_end, *command) for name, command in further.items()}
        results |= {name: _timed(name, run, *command) for name, command in steps.items()}
        results |= {name: other.result() for name, other in others.items()}
    if results[ON_REDIS7] == SKIPPED:
        same = ("env", "OFFSIDER_TEST_SERVERS=redis7", *tests, "--coverage", *IN_PROCESS)
        results["tests with Redis 7"] = _timed("tests with Redis 7", run, *same)
    if complete:  # skipped tests would lower the coverage
        results["coverage"] = _timed("coverage", coverage)
    return _summary(results)


def _timed(name: str, step: Callable[..., int], *words: object) -> int:
    """Run a step, and print how long it took; return its exit code."""
    began = time.monotonic()
    code = step(*words)
    print(f"dev.py: {name} took {time.monotonic() - began:.0f} s", flush=True)
    return code


def _summary(results: dict[str, int]) -> int:
    """Print the failed or passed steps, and what was skipped, in one line; return the exit code."""
    failed = [name for name, code in results.items() if code not in {0, SKIPPED}]
    passed = [name for name, code in results.items() if code == 0]
    skipped = list[str]()
    if SKIPS.exists():
        reasons = Counter[str]()
        for line in SKIPS.read_text().splitlines():
            count, _, reason = line.partition(" x ")
            reasons[reason] += int(count)
        skipped += [f"{count} x {reason}" for reason, count in reasons.most_common()]
    line = f"failed: {', '.join(failed)}" if failed else f"passed: {', '.join(passed)}"
    print(f"dev.py: {line}{'; skipped: ' + '; '.join(skipped) if skipped else ''}", flush=True)
    return 1 if failed else 0


def full(words: Sequence[str]) -> int:
    prepare("dev")
    if words and words[0] == "--python":
        return run("python", "scripts/another_python.py", *words)
    results = {"test": test(words)}
    results |= {kind: on_cluster(kind) for kind in ("redis7-cluster", "valkey-cluster")}
    results["scoreboard in full"] = scoreboard(["--tier", "full"])
    return _summary(results)


def on_cluster(kind: str) -> int:
    """Run the tests with a server on Clusters of six nodes."""
    tests = ("python", "scripts/run_tests.py", *PARALLEL, "tests/redis", "tests/process")
    return _timed(kind, run, "env", f"OFFSIDER_TEST_SERVERS={kind}", *tests)


def quick(words: Sequence[str]) -> int:
    prepare("dev")
    return run("python", "scripts/quick.py", *words)


def coverage() -> int:
    run("coverage", "combine", "--quiet")
    return run("coverage", "report")


def bench(words: Sequence[str]) -> int:
    prepare("dev")
    programs: dict[str, tuple[str, ...]] = {
        path.stem: ("-m", f"bench.{path.stem}") for path in (ROOT / "bench").glob("[a-z]*.py")
    }
    programs |= {path.parent.name: ("-m", f"bench.{path.parent.name}") for path in ROOT.glob("bench/*/__main__.py")}
    if not words or words[0] not in programs:
        sys.exit(f"dev.py bench: choose one of: {' '.join(sorted(programs)) or '(none yet)'}")
    return run("python", *programs[words[0]], *words[1:])


def scoreboard(words: Sequence[str]) -> int:
    prepare("dev")
    return run("python", "-m", "bench.scoreboard", *words)


def docs(words: Sequence[str]) -> int:
    prepare("dev")
    if words and words[0] in {"--build", "--serve"}:
        # MkDocs Material prints a note about its successor at each start.
        return run("env", "NO_MKDOCS_2_WARNING=1", "mkdocs", words[0].removeprefix("--"), "--strict", *words[1:])
    writers = sorted(str(path) for path in (ROOT / "scripts").glob("write_*.py"))
    return _all_of(*(("python", writer, *words) for writer in writers))


def release(words: Sequence[str]) -> int:
    if list(words) != ["--check"]:
        sys.exit("dev.py release: the only option is --check, which publishes nothing")
    prepare("dev")
    return run("python", "scripts/check_release.py")


def lock(words: Sequence[str]) -> int:
    """Pin names, versions and hashes, without the URLs of this machine's package index."""
    prepare("dev")
    compile_ = ("uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes")
    silent = ("--no-annotate", "--no-header", "--no-emit-index-url", "--no-emit-find-links")
    pin = (*compile_, *silent, "pyproject.toml", "requirements/build.in")
    same = ("--constraints", "requirements/dev.txt")
    return _all_of(
        (*pin, *words, "--extra", "dev", "--output-file", "requirements/dev.txt"),
        (*pin, *same, "--extra", "demo", "--output-file", "requirements/demo.txt"),
        (*compile_, *silent, "--no-deps", *words, "requirements/oldest.in", "--output-file", "requirements/oldest.txt"),
    )


def _all_of(*steps: Sequence[str | Path]) -> int:
    """Run every step, also after a failure, so that one run shows all failures."""
    return max([run(*step) for step in steps], default=0)


def _shown_at_its_end(*command: str | Path) -> int:
    """Run a program beside another one, and print its output at the end."""
    ended = subprocess.run(command, cwd=ROOT, env=_environ(), check=False, capture_output=True, text=True)
    print(ended.stdout + ended.stderr, flush=True)
    return ended.returncode


def _at_once(*steps: Sequence[str | Path]) -> int:
    """Run all steps at the same time."""
    with ThreadPoolExecutor(len(steps)) as threads:
        return max(program.result() for program in [threads.submit(run, *step) for step in steps])


def main() -> int:
    if sys.version_info < (3, 11):  # noqa: UP036 - older versions need a message, not a traceback
        sys.exit("dev.py: offsider needs Python 3.11 or newer")
    words = {
        word.__name__: word for word in (demo, test, full, quick, lint, types, bench, scoreboard, docs, release, lock)
    }
    if len(sys.argv) < 2 or sys.argv[1] not in words:
        print(__doc__)
        return 0 if sys.argv[1:] in ([], ["-h"], ["--help"]) else 2
    return words[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
