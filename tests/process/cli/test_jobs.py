"""``offsider jobs``: the declarations of an application, printed and stored in a file."""

from __future__ import annotations

import json

from tests.process.cli.commands import SHOP, offsider


def test_every_job_is_listed_with_its_queue(tmp_path):
    (tmp_path / "shop.py").write_text(SHOP)
    ended = offsider(tmp_path, "jobs", "list", "-r", "shop")
    assert ended.returncode == 0, ended.stderr
    lines = [line.split() for line in ended.stdout.splitlines()]
    assert lines[0][:3] == ["NAME", "QUEUE", "URGENCY"]
    assert lines[1] == ["shop.ReportJob", "low", "low", "none", "-", "-", "-"]
    assert lines[2] == ["shop.resize", "default", "low", "cpu", "media", "yes", "-"]
    assert lines[3] == ["shop.welcome", "default", "high", "none", "-", "-", "mail"]


def test_without_a_word_the_jobs_of_the_configuration_are_listed(tmp_path):
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "offsider.toml").write_text('[worker]\nrequire = "shop"\n')
    ended = offsider(tmp_path, "jobs", "list")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == offsider(tmp_path, "jobs", "list", "-r", "shop").stdout


def test_jobs_that_promise_more_than_they_can_keep_are_noted_below_the_list(tmp_path):
    urgent = "from offsider import job\n\n@job(urgency='high', resource_boundary='memory')\ndef load(): ...\n"
    (tmp_path / "urgent.py").write_text(urgent)
    ended = offsider(tmp_path, "jobs", "list", "-r", "urgent")
    assert ended.stdout.splitlines()[-1].startswith("note: urgent.load is of high urgency and is limited by memory")


def test_a_manifest_is_written_and_compared(tmp_path):
    shop, file = tmp_path / "shop.py", tmp_path / "jobs.json"
    shop.write_text(SHOP)
    (tmp_path / "offsider.toml").write_text('[worker]\nrequire = "shop"\n[routing]\nrules = [["*", "all"]]\n')
    assert offsider(tmp_path, "jobs", "manifest", "-o", "jobs.json").stdout == ""
    printed = offsider(tmp_path, "jobs", "manifest").stdout
    assert printed == file.read_text("utf-8")
    assert {job["queue"] for job in json.loads(printed)["jobs"]} == {"all"}
    same = offsider(tmp_path, "jobs", "manifest", "--check", "jobs.json")
    assert (same.returncode, same.stdout) == (0, "")
    shop.write_text(SHOP.replace("path: str", "path: str, width: int = 100").replace("def welcome", "def hello"))
    changed = offsider(tmp_path, "jobs", "manifest", "--check", "jobs.json")
    assert changed.returncode == 1
    lines = changed.stdout.splitlines()
    assert lines[:2] == ["--- jobs.json", "+++ application"]
    assert {'+      "name": "shop.hello",', '+          "name": "width",', '-      "name": "shop.welcome",'} <= {*lines}
    assert any('"name": "shop.resize"' in line for line in lines)
    assert "jobs.json is out of date" in changed.stderr


def test_a_file_error_is_one_message(tmp_path):
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "jobs.json").write_bytes(b"\xff{")
    for words, complaint in {
        ("list",): "no application given: -r MODULE",
        ("list", "-r", "nothing"): "no module 'nothing'",
        ("manifest", "-r", "shop", "--check", "jobs.json"): "jobs.json is out of date",
        ("diff", "-r", "shop", "jobs.json"): "jobs.json is not a manifest",
        ("manifest", "-r", "shop", "-o", "no/such/folder.json"): "No such file or directory",
    }.items():
        ended = offsider(tmp_path, "jobs", *words)
        assert ended.returncode == 1
        assert complaint in ended.stderr
        assert "Traceback" not in ended.stderr
