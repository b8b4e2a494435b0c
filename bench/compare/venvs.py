"""Creates a virtual environment per rival below .venv-rivals/, because their requirements conflict."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from bench.compare.contestant import Contestant

ROOT = Path(__file__).resolve().parents[2]
RIVALS = ROOT / ".venv-rivals"


def programs_of(contestant: Contestant) -> Path:
    """Return the folder of its programs; install them first unless these versions are installed."""
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
    """Return whether the rival can run: one without requirements must be installed on the machine."""
    return contestant.is_python or shutil.which(contestant.worker(Path(), 1)[0]) is not None
