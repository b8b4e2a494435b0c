"""Authentication, permissions, and the common parts of every response."""

from __future__ import annotations

import json
import logging

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.inspector import EventLog
from offsider.web.app import WebApp
from offsider.web.page_request import WebOptions
from offsider.web.request import Request

QUIET = "/fleet/processes/quiet"


def headers(response):
    return dict(response.headers)


@pytest.mark.parametrize(
    "path,more,status",
    [
        ("/", {}, 200),
        ("/none", {}, 404),
        ("/fleet", {"host": "evil.com"}, 403),
        ("/?page", {"method": "PUT"}, 405),
        ("/error/clear", {"method": "PUT"}, 405),
        (QUIET, {"method": "POST", "sec_fetch_site": "cross-site"}, 403),
        ("/assets/none.js", {}, 404),
    ],
)
def test_every_response_has_the_same_headers(ask, path, more, status):
    answer = ask(path, **more)
    assert answer.status == status
    found = headers(answer)
    assert found["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )
    assert found["x-content-type-options"] == "nosniff"
    assert found["referrer-policy"] == "same-origin"
    assert found["cache-control"] == "private, no-store"
    assert found["content-length"] == str(len(answer.body))


def test_assets_are_cached_forever(ask):
    page = ask("/").body.decode()
    file = page.partition('<script src="')[2].partition('"')[0]
    answer = ask(file)
    assert answer.status == 200
    assert headers(answer)["cache-control"] == "public, max-age=31536000, immutable"
    assert headers(answer)["content-type"].startswith("text/javascript")
    assert ask(file, method="POST").status == 405


def test_head_is_get_without_its_body(ask):
    answer = ask("/", method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert ask("/fleet", method="HEAD").body == b""
    assert ask("/none", method="HEAD").status == 404


def test_a_refused_host_name_explains_how_to_allow_it(ask):
    assert b"offsider web --allowed-host NAME" in ask("/", host="jobs.example.com").body


def test_requests_without_authentication_are_refused(ask_with):
    asked = []

    def authenticate(request):
        asked.append(request.path)
        return request.header("x-user") or None

    ask = ask_with(authenticate=authenticate)
    assert ask("/").status == 403
    assert ask(QUIET, method="POST").status == 403
    assert ask("/none").status == 403
    assert ask("/", x_user="kim").status == 200
    assert b">kim<" in ask("/", x_user="kim").body
    assert asked == ["/", QUIET, "/none", "/", "/"]


def test_a_challenge_makes_browsers_ask_for_a_password(ask_with):
    answer = ask_with(authenticate=lambda request: None, challenge='Basic realm="offsider"')("/")
    assert answer.status == 401
    assert headers(answer)["www-authenticate"] == 'Basic realm="offsider"'


@pytest.mark.parametrize("answer", [True, 1, b"kim", ""])
def test_a_hook_without_a_name_refuses_the_request(ask_with, answer):
    assert ask_with(authenticate=lambda request: answer)("/").status == 403


def test_a_failing_hook_refuses_the_request_without_details(ask_with, caplog):
    def authenticate(request):
        raise RuntimeError("the secret is 42")

    answer = ask_with(authenticate=authenticate)("/")
    assert answer.status == 500
    assert b"secret" not in answer.body
    number = answer.body.decode().split()[2].rstrip(".")
    assert f"internal error {number}: " in caplog.text
    assert "the secret is 42" in caplog.text


def test_each_page_and_action_is_authorized_by_its_name(ask_with):
    asked = []

    def authorize(visitor, action):
        asked.append(action)
        return action == "page"

    ask = ask_with(authorize=authorize)
    assert ask("/").status == 200
    refused = ask(QUIET, method="POST", body="confirmed=yes")
    assert refused.status == 403
    assert b"processes.quiet" in refused.body
    assert asked == ["page", "processes.quiet"]
    assert ask_with(authorize=lambda visitor, action: False)("/").status == 403


@pytest.mark.parametrize("answer", [None, 1, "yes", object()])
def test_only_true_grants_access(ask_with, caplog, answer):
    assert ask_with(authorize=lambda visitor, action: answer)("/").status == 403
    assert "only True grants access" in caplog.text


def test_read_only_pages_change_nothing(ask_with, config):
    ask = ask_with(read_only=True)
    assert ask(QUIET, method="POST", body="confirmed=yes").status == 403
    assert len(EventLog(config)) == 0, "any visitor could fill the event log"
    assert b"read-only" in ask("/").body
    assert b'<form method="post" action="/fleet' not in ask("/fleet").body
    assert b"formaction" not in ask("/jobs", "where=retry").body


def test_without_our_script_a_page_asks_for_confirmation(ask):
    question = ask("/controls/drop", method="POST", body="subject=%3Cb%3E&offsider_question=Drop%3F")
    assert question.status == 200
    assert b'<a class="button" href="/fleet">' in question.body
    assert b'<input type="hidden" name="subject" value="&lt;b&gt;">' in question.body
    assert b'name="confirmed" value="yes"' in question.body
    assert ask(QUIET, method="POST", body="every=yes&confirmed=yes").status == 303
    answer = ask(QUIET, method="POST", body="every=yes", accept="application/json")
    assert json.loads(answer.body)["done"] == "Asked to be quiet: no process is running"


def test_each_action_leaves_a_line_in_the_audit_log(ask_with, caplog):
    caplog.set_level(logging.INFO, "offsider.web")
    ask = ask_with(authenticate=lambda request: "kim")
    ask(QUIET, method="POST", body="every=yes&confirmed=yes")
    ask("/fleet/processes/none/stop", method="POST", body="confirmed=yes")
    done, failed = (record for record in caplog.records if record.name == "offsider.web")
    assert (done.fields["who"], done.fields["action"], done.fields["target"]) == (
        "kim",
        "processes.quiet",
        f"{QUIET} every=yes",
    )
    assert done.getMessage().startswith("processes.quiet who=kim client=")
    assert done.getMessage().endswith(f" target={QUIET} every=yes: Asked to be quiet: no process is running")
    assert ": failed: NotFound" in failed.getMessage()


@pytest.mark.parametrize(
    "options,path,more,reported",
    [
        ({}, QUIET, {"method": "POST", "sec_fetch_site": "cross-site"}, ("unknown", "processes.quiet")),
        ({}, QUIET, {"method": "POST", "host": "evil.com"}, ("unknown", "processes.quiet")),
        ({}, "/none\n", {"method": "POST", "host": "evil.com"}, ("unknown", "POST")),
        ({"authenticate": lambda request: None, "challenge": "Basic"}, "/jobs", {}, ("unknown", "page")),
        ({"authenticate": lambda request: None}, "/@none/x", {}, ("unknown", "GET")),
        ({"read_only": True}, QUIET, {"method": "POST", "body": "confirmed=yes"}, ("unknown", "processes.quiet")),
        (
            {"authenticate": lambda request: "kim", "authorize": lambda visitor, action: False},
            *(QUIET, {"method": "POST", "body": "confirmed=yes"}, ("kim", "processes.quiet")),
        ),
        (
            {"authenticate": lambda request: "kim", "authorize": lambda visitor, action: False},
            *("/jobs", {}, ("kim", "page")),
        ),
    ],
)
def test_each_refusal_leaves_a_line_in_the_audit_log(ask_with, caplog, options, path, more, reported):  # noqa: PLR0917
    caplog.set_level(logging.INFO, "offsider.web")
    assert ask_with(**options)(path, **more).status in {401, 403}
    (record,) = (record for record in caplog.records if record.name == "offsider.web")
    assert set(record.fields) == {"who", "action", "target", "server", "client"}
    assert (record.fields["who"], record.fields["action"]) == reported
    assert record.fields["target"].startswith(path.strip())
    assert "\n" not in record.getMessage() + record.fields["target"]


def test_a_refusal_has_the_requested_format(ask, ask_with):
    cross = {"method": "POST", "sec_fetch_site": "cross-site"}
    reported = ask(QUIET, accept="application/json", **cross)
    assert json.loads(reported.body) == {
        "error": "Cross-site request blocked: Host is localhost, Origin is -, Sec-Fetch-Site is cross-site. "
        "A proxy must pass the browser's Host header unchanged, with its port. A program must send an Authorization "
        "header and no Origin.",
        "status": 403,
    }
    assert "This URL" in ask(QUIET, method="PUT").body.decode()
    nobody = ask_with(authenticate=lambda request: None)("/", accept="application/json")
    assert json.loads(nobody.body)["status"] == 403


@pytest.mark.parametrize(
    "path, query",
    [
        ("/jobs", "where=retry&page=0"),
        ("/jobs", "where=dead&order=up"),
        ("/jobs", "where=nowhere"),
        ("/jobs", "failed=soon"),
        ("/jobs", "failed=10m..1h"),
        ("/scheduled", "older=x"),
        ("/jobs", f"class=x&cursor={'1' * 501}"),
        ("/jobs", f"text={'x' * 101}"),
        ("/error", "page=1000001"),
        ("/class", "period=5h"),
        ("/class", "by=name"),
        ("/jobs", "text=x&seen=-1"),
    ],
)
def test_parameters_out_of_bounds_are_refused(ask, path, query):
    assert ask(path, query).status == 400


def test_an_address_that_is_too_long_is_refused_and_not_echoed(ask):
    for path, query in (("/", f"text={'x' * 1_000_000}"), (f"/{'x' * 9000}", "")):
        answer = ask(path, query)
        assert answer.status == 400
        assert len(answer.body) < 100


@pytest.mark.parametrize(
    "path",
    [
        "//evil.com",
        "///evil.com",
        "/\\evil.com",
        "/%5Cevil.com",
        "\\\\evil.com",
        "evil.com",
        "/a\\b",
        "/a\tb",
        "//@main/",
    ],
)
def test_no_address_leads_to_another_host(ask, path):
    answer = ask(path)
    assert answer.status == 404
    assert b"evil.com" not in answer.body


def test_each_server_has_its_own_pages(config):
    app = WebApp(WebOptions({"main": Installation.of(config), "gone": Installation.of(nowhere())}))

    def ask(path):
        return app.respond(Request("GET", path, root="/jobs", headers={"host": "localhost", "accept": "text/html"}))

    assert ask("/").status == 200
    assert b'href="/jobs/@gone/"' in ask("/").body
    assert ask("/@gone/").status == 503
    assert ask("/@gone").status == 503
    assert ask("/@none/").status == 404


def test_an_unreachable_server_returns_an_error_page_without_traceback():
    app = WebApp(WebOptions({"main": Installation.of(nowhere())}))
    for path in ("/", "/fleet", "/fleet", "/stats", "/none"):
        answer = app.respond(Request("GET", path, headers={"host": "localhost", "accept": "text/html"}))
        assert answer.status in {503, 404}
        assert b"Traceback" not in answer.body
        assert b"<h1>" in answer.body
        if answer.status == 503:
            assert f'<meta http-equiv="refresh" content="5; url={path}">'.encode() in answer.body
            assert headers(answer)["retry-after"] == "2"
    assert app.respond(Request("HEAD", "/", headers={"host": "localhost"})).status == 503


def nowhere():
    config = Config()
    config.redis.url = "redis://127.0.0.1:1/0"
    return config


@pytest.mark.parametrize(
    "old,new",
    [
        ("/morgue", "/jobs?where=dead"),
        ("/retries?name=Mail&newer=600", "/jobs?where=retry&class=Mail&failed=600s"),
        ("/scheduled?argument=7&older=60", "/jobs?where=schedule&args=7&created=..60s"),
        ("/dead?newer=600&older=60&group=0123456789abcdef", "/jobs?where=dead&error=0123456789abcdef&died=600s..60s"),
        ("/search?q=user+7", "/jobs?text=user+7"),
        ("/queues/a~2fb?caller=cron", "/jobs?where=queue%3Aa~2fb&caller=cron"),
        ("/callers/mail", "/jobs?where=queue%3Amail"),
        ("/quarantine", "/jobs?where=quarantine"),
    ],
)
def test_an_old_address_leads_to_its_page(ask, old, new):
    answer = ask(*old.split("?"))
    assert (answer.status, headers(answer)["location"]) == (302, new)
    assert ask(*new.split("?")).status == 200
