"""A bulk deletion whose form does not arrive as it was sent deletes nothing, whatever the way and the mount.

Seven jobs are scheduled. The form of each request is a filter that matches two of them.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import pytest

from tests.process.web_process import ROOT, WebProcess
from tests.waiting import wait_for

FORM = b"class=shop.newsletter"
FORM_TYPE = "application/x-www-form-urlencoded"
MOUNTS = ("offsider web", "starlette", "fastapi", "django asgi", "wsgi", "flask", "django")
#: Servers that decode chunks.
DECODE = MOUNTS[:4]
#: What is left of the five other jobs and the two that match.
NOTHING_DONE, MATCHING_DELETED, ALL_DELETED = (5, 2), (5, 0), (0, 0)


@dataclass(frozen=True)
class Way:
    """How a form is sent. A header of None is left out."""

    body: bytes = FORM
    headers: dict[str, str | None] = field(default_factory=dict)
    ends: bool = True  # the client waits for the response with an open connection
    left: tuple[int, int] = NOTHING_DONE
    mounts: tuple[str, ...] = MOUNTS


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + end


CHUNKED = {"transfer-encoding": "chunked", "content-length": None}
OTHERS = tuple(mount for mount in MOUNTS if mount not in DECODE)
WAYS = {
    "whole": Way(left=MATCHING_DELETED),
    "whole, in chunks": Way(chunked(FORM[:7], FORM[7:]), CHUNKED, left=MATCHING_DELETED, mounts=DECODE),
    "with the positive word": Way(b"every=yes", left=ALL_DELETED),
    "cut off before the form": Way(b"", {"content-length": "20"}, ends=False),
    "cut off inside the form": Way(FORM[:5], {"content-length": "20"}, ends=False),
    "late": Way(FORM[:5], {"content-length": "20"}, mounts=("offsider web", "starlette", "fastapi")),
    "longer than announced": Way(FORM, {"content-length": "5"}),
    "of a length that is no number": Way(FORM, {"content-length": "many"}),
    "of a negative length": Way(FORM, {"content-length": "-1"}),
    "empty, without a length": Way(b"", {"content-length": None}),
    "in chunks, without the last": Way(chunked(b"class=", end=b""), CHUNKED, ends=False),
    "in chunks, without any": Way(chunked(), CHUNKED),
    "in chunks that the server does not decode": Way(chunked(FORM), CHUNKED, mounts=OTHERS),
    "compressed": Way(gzip.compress(FORM), {"content-encoding": "gzip"}),
    "as multipart": Way(
        b'--x\r\nContent-Disposition: form-data; name="class"\r\n\r\nshop.newsletter\r\n--x--\r\n',
        {"content-type": "multipart/form-data; boundary=x"},
    ),
    "as JSON": Way(b'{"class": "shop.newsletter"}', {"content-type": "application/json"}),
    "too large": Way(FORM + b"&text=" + b"x" * 70_000),
    "read as a form": Way(
        headers={"x-read": "form"}, left=MATCHING_DELETED, mounts=("fastapi", "flask", "django", "django asgi")
    ),
    "read as bytes": Way(
        headers={"x-read": "body"},
        left=MATCHING_DELETED,
        mounts=("starlette", "fastapi", "flask", "django", "django asgi"),
    ),
    "read as a form, and not handed on": Way(headers={"x-read": "form"}, mounts=("starlette", "wsgi")),
    "read from the stream": Way(headers={"x-read": "stream"}, mounts=MOUNTS[1:]),
    "read from the stream, in chunks": Way(
        chunked(FORM), {**CHUNKED, "x-read": "stream"}, mounts=("starlette", "fastapi", "django asgi", "flask")
    ),
}


@pytest.fixture(scope="module")
def processes():
    with ExitStack() as stack:
        yield stack, {}


@pytest.fixture
def ports(processes, embedded_url, tmp_path_factory):
    """The port of each mount."""
    stack, found = processes
    if not found:
        folder = tmp_path_factory.mktemp("mounts")
        web = WebProcess(folder, embedded_url)
        stack.callback(web.close)
        environ = os.environ | {
            "REDIS_URL": embedded_url,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
        }
        with (folder / "errors").open("wb") as errors:
            command = [sys.executable, "-m", "tests.process.web.mounts"]
            process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=errors)
        stack.callback(process.stdout.close)
        stack.callback(process.wait)
        stack.callback(process.kill)
        line = process.stdout.readline()
        assert line, (folder / "errors").read_text()
        found |= {"offsider web": web.port, **json.loads(line)}
    return found


def left(stored, tag):
    names = [json.loads(raw)["class"] for raw in stored.zrange(f"{tag}schedule", 0, -1)]
    return names.count("shop.invoice"), names.count("shop.newsletter")


def send(port, path, way):
    """Send the request as it is, and return the status of the response; 0 if the connection ends without one."""
    headers = {
        "host": f"127.0.0.1:{port}",
        "accept": "application/json",
        "sec-fetch-site": "same-origin",
        "content-type": FORM_TYPE,
        "content-length": str(len(way.body)),
        "connection": "close",
    } | way.headers
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value is not None)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        with suppress(ConnectionError):  # the server may refuse the request before it has read it
            connection.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + way.body)
            if not way.ends:
                connection.shutdown(socket.SHUT_WR)
        answer = b""
        with suppress(ConnectionError):
            while part := connection.recv(65536):
                answer += part
    return int(answer.split()[1]) if answer else 0


@pytest.mark.parametrize("mount, way", [(mount, way) for way, sent in WAYS.items() for mount in sent.mounts])
def test_only_a_form_that_arrives_as_it_was_sent_deletes_jobs(ports, stored, tag, mount, way):
    for number, name in enumerate(["shop.invoice"] * 5 + ["shop.newsletter"] * 2):
        stored.zadd(f"{tag}schedule", {json.dumps({"class": name, "args": [number], "jid": f"{number:024x}"}): 4e9})
    sent = WAYS[way]
    status = send(ports[mount], ("" if mount == "offsider web" else "/jobs") + "/jobs/delete?where=schedule", sent)
    if sent.left != NOTHING_DONE:
        assert (status, left(stored, tag)) == (200, sent.left)
        return
    assert 400 <= status < 500 or (status == 0 and (not sent.ends or sent.body == WAYS["too large"].body))
    if not status:  # the action of a request that was cut off would happen now
        with pytest.raises(AssertionError, match="not within"):
            wait_for(lambda: left(stored, tag) != NOTHING_DONE, 0.3)
    assert left(stored, tag) == NOTHING_DONE
