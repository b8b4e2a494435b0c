"""Run tests on another CPython: `python scripts/python314.py [--python PATH] [PYTEST ARGUMENTS ...]`. By default 3.14.

With ``--python`` that interpreter is used, all unit, redis and process tests run, and steps 1 and 2 do not apply.
Standard library only.

1. Use a `python3.14` on PATH if there is one.
2. Otherwise download the packages of Debian's `forky` from the mirror of this machine's apt into a cache folder, and
   unpack them there with their own libc. This installs nothing and needs no root.
3. Install requirements/dev.txt (checked by hash) and this project into `.venv-3.14` or similar.
4. Run scripts/run_tests.py there; without arguments the unit tests, and those of storage, client, worker and Django (6)
   on one server.

If the interpreter is not available, the last line contains SKIPPED and the reason, and the exit code is SKIPPED.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "offsider" / "python3.14"
SKIPPED = 77
TESTS = (
    "tests/unit",
    "tests/redis/storage",
    "tests/redis/client",
    "tests/redis/worker",
    "tests/redis/django",
    "tests/process/worker/test_time_limits.py",
)
EVERY_TEST = ("tests/unit", "tests/redis", "tests/process")
TAG = "import sys; print('%d.%d' % sys.version_info[:2] + sys.abiflags, end='')"
#: Exits with 0 if the interpreter is complete and has the GIL; the tests do not cover free-threaded builds.
WHOLE = "import ctypes, sqlite3, ssl, sys, venv; sys.exit(sys.version_info[:2] != (3, 14) or not sys._is_gil_enabled())"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
#: Time limit of a step; the download is the longest.
PATIENCE_SECONDS = 300


class Missing(Exception):
    """The interpreter is not available; the message has the reason."""


def interpreter() -> Path:
    """Return the path of a CPython 3.14 with the GIL."""
    found = shutil.which("python3.14")
    if found is not None and is_whole(Path(found)):
        return Path(found)
    cached = CACHE / "usr" / "bin" / "python3.14"
    if not is_whole(cached):
        download()
    if not is_whole(cached):
        raise Missing(f"the interpreter in {CACHE} does not run")
    return cached


def is_whole(python: Path) -> bool:
    return python.exists() and subprocess.run([python, "-c", WHOLE], check=False, capture_output=True).returncode == 0


def download() -> None:
    for program in ("apt-get", "dpkg-deb", "patchelf"):
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed")
    mirror = debian_mirror()
    print(f"python314.py: downloading CPython 3.14 into {CACHE}", flush=True)
    shutil.rmtree(CACHE, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="offsider-apt-") as folder:
        fetch_packages(Path(folder), mirror)
        CACHE.mkdir(parents=True)
        for package in Path(folder, "cache", "archives").glob("*.deb"):
            must("dpkg-deb", "-x", str(package), str(CACHE))
    use_own_libraries()


def debian_mirror() -> str:
    """Return the URL of the Debian mirror that this machine uses."""
    targets = must("apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)", "Created-By: Packages")
    for line in targets.splitlines():
        origin, label, *address = line.split()
        if (origin, label) == ("Debian", "Debian") and address:
            return address[0]
    raise Missing("apt has no Debian mirror configured")


def fetch_packages(folder: Path, mirror: str) -> None:
    """Download the interpreter and all its dependencies, including installed ones."""
    for part in ("lists/partial", "cache/archives/partial"):
        folder.joinpath(part).mkdir(parents=True)
    sources, status = folder / "sources.list", folder / "status"
    sources.write_text(f"deb [signed-by={KEYRING}] {mirror} forky main\n")
    status.touch()
    places = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State::Lists": folder / "lists",
        "Dir::State::Status": status,
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "true",
    }
    options = [word for name, value in places.items() for word in ("-o", f"{name}={value}")]
    must("apt-get", *options, "--quiet", "update")
    wanted = ("--yes", "--quiet", "--download-only", "--no-install-recommends", "install", "python3.14-venv")
    must("apt-get", *options, *wanted)


def use_own_libraries() -> None:
    """Make the interpreter load every library from its folder, because those of this machine are older."""
    library = next(CACHE.glob("usr/lib/*/libc.so.6")).parent
    loader = next(path for path in (*library.glob("ld-linux*"), *CACHE.glob("usr/lib*/ld-linux*")) if path.exists())
    # RPATH, unlike RUNPATH, also applies to indirect dependencies.
    patch = ("patchelf", "--force-rpath", "--set-rpath", str(library))
    must(*patch, "--set-interpreter", str(loader), str(CACHE / "usr" / "bin" / "python3.14"))
    for module in CACHE.glob("usr/lib/python3.14/lib-dynload/*.so"):
        must(*patch, str(module))


def must(*command: str) -> str:
    """Run a step of the download; show its output only if it fails."""
    try:
        ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise Missing(f"`{command[0]}` did not end within {PATIENCE_SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        said: str = (error.stderr or error.stdout).strip()
        raise Missing(f"`{command[0]}` failed: {said.splitlines()[-1] if said else error.returncode}") from error
    return ended.stdout


def prepare(python: Path) -> Path:
    """Install requirements/dev.txt into the environment of this interpreter, and return its folder."""
    venv = ROOT / f".venv-{must(str(python), '-c', TAG)}"
    mark = venv / "installed"
    parts = (str(python), *((ROOT / name).read_text() for name in ("requirements/dev.txt", "pyproject.toml")))
    wanted = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    if mark.exists() and mark.read_text() == wanted:
        return venv
    print(f"python314.py: installing requirements/dev.txt into {venv.name}", flush=True)
    subprocess.run([python, "-m", "venv", "--clear", "--without-pip", venv], check=True)
    # With the pip of the current environment, because the new one has none.
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        venv / "bin" / "python",
        "--disable-pip-version-check",
        "--quiet",
    ]
    subprocess.run([*pip, "install", "--require-hashes", "-r", ROOT / "requirements" / "dev.txt"], check=True)
    subprocess.run([*pip, "install", "--no-deps", "--no-build-isolation", "--editable", ROOT], check=True)
    mark.write_text(wanted)
    return venv


def main(words: list[str]) -> int:
    given = Path(words[1]) if words[:1] == ["--python"] and len(words) > 1 else None
    words = words[2:] if given else words
    try:
        python = given or interpreter()
    except Missing as reason:
        print(f"python314.py: SKIPPED the tests on CPython 3.14: {reason}", flush=True)
        return SKIPPED
    venv = prepare(python)
    one_server = ("-n", os.environ.get("OFFSIDER_TEST_WORKERS", "6"), "--dist", "worksteal", "-k", "not redis7")
    tests = (*one_server, *(EVERY_TEST if given else TESTS))
    command = [venv / "bin" / "python", "scripts/run_tests.py", "-q", *(words or tests)]
    path = f"{venv / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PATH": path, "VIRTUAL_ENV": str(venv)}, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
