"""Run tests on another CPython: `python scripts/another_python.py [--python 3.13|3.14|PATH] [PYTEST ARGUMENTS ...]`.

Without ``--python``: CPython 3.14, the unit and redis tests, on Redis 7, measuring their coverage. With it: all unit,
redis and process tests, on Valkey. Standard library only.

1. Find the interpreter: the path, or `python3.14` on PATH.
2. Otherwise download the packages of Debian's `forky` from the mirror of this machine's apt into a cache folder, and
   unpack them there with their own libc. This installs nothing and needs no root.
3. Install requirements/dev.txt (checked by hash) and this project into `.venv-3.14` or similar. On a free-threaded
   CPython some packages are left out, with a message (`LEFT_OUT`).
4. Run scripts/run_tests.py there.

If the interpreter is not available, the exit code is SKIPPED. It prints the reason and notes it for the
last line of `dev.py test`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "offsider"
SKIPPED = 77
#: Those of 3.14, where measuring coverage costs least (coverage.py uses sys.monitoring there). dev.py starts the
#: interpreter that it is run with.
TESTS = (
    "--coverage",
    "tests/unit",
    "tests/redis",
    "tests/contract",
    "--ignore=tests/contract/test_dev.py",
    "tests/process/worker/test_time_limits.py",
)
EVERY_TEST = ("tests/unit", "tests/redis", "tests/process")
TAG = "import sys; print('%d.%d' % sys.version_info[:2] + sys.abiflags, end='')"
#: Exits with 0 if the interpreter is complete and has the GIL. Debian has no free-threaded builds.
WHOLE = "import ctypes, sqlite3, ssl, sys, venv; sys.exit(not getattr(sys, '_is_gil_enabled', lambda: True)())"
#: Packages of requirements/dev.txt that are not installed on a free-threaded CPython, and why.
LEFT_OUT = {
    "gevent": "there is no wheel",
    "psycopg-binary": "there is no wheel",
    "hiredis": "it turns the GIL on, and tests import redis-py first",
}
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
#: Time limit of a step; the download is the longest.
PATIENCE_SECONDS = 300


class Missing(Exception):
    """The interpreter is not available; the message has the reason."""


def interpreter(version: str) -> Path:
    """Return the path of a CPython of this version with the GIL."""
    found = shutil.which(f"python{version}")
    if found is not None and is_whole(Path(found)):
        return Path(found)
    folder = CACHE / f"python{version}"
    cached = folder / "usr" / "bin" / f"python{version}"
    if not is_whole(cached):
        download(version, folder)
    if not is_whole(cached):
        raise Missing(f"the interpreter in {folder} does not run")
    return cached


def is_whole(python: Path) -> bool:
    return python.exists() and subprocess.run([python, "-c", WHOLE], check=False, capture_output=True).returncode == 0


def download(version: str, folder: Path) -> None:
    for program in ("apt-get", "dpkg-deb", "patchelf"):
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed")
    mirror = debian_mirror()
    print(f"another_python.py: downloading CPython {version} into {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="offsider-apt-") as apt:
        fetch_packages(version, Path(apt), mirror)
        folder.mkdir(parents=True)
        for package in Path(apt, "cache", "archives").glob("*.deb"):
            must("dpkg-deb", "-x", str(package), str(folder))
    use_own_libraries(version, folder)


def debian_mirror() -> str:
    """Return the URL of the Debian mirror that this machine uses."""
    targets = must("apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)", "Created-By: Packages")
    for line in targets.splitlines():
        origin, label, *address = line.split()
        if (origin, label) == ("Debian", "Debian") and address:
            return address[0]
    raise Missing("apt has no Debian mirror configured")


def fetch_packages(version: str, folder: Path, mirror: str) -> None:
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
    wanted = ("--yes", "--quiet", "--download-only", "--no-install-recommends", "install", f"python{version}-venv")
    must("apt-get", *options, *wanted)


def use_own_libraries(version: str, folder: Path) -> None:
    """Make the interpreter load every library from its folder, because those of this machine are older."""
    library = next(folder.glob("usr/lib/*/libc.so.6")).parent
    loader = next(path for path in (*library.glob("ld-linux*"), *folder.glob("usr/lib*/ld-linux*")) if path.exists())
    # RPATH, unlike RUNPATH, also applies to indirect dependencies.
    patch = ("patchelf", "--force-rpath", "--set-rpath", str(library))
    must(*patch, "--set-interpreter", str(loader), str(folder / "usr" / "bin" / f"python{version}"))
    for module in folder.glob(f"usr/lib/python{version}/lib-dynload/*.so"):
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
    tag = must(str(python), "-c", TAG)
    venv = ROOT / f".venv-{tag}"
    left_out = LEFT_OUT if tag.endswith("t") else {}
    for package, reason in left_out.items():
        print(f"another_python.py: CPython {tag} runs without {package}: {reason}", flush=True)
    mark = venv / "installed"
    parts = (
        str(python),
        *left_out,
        *((ROOT / name).read_text() for name in ("requirements/dev.txt", "pyproject.toml")),
    )
    wanted = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    if mark.exists() and mark.read_text() == wanted:
        return venv
    print(f"another_python.py: installing requirements/dev.txt into {venv.name}", flush=True)
    subprocess.run([python, "-m", "venv", "--clear", "--without-pip", venv], check=True)
    excluded = venv / "left-out.txt"
    excluded.write_text("\n".join(left_out))
    # With uv: an older pip chooses the wheels of the ordinary CPython for a free-threaded one.
    uv: list[str | Path] = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--quiet",
        "--python",
        venv / "bin" / "python",
    ]
    requirements = ROOT / "requirements" / "dev.txt"
    subprocess.run([*uv, "--require-hashes", "--excludes", excluded, "--requirements", requirements], check=True)
    subprocess.run([*uv, "--no-deps", "--no-build-isolation", "--editable", ROOT], check=True)
    mark.write_text(wanted)
    return venv


def main(words: list[str]) -> int:
    given = words[1] if words[:1] == ["--python"] and len(words) > 1 else ""
    words = words[2:] if given else words
    version = given or "3.14"
    try:
        python = interpreter(version) if re.fullmatch(r"3\.\d+", version) else Path(version)
    except Missing as reason:
        print(f"another_python.py: SKIPPED the tests on CPython {version}: {reason}", flush=True)
        if note := os.environ.get("OFFSIDER_TEST_SKIPS"):
            with Path(note).open("a") as file:
                file.write(f"1 x CPython {version}: {reason}\n")
        return SKIPPED
    venv = prepare(python)
    tests = (
        "-n",
        os.environ.get("OFFSIDER_TEST_WORKERS", "4"),
        "--dist",
        "worksteal",
        *(EVERY_TEST if given else TESTS),
    )
    servers = os.environ.get("OFFSIDER_TEST_SERVERS") or ("valkey" if given else "redis7")
    # Without the GIL, objects that threads share wait for the garbage collector, which may finalize a socket before
    # redis-py's connection closes it. On ordinary builds, such a warning is an error of the tests.
    unclosed = ("-W", "ignore:unclosed <socket:ResourceWarning") if venv.name.endswith("t") else ()
    command = [venv / "bin" / "python", "scripts/run_tests.py", "-q", *unclosed, *(words or tests)]
    path = f"{venv / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    environ = os.environ | {"PATH": path, "VIRTUAL_ENV": str(venv), "OFFSIDER_TEST_SERVERS": servers}
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
