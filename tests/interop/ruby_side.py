"""Real Ruby for the tests: the installed Sidekiqs, their processes, and a console in which their API is called."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

RUBY = Path(__file__).parent / "ruby"
#: Names the program `sidekiq` of another version, with `ruby` and `puma` beside it.
ANOTHER = "OFFSIDER_TEST_SIDEKIQ"


@dataclass(frozen=True)
class Sidekiq:
    """An installed Sidekiq: a folder with its programs, or Debian's when empty."""

    folder: str = ""

    @cached_property
    def version(self) -> str:
        """For example ``"8.1.7"``."""
        reported = subprocess.run([self.program("sidekiq"), "--version"], capture_output=True, text=True, check=True)
        return reported.stdout.split()[1]

    @property
    def wire_version(self) -> int:
        return int(self.version.partition(".")[0])

    def program(self, name: str) -> str:
        return str(Path(self.folder) / name)


def sidekiqs() -> dict[str, Sidekiq]:
    """Each Sidekiq that the tests play with, by a name for the test's id."""
    found = {"debian": Sidekiq()}
    named = os.environ.get(ANOTHER)
    if named:
        program = Path(named).absolute()
        if program.name != "sidekiq" or not program.is_file():
            raise FileNotFoundError(f"{ANOTHER} names no program `sidekiq`: {named}")
        found["named"] = Sidekiq(str(program.parent))
    return found


class RubyConsole:
    """A Ruby process with Sidekiq's client and API loaded: ``console("Sidekiq::Stats.new.enqueued")``.

    The result has to be JSON; keywords become Ruby's local variables.
    """

    def __init__(self, sidekiq: Sidekiq, environ: dict[str, str], log: Path) -> None:
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sidekiq.program("ruby"), str(RUBY / "console.rb")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environ,
                text=True,
                encoding="utf-8",
            )
        self._log = log

    def __call__(self, code: str, **given: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([code, given]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the Ruby console ended:\n{self._log.read_text()}"
        result, error = json.loads(line)
        assert error is None, f"{code}\n{error}"
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()


def start_sidekiq(sidekiq: Sidekiq, environ: dict[str, str], log: Path, *options: str) -> subprocess.Popen[bytes]:
    """A worker with the jobs of app.rb."""
    with log.open("wb") as output:
        return subprocess.Popen(
            [sidekiq.program("sidekiq"), "-r", str(RUBY / "app.rb"), "-t", "1", *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environ,
            cwd=log.parent,
        )


def start_pages(sidekiq: Sidekiq, environ: dict[str, str], log: Path, port: int) -> subprocess.Popen[bytes]:
    """Sidekiq::Web in puma."""
    bind = f"tcp://127.0.0.1:{port}"
    with log.open("wb") as output:
        return subprocess.Popen(
            [sidekiq.program("puma"), "--bind", bind, "--environment", "production", str(RUBY / "web.ru")],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environ,
            cwd=log.parent,
        )
