"""The manifest of an application at a git revision: extracted with `git archive`, loaded in another process."""

import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from offsider.cli.command import Connection
from offsider.core.errors import ConfigurationError, OffsiderError
from offsider.jobs.manifest import manifest

ANSWER = ".offsider-manifest.json"
TIMEOUT_SECONDS = 120


def manifest_of_revision(revision: str, connection: Connection) -> dict[str, Any]:
    """Load the application of the current folder as of a revision, with the same options in another process."""
    with tempfile.TemporaryDirectory(prefix="offsider-revision-", ignore_cleanup_errors=True) as folder:
        paths = [folder, f"{folder}/src", os.environ.get("PYTHONPATH", folder)]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            files = _run("git", "archive", "--format=zip", "--end-of-options", f"{revision}^{{commit}}")
            zipfile.ZipFile(io.BytesIO(files)).extractall(folder)
            _run(sys.executable, "-m", "offsider.cli.revision", json.dumps(asdict(connection)), cwd=folder, env=environ)
        except (OSError, subprocess.SubprocessError) as error:
            output = bytes(getattr(error, "stderr", None) or b"").decode(errors="replace").strip() or str(error)
            reason = f"cannot be loaded as a git revision: {output.splitlines()[-1]}"
            raise ConfigurationError(f"{revision} is not a manifest file, and {reason}") from None
        return cast("dict[str, Any]", json.loads(Path(folder, ANSWER).read_text("utf-8")))


def _run(*command: str, cwd: str = ".", env: dict[str, str] | None = None) -> bytes:
    ended = subprocess.run(  # noqa: S603  # git, or this module
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=TIMEOUT_SECONDS
    )
    return ended.stdout


if __name__ == "__main__":
    here = Path.cwd()
    try:
        config = Connection(**json.loads(sys.argv[1])).load_declarations()
        for name in config.worker.require:
            path = Path(getattr(sys.modules.get(name), "__file__", None) or name).resolve()
            if not path.is_relative_to(here.resolve()):
                # An installed application is the current one: a comparison with itself would hide every change.
                raise ConfigurationError(f"{name} was found in {path}; compare files of `offsider jobs manifest`")
        (here / ANSWER).write_text(json.dumps(manifest(config)), "utf-8")
    except OffsiderError as error:
        sys.exit(" ".join(str(error).split()))
