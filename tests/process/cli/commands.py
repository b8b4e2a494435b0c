"""A small application, and the command line run on it."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, chdir
from importlib import invalidate_caches
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from click.testing import CliRunner

from offsider.cli.main import main
from offsider.config.default import set_default_config
from offsider.jobs import registry
from offsider.logs.setup import logger

SHOP = """\
from offsider import Job, job


@job(urgency="high", tags=["mail"])
def welcome(user_id: int) -> None: ...


@job(resource_boundary="cpu", feature_category="media", external_dependencies=True)
def resize(path: str) -> None: ...


class ReportJob(Job, queue="low"):
    def perform(self, title): ...
"""


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def offsider(folder: Path, *words: str, **environ: str) -> Ended:
    """Run a command in a folder, without a configuration, variables, jobs or modules from elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OFFSIDER_")}
    paths = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    with ExitStack() as stack:
        stack.enter_context(chdir(folder))
        stack.enter_context(patch.dict(os.environ, kept | {"REDIS_URL": "redis://127.0.0.1:1"} | environ, clear=True))
        stack.enter_context(patch.object(sys, "path", [*paths, *sys.path]))
        stack.enter_context(patch.object(sys, "dont_write_bytecode", new=True))
        stack.enter_context(registry.isolated())
        stack.enter_context(patch.dict("offsider.jobs.registry._jobs", clear=True))
        stack.callback(set_default_config, set_default_config(None))
        stack.callback(forget_modules, (str(folder), *paths), set(sys.modules))
        stack.callback(logger.setLevel, logger.level)
        stack.enter_context(patch.object(logger, "handlers", logger.handlers[:]))
        invalidate_caches()
        result = CliRunner().invoke(main, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ended(result.exit_code, result.stdout, result.stderr)


def forget_modules(paths: tuple[str, ...], before: set[str]) -> None:
    for name in sys.modules.keys() - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(paths):
            del sys.modules[name]
