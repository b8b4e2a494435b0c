"""The one door to the tools keeps its promises: its words, and the aliases for them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORDS = {"demo", "test", "quick", "lint", "types", "bench", "scoreboard", "docs", "lock"}


def dev(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "dev.py", *words], cwd=ROOT, capture_output=True, text=True, check=False)


def test_without_a_word_it_lists_them_all():
    ended = dev()
    assert ended.returncode == 0
    assert set(re.findall(r"dev\.py (\w+)", ended.stdout)) == WORDS


def test_a_word_it_does_not_know_is_an_error():
    assert dev("tset").returncode == 2


def test_make_has_an_alias_for_every_word():
    assert set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)) == WORDS


def test_it_needs_nothing_but_the_standard_library():
    imported = re.findall(r"^(?:import|from) (\w+)", (ROOT / "dev.py").read_text(), re.MULTILINE)
    assert set(imported) <= sys.stdlib_module_names


def test_ci_runs_the_same_word_as_people_do():
    text = (ROOT / ".ci" / "run").read_text()
    assert "export CI=true" in text
    assert "exec python3 dev.py test" in text


def test_ci_says_why_it_skips_an_interpreter_that_cannot_be_had(tmp_path):
    """No apt, no python3.14, nothing in the cache."""
    environ = os.environ | {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "scripts/python314.py"]
    ended = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert ended.returncode == 77
    assert "SKIPPED the tests on CPython 3.14: apt-get is not installed" in ended.stdout
    assert "SKIPPED = 77" in (ROOT / "dev.py").read_text()


def test_a_program_that_gets_ctrl_c_may_end_in_its_own_way(tmp_path):
    lines = (
        "import signal, sys, time",
        "signal.signal(signal.SIGINT, signal.default_int_handler)",
        "try: print('up', flush=True); signal.pause()",
        "except KeyboardInterrupt: time.sleep(1)",
        "print('cleaned up', flush=True)",
        "sys.exit(7)",
    )
    (tmp_path / "slow.py").write_text("\n".join(lines))
    # Programs in the background of a shell ignore the signal, and hand that on to their children.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    call = f"{heed}; import dev, sys; sys.exit(dev.run(sys.executable, {str(tmp_path / 'slow.py')!r}))"
    with subprocess.Popen(
        [sys.executable, "-c", call], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as outer:
        assert outer.stdout is not None
        assert outer.stdout.readline() == "up\n"
        os.killpg(outer.pid, signal.SIGINT)
        assert outer.stdout.read() == "cleaned up\n"
        assert outer.wait() == 7
