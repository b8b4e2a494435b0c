"""The web UI behind the proxies of docs/web-access.md, over plain HTTP and at a port that is not 80."""

from __future__ import annotations

import http.client
import os
import re
import shlex
import shutil
import socket
import subprocess
from contextlib import ExitStack, closing
from dataclasses import dataclass

import pytest

from offsider.embedded.folder import free_port
from tests.docs.snippets import ROOT, snippets
from tests.process.web_process import WebProcess
from tests.waiting import wait_for

PAGE = (ROOT / "docs" / "web-access.md").read_text()
NAME = "jobs.example.com"
#: No package of Debian has Traefik, so it is tested only where it is installed.
PROXIES = [
    pytest.param("nginx", marks=pytest.mark.needs("nginx")),
    pytest.param("caddy", marks=pytest.mark.needs("caddy")),
    *(["traefik"] if shutil.which("traefik") else []),
]
AUTH = """
def who(request):
    return f"{request.client} by {request.scheme}"
def by_header(request):
    return request.header("x-forwarded-user") or None
"""
NGINX = """
daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
    uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
    server {{ listen 127.0.0.1:{port}; server_name {name}; {text} }}
}}
"""


def command_of(kind, text, folder, port):
    """The proxy with its documented configuration, at a port without TLS."""
    if kind == "nginx":
        (folder / "conf").write_text(NGINX.format(folder=folder, port=port, name=NAME, text=text))
        return ["nginx", "-p", folder, "-c", folder / "conf"]
    if kind == "caddy":
        site = text.replace(NAME, f"http://{NAME}:{port}")
        (folder / "conf").write_text(f"{{\n admin off\n}}\n{site}")
        return ["caddy", "run", "--adapter", "caddyfile", "--config", folder / "conf"]
    (folder / "conf.yaml").write_text(text)
    return ["traefik", f"--providers.file.filename={folder}/conf.yaml", f"--entrypoints.web.address=127.0.0.1:{port}"]


@dataclass
class Reply:
    status: int
    text: str
    location: str


def ask(port, method, path, source="127.0.0.1", **headers):
    """Send a request from an address of loopback."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30, source_address=(source, 0))
    with closing(connection):
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        return Reply(reply.status, reply.read().decode(), reply.getheader("location", ""))


@pytest.fixture
def serve(url, tmp_path):
    """serve(*options): `offsider web`, with hooks."""
    (tmp_path / "hooks.py").write_text(AUTH)
    with ExitStack() as stack:

        def start(*options):
            web = WebProcess(tmp_path, url, *options, PYTHONPATH=f"{ROOT}:{tmp_path}")
            stack.callback(web.close)
            return web

        yield start


@pytest.fixture
def proxied(serve, tmp_path, request):
    """The port of a proxy with its configuration of the manual, in front of the command of the manual."""
    kind = request.param
    language = {"traefik": "yaml"}.get(kind, kind)
    [text] = [each.text for each in snippets(PAGE) if each.language == language]
    [line] = re.findall(r"^offsider web (.*--trusted-proxy.*)$", PAGE, re.MULTILINE)
    web, port = serve(*shlex.split(line), "--auth", "hooks:who"), free_port()
    command = command_of(kind, text.replace("7433", str(web.port)), tmp_path, port)
    home = os.environ | {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    with (tmp_path / "proxy.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=home)
    try:
        wait_for(lambda: process.poll() is not None or listens(port), 60)
        assert process.poll() is None, (tmp_path / "proxy.log").read_text()
        yield web, port
    finally:
        process.terminate()
        process.wait(20)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("proxied", PROXIES, indirect=True)
def test_the_documented_proxies_serve_pages_and_buttons(proxied, stored, tag):
    web, port = proxied
    host = f"{NAME}:{port}"
    stored.sadd(f"{tag}queues", "mails")
    wait_for(lambda: ask(port, "GET", "/jobs/", host=host).status == 200, what="Traefik has read its file")
    page = ask(port, "GET", "/jobs/fleet", "127.0.0.2", host=host)
    assert 'action="/jobs/fleet/queues/mails/pause"' in page.text
    assert "127.0.0.2 by http" in page.text
    assert ask(port, "GET", "/jobs", host=host).status in {200, 301}
    press = "/jobs/fleet/queues/mails/pause"
    refused = ask(port, "POST", press, host=host, origin="http://evil.example")
    assert (refused.status, stored.smembers(f"{tag}paused")) == (403, set())
    assert all(part in refused.text for part in (f"Host is {host}", "Origin is http://evil.example"))
    pressed = ask(port, "POST", press, host=host, origin=f"http://{host}")
    assert (pressed.status, pressed.location) == (303, "/jobs/fleet/queues")
    assert stored.smembers(f"{tag}paused") == {b"mails"}
    forged = ask(web.port, "GET", "/jobs/fleet", "127.0.0.2", host=host, x_forwarded_for="10.0.0.9")
    assert forged.status == 403
    assert "127.0.0.2 is not a trusted proxy" in forged.text


def test_a_forwarded_address_is_used_only_from_trusted_proxies(serve):
    forged = {"x_forwarded_for": "10.0.0.9", "x_forwarded_proto": "https", "x_forwarded_user": "kim"}
    page = ask(serve("--auth", "hooks:who").port, "GET", "/", "127.0.0.2", **forged)
    assert "127.0.0.2 by http" in page.text
    trusting = serve("--auth", "hooks:by_header", "--trusted-proxy", "127.0.0.3", "--trusted-proxy", "10.0.0.0/8")
    for method in ("GET", "HEAD", "POST"):
        assert ask(trusting.port, method, "/", "127.0.0.2", **forged).status == 403
    assert ask(trusting.port, "GET", "/", "127.0.0.3", **forged).status == 200


@pytest.mark.parametrize("root", ["/a/jobs/", "/jöbs", "/queues"])
def test_a_proxy_may_remove_the_root_path_or_not(serve, stored, tag, root):
    stored.sadd(f"{tag}queues", "mails")
    web = serve("--root-path", root)
    published = "/j%C3%B6bs" if "ö" in root else root.rstrip("/")
    paths = [f"{published}/fleet/queues/mails", published.lower() + "/fleet/queues/mails"]
    paths += ["/fleet/queues/mails"]
    for path in paths:
        reply = ask(web.port, "GET", path)
        assert (reply.status, f'href="{published}/fleet"' in reply.text) == (200, True), path
