"""The screen of errors."""

from __future__ import annotations

import json
import time

import pytest

from offsider.config.installation import Installation
from offsider.core.error_text import Frame
from offsider.core.series import Series
from offsider.inspector import Deploys
from offsider.storage import attempts, run_counts
from offsider.storage.attempts import LogLine, NewAttempt
from offsider.testing import FakeClock
from tests.redis.cli.commands import command
from tests.redis.errors import failed_run, note_errors
from tests.redis.web.blocks import bars, facts, rows

NOON = 1_795_262_400.0  # 2026-11-21 12:00:00 UTC
TAX = Frame("shop.py", "tax_rate", 37)
TRACEBACK = """Traceback (most recent call last):
  File "/srv/app/shop.py", line 9, in create
    return client.call(country)
  File "/usr/lib/python3.11/functools.py", line 40, in inner
    return call()
  File "/venv/lib/python3.11/site-packages/lib.py", line 4, in call
    run()
  File "/srv/app/shop.py", line 37, in tax_rate
    return RATES[country]
KeyError: 'secret FR\'"""


@pytest.fixture(autouse=True)
def noon(config):
    config.clock = FakeClock(NOON + 30)


@pytest.fixture
def failed(config):
    """failed(12, release="v42", user="kim"): failed runs of the same job class and frame."""

    def failed(count=1, *, at=NOON, message="'FR'", name="Invoice", **fields):
        runs = [
            failed_run(at, message, name, "KeyError", **({"frame": TAX, "jid": "j1"} | fields)) for _ in range(count)
        ]
        note_errors(Installation.of(config).redis, *runs, traceback=TRACEBACK)
        return runs[0].group

    return failed


@pytest.fixture
def jobs(raw_redis, config):
    """jobs("dead", 10, "FR"): jobs of the group."""

    def jobs(where, count, country, *, first=0, at=NOON):
        for number in range(first, first + count):
            job = {"class": "Invoice", "args": [number, country], "jid": f"{number:024}", "queue": "q", "failed_at": at}
            job |= {"error_class": "KeyError", "error_message": repr(country), "error_frame": TAX.name}
            raw_redis.zadd(where, {json.dumps(job): at})

    return jobs


def test_groups_have_jobs_deaths_and_a_trend_in_an_order_that_errors_do_not_change(failed, read, ask):
    old = failed(3, at=NOON - 1_000)
    new = failed(2, at=NOON - 600, name="Mail", died=True)
    shown = rows(read("/error"), "Errors")
    assert [(row["Class"], row["Error"], row["Where"]) for row in shown] == [
        ("Mail", "KeyError", "shop.py:37 tax_rate"),
        ("Invoice", "KeyError", "shop.py:37 tax_rate"),
    ]
    failed(1, is_first=False)
    again = rows(read("/error"), "Errors")
    assert [row["Class"] for row in again] == ["Mail", "Invoice"], "it failed last, and stays where it was"
    assert [(row["Jobs"], row["Runs"], row["Dead"], sum(row["Last hour"])) for row in again] == [
        (2, 2, 2, 2),
        (3, 4, 0, 4),
    ]
    assert [row["Class"] for row in rows(read("/error", "order=jobs"), "Errors")] == ["Invoice", "Mail"]
    assert all(f'href="/error/{group}"' in ask("/error").body.decode() for group in (old, new))


def test_a_group_shows_when_where_and_for_whom_it_happens(config, failed, read, ask):
    Deploys(config).mark("v42", at=NOON - 120)
    failed(1, at=NOON - 300, release="v41", host="web-1:1", tenant="acme", user="kim", caller="GET /cart")
    group = failed(3, release="v42", host="web-2:1", tenant="globex", user="lee")
    page = read(f"/error/{group}")
    found = facts(page, "Error")
    assert (found["Jobs"], found["Failed runs"], found["Dead"], found["Users"]) == (4, 4, 0, 2)
    assert (found["First release"], found["Last release"], found["Last"]) == ("v41", "v42", NOON)
    series = bars(page, "Failed runs by release per minute")
    assert {release: (sum(values), values[-1]) for release, values in series.items()} == {"v41": (1, 0), "v42": (3, 3)}
    who = {(row["What"], row["Value"]): (row["Failed runs"], row["Share"]) for row in rows(page, "Who")}
    assert (who["Release", "v42"], who["Tenant", "acme"]) == ((3, "75 %"), (1, "25 %"))
    assert who["Caller", "GET /cart"] == (1, "25 %")
    links = [link["path"] for link in found["Act on its jobs"]]
    assert links[2] == f"/jobs?where=retry%2Cdead&class=Invoice&error={group}&failed=10m"
    assert ask("/error/beef").status == 404
    answer = ask(f"/errors/{group}")
    assert (answer.status, dict(answer.headers)["location"]) == (302, f"/error/{group}")


def test_frames_of_libraries_are_folded(failed, read):
    parts = [each for each in read(f"/error/{failed()}")["blocks"] if each["is"] == "text"]
    assert [each["folded"] for each in parts] == ["", "2 frames of libraries", ""]
    assert "\n".join(each["text"] for each in parts) == TRACEBACK


def test_common_arguments_and_the_last_jobs_are_shown_with_their_log(config, failed, jobs, read):
    group = failed()
    jobs("retry", 30, "FR", at=NOON - 60)
    jobs("dead", 10, "IT", first=30)
    jobs("dead", 10, None, first=40, at=NOON - 900)
    attempt = {"number": 1, "at": NOON, "host": "h:1", "error_class": "E", "error_message": "m", "duration": 0.5}
    line = LogLine(NOON, "INFO", "the rate of IT")
    for number in range(30, 40):
        new = NewAttempt(f"{number:024}", NOON, json.dumps(attempt).encode(), 60.0, [line])
        attempts.add(Installation.of(config).redis, [new], NOON)
    page = read(f"/error/{group}")
    assert [tuple(row.values()) for row in rows(page, "Arguments of 50 jobs")] == [
        ("Argument 2", "'FR'", "60 %"),
        ("Argument 2", "'IT'", "20 %"),
        ("Argument 2", "None", "20 %"),
    ]
    last = rows(page, "Last jobs")
    assert len(last) == 5
    assert {row["Failed"] for row in last} == {NOON}
    assert all('"IT"' in row["Arguments"] for row in last)
    logs = [each for each in page["blocks"] if each["is"] == "text" and "log lines" in each["folded"]]
    assert [each["text"] for each in logs] == ["INFO the rate of IT"] * 5
    assert [each["folded"] for each in logs] == [f"1 log lines of {row['JID']}" for row in last]


def test_nothing_of_redacted_arguments_is_shown(failed, jobs, ask_with):
    ask = ask_with(redact=lambda name, args, kwargs: (["[hidden]"] * len(args), {}))
    group = failed(message="secret FR", tenant="secret tenant", user="secret user", caller="secret caller")
    jobs("dead", 30, "secret FR")
    for path in ("/error", f"/error/{group}"):
        for accept in ("text/html", "application/json"):
            page = ask(path, accept=accept).body.decode()
            assert "KeyError" in page
            assert "secret" not in page
    assert "tax_rate" in page


def test_a_resolved_error_returns_in_that_release_or_a_later_one(config, failed, read, ask):
    series = Series({"class": "Invoice", "queue": "q"}, 1)
    for release in ("v41", "v42", "v43"):
        run_counts.add(Installation.of(config).redis, [series], NOON, wire_version=8, release=release)
    group = failed(2, release="v42")

    def state():
        return rows(read("/error"), "Errors")[0]["State"]

    def post(action, body=""):
        return ask(f"/error/{group}/{action}", method="POST", body=body)

    assert state() == ""
    assert post("resolve", "release=v43").status == 303
    assert state() == "resolved"
    failed(release="v42")
    failed(release="v41")
    assert state() == "resolved", "processes of older releases still run"
    failed(release="v44")
    assert state() == "returned"
    assert "Returned: it was resolved" in ask(f"/error/{group}").body.decode()
    post("resolve", "release=v44")
    assert state() == "resolved"
    failed(release="v44")
    assert state() == "returned"
    post("resolve")
    assert state() == "resolved"
    failed()
    assert state() == "returned", "a process without a release"
    post("resolve")
    assert post("reopen").status == 303
    assert state() == ""
    assert post("reopen").status == 404


def test_a_group_is_muted_for_some_hours_and_deleted(config, failed, read, ask, ask_with):
    group = failed()
    assert ask(f"/error/{group}/mute", method="POST", body="hours=0").status == 400
    assert ask(f"/error/{group}/mute", method="POST", body="hours=2").status == 303
    assert rows(read("/error"), "Errors")[0]["State"] == "muted"
    assert "Muted until 2026-11-21 14:00 UTC." in ask(f"/error/{group}").body.decode()
    config.clock = FakeClock(NOON + 2 * 3600 + 60)
    assert rows(read("/error"), "Errors")[0]["State"] == ""
    assert ask_with(read_only=True)(f"/error/{group}/delete", method="POST").status == 403
    assert ask(f"/error/{group}/delete", method="POST").status == 303
    assert rows(read("/error"), "Errors") == []
    for action in ("delete", "mute", "resolve"):
        body = "hours=1" if action == "mute" else ""
        assert ask(f"/error/{group}/{action}", method="POST", body=body).status == 404


def test_all_groups_are_deleted_with_their_number(failed, read, ask):
    failed()
    failed(name="Mail")
    assert json.loads(ask("/error/clear", method="POST", body="every=yes", accept="application/json").body) == {
        "done": "Deleted groups: 2"
    }
    assert rows(read("/error"), "Errors") == []


def test_the_terminal_shows_and_resolves_errors(redis_url, monkeypatch, tmp_path, failed):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", redis_url)
    group = failed(4, at=time.time())
    show = command("show")
    assert [line.split()[:3] for line in show("errors").output.splitlines() if "tax_rate" in line] == [
        ["KeyError", "Invoice", "shop.py:37"]
    ]
    output = show("error", group).output
    assert "█  total 4" in output
    assert "RATES[country]" in output
    do = command("do")
    assert do("errors", f"{group}/resolve", "release=v43").output == f"Resolved: {group} in v43\n"
    assert "resolved" in show("errors").output
