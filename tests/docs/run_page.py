"""Runs the snippets of one page from top to bottom: `python run_page.py PAGE`, in an empty folder.

    python       executed, all blocks of a page in one namespace; `await` is allowed
    bash, sh     lines that call `offsider` or `dev.py` must be ones these understand
    toml         loaded as `offsider.toml`, or as `pyproject.toml` when it has a table [tool...]
    yaml         parsed
    json         parsed

A page has a process of its own, so that the jobs, settings and middleware of one page do not reach the next.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import subprocess
import sys
import tomllib
import types
from pathlib import Path

from tests.docs.snippets import Snippet, snippets

BASH_SECONDS = 120


def main(page: Path) -> None:
    module = types.ModuleType("page")
    sys.modules["page"] = module  # jobs are named by their module
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as python itself does it
    for snippet in snippets(page.read_text()):
        try:
            run(snippet, page, module)
        except BaseException as error:
            error.add_note(f"in the snippet at {page}:{snippet.line}")
            raise


def run(snippet: Snippet, page: Path, module: types.ModuleType) -> None:
    match snippet.word, snippet.language:
        case "skip", _:
            pass
        case "file", _:
            target = Path(snippet.rest)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(snippet.text)
        case "run", _:
            command = ["bash", "-euo", "pipefail", "-c", snippet.text]
            programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
            subprocess.run(
                command, check=True, timeout=BASH_SECONDS, env=os.environ | {"PYTHONPATH": ".", "PATH": programs}
            )
        case "pytest", _:
            Path("test_page.py").write_text(snippet.text)
            subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page.py"], check=True)
        case "config", _:
            load(snippet.text, snippet.rest)
        case "raises", "python":
            expect(snippet, page, module)
        case _, "python":
            execute(snippet, page, module)
        case _, "bash" | "sh" | "console":
            from tests.docs import commands

            commands.check(snippet.text)
        case _, "toml":
            load(snippet.text, "pyproject.toml" if "tool" in tomllib.loads(snippet.text) else "offsider.toml")
        case _, "yaml":
            import yaml

            list(yaml.safe_load_all(snippet.text))
        case _, "json":
            json.loads(snippet.text)
        case _:
            pass


def execute(snippet: Snippet, page: Path, module: types.ModuleType) -> None:
    text = "\n" * (snippet.line - 1) + snippet.text  # a traceback then shows the page's own lines
    code = compile(text, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, vars(module))
    if inspect.iscoroutine(result):
        asyncio.run(result)


def expect(snippet: Snippet, page: Path, module: types.ModuleType) -> None:
    try:
        execute(snippet, page, module)
    except Exception as error:
        if type(error).__name__ != snippet.rest:
            raise
    else:
        raise AssertionError(f"expected {snippet.rest}")


def load(text: str, name: str) -> None:
    """Load it as a configuration file of an otherwise empty folder."""
    from offsider import Config

    folder = Path(f"config-{len(list(Path().glob('config-*')))}")
    path = folder / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    Config.load(environ=os.environ, cwd=folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
