"""A virtual environment for each rival, below .venv-rivals/: their requirements exclude each other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from bench.compare.contestant import Contestant

ROOT = Path(__file__).resolve().parents[2]
RIVALS = ROOT / ".venv-rivals"


def programs_of(contestant: Contestant) -> Path:
    """The folder of its programs, installed first when they are not there in these versions."""
    if not contestant.requirements:
        return Path(sys.executable).parent
    folder = RIVALS / contestant.environment
    mark = folder / "installed"
    wanted = "\n".join((sys.version, *contestant.requirements))
    if not mark.is_file() or mark.read_text() != wanted:
        print(f"installing {' '.join(contestant.requirements)} into {folder.relative_to(ROOT)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = (folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
        subprocess.run([*pip, *contestant.requirements], check=True)
        mark.write_text(wanted)
    return folder / "bin"


def is_available(contestant: Contestant) -> bool:
    """Whether what has to be on the machine is there: a rival without requirements is a program of Debian's."""
    return contestant.is_python or shutil.which(contestant.environment) is not None
