"""The one door to the tools keeps its promises: its words, and the aliases for them."""

from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
WORDS = {"demo", "test", "full", "quick", "lint", "types", "bench", "scoreboard", "docs", "release", "lock"}


def dev(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "dev.py", *words], cwd=ROOT, capture_output=True, text=True, check=False)


def test_without_a_word_it_lists_them_all():
    ended = dev()
    assert ended.returncode == 0
    assert set(re.findall(r"dev\.py (\w+)", ended.stdout)) == WORDS


def test_an_unknown_command_is_an_error():
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


def test_ci_prints_why_it_skips_an_unavailable_interpreter(tmp_path):
    """No apt, no python3.14, nothing in the cache."""
    note = tmp_path / "skipped"
    environ = os.environ | {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "OFFSIDER_TEST_SKIPS": str(note)}
    command = [sys.executable, "scripts/another_python.py"]
    ended = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert ended.returncode == 77
    assert "SKIPPED the tests on CPython 3.14: apt-get is not installed" in ended.stdout
    assert note.read_text() == "1 x CPython 3.14: apt-get is not installed\n"
    assert "SKIPPED = 77" in (ROOT / "dev.py").read_text()


def test_the_last_line_counts_skipped_tests_of_all_steps(tmp_path, monkeypatch, capsys):
    program = importlib.import_module("dev")
    monkeypatch.setattr(program, "SKIPS", tmp_path / "skips")
    assert program._summary({"lint": 0, "python 3.14": program.SKIPPED}) == 0
    (tmp_path / "skips").write_text(
        "2 x needs puma: install it\n3 x on a Cluster: a reason\n1 x needs puma: install it\n1 x a CPython: gone\n"
    )
    assert program._summary({"lint": 0, "types": 1}) == 1
    assert capsys.readouterr().out.splitlines() == [
        "dev.py: passed: lint",
        "dev.py: failed: types; skipped: 3 x needs puma: install it; 3 x on a Cluster: a reason; 1 x a CPython: gone",
    ]


TESTS = """
    import pathlib

    def test_passes(): pass

    def test_passes_the_second_time():
        seen = pathlib.Path(__file__).with_name("seen")
        if not seen.exists():
            seen.touch()
            raise AssertionError("the first time")

    def test_fails_twice(): assert 0
"""


def run_tests(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_them.py").write_text(dedent(text))
    (folder / "pytest.ini").touch()
    # Variables of the run around this one are not meant for it.
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COVERAGE_"))}
    command = [sys.executable, "scripts/run_tests.py", "-c", str(folder / "pytest.ini"), str(folder)]
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)


def test_only_a_test_that_passes_alone_is_listed_as_flaky_and_the_run_fails(tmp_path):
    ended = run_tests(tmp_path, TESTS)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert ended.stdout.rstrip().endswith("FLAKY, passed when run alone: test_them.py::test_passes_the_second_time")


def test_many_failures_are_not_repeated(tmp_path):
    ended = run_tests(tmp_path, TESTS + "".join(f"\n    def test_{n}(): assert 0" for n in range(6)))
    assert ended.returncode == 1
    assert "once more" not in ended.stdout


def test_a_program_interrupted_by_ctrl_c_may_clean_up(tmp_path):
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
