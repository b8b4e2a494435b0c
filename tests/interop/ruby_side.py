"""Real Ruby for the tests: a Sidekiq process, and a console in which its API is called."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

RUBY = Path(__file__).parent / "ruby"


class RubyConsole:
    """A Ruby process with Sidekiq's client and API loaded: ``console("Sidekiq::Stats.new.enqueued")``.

    The result has to be JSON; keywords become Ruby's local variables.
    """

    def __init__(self, environ: dict[str, str], log: Path) -> None:
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                ["ruby", str(RUBY / "console.rb")],
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


def start_sidekiq(environ: dict[str, str], log: Path, *options: str) -> subprocess.Popen[bytes]:
    """Debian's ``sidekiq`` with the jobs of app.rb."""
    with log.open("wb") as output:
        return subprocess.Popen(
            ["sidekiq", "-r", str(RUBY / "app.rb"), "-t", "1", *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environ,
            cwd=log.parent,
        )


def start_pages(environ: dict[str, str], log: Path, port: int) -> subprocess.Popen[bytes]:
    """Debian's ``puma`` with Sidekiq::Web."""
    with log.open("wb") as output:
        return subprocess.Popen(
            ["puma", "--bind", f"tcp://127.0.0.1:{port}", "--environment", "production", str(RUBY / "web.ru")],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environ,
            cwd=log.parent,
        )
