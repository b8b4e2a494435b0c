"""Messages explained on the troubleshooting page exist in the code."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.docs.snippets import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"


def messages() -> list[str]:
    """The inline code in the first column of a table."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [message for row in rows for message in re.findall(r"`([^`]+)`", row.split(" | ")[0])]


@cache
def output() -> list[str]:
    """Every text in the code, with a placeholder for each value."""
    found: list[str] = []
    for path in (ROOT / "src" / "offsider").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(re.sub(r"%(\.\d)?[a-z]", "…", node.value))
    return found


@pytest.mark.parametrize("message", [m for m in messages() if m not in {"at FILE:LINE", "QueueFull"}])
def test_a_message_is_one_of_the_code(message):
    parts = [re.escape(part.strip()) for part in message.split("…")]
    wanted = re.compile(".*".join(part for part in parts if part), re.DOTALL)
    assert any(wanted.search(text) for text in output()), message


def test_the_page_explains_many_messages():
    assert len(messages()) > 30


def test_a_log_line_that_the_doctor_quotes_is_one_of_the_code():
    quoted = {text for each in output() for text in re.findall(r"logs for '([^']+)'", each)}
    assert quoted
    for text in quoted:
        assert any(text in each and f"'{text}'" not in each for each in output()), text
