"""Errors are reported in a few lines with the location in the user's code."""

from __future__ import annotations

import json

import pytest

from offsider.cli.failure import explain, give_up, user_line


@pytest.fixture
def run_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(text):
        path = tmp_path / "app.py"
        path.write_text(text)
        with pytest.raises(BaseException) as caught:
            exec(compile(text, str(path), "exec"), {})
        return caught.value

    return run


def test_the_line_of_the_user_is_shown(run_file):
    error = run_file("x = 1\nimport json\n\njson.loads('{')\n")
    assert isinstance(error, json.JSONDecodeError)
    assert user_line(error).startswith("app.py:4")
    assert explain("cannot load app", error).splitlines()[1].startswith("  at app.py:4")


def test_the_code_that_a_dataclass_generates_is_not_a_line_of_the_user(run_file):
    error = run_file(
        "import json\nmade = compile('json.loads(text)', '<string>', 'eval')\neval(made, {'json': json, 'text': '{'})\n"
    )
    assert user_line(error).startswith("app.py:3")


def test_a_syntax_error_shows_its_own_line():
    error = SyntaxError("invalid syntax", ("/elsewhere/app.py", 3, 1, "def x(:\n"))
    text = explain("cannot load app", error)
    assert text == "cannot load app: SyntaxError: invalid syntax\n  at /elsewhere/app.py:3: def x(:"


def test_importing_models_too_early_explains_how_to_set_up_django(run_file):
    # Raised by hand, because another test of this process may have set Django up.
    error = run_file("from django.core.exceptions import AppRegistryNotReady\nraise AppRegistryNotReady('early')")
    assert "call django.setup() before the models are imported" in explain("cannot load app", error)


def test_an_error_without_a_line_of_user_code_has_one_line():
    assert explain("x", ValueError("a\nb")) == "x: ValueError: a"


def test_the_traceback_is_shown_only_on_request(run_file, capsys):
    error = run_file("1 / 0")
    assert give_up("no", error) == 1
    assert capsys.readouterr().err == "offsider: no\n"
    assert give_up("no", error, verbose=True) == 1
    assert "ZeroDivisionError: division by zero" in capsys.readouterr().err
