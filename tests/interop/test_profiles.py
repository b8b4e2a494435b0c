"""Sidekiq 8's page of profiles lists and serves those of our jobs."""

from __future__ import annotations

import gzip
import json

import httpx
import pytest

from tests.interop.waiting import eventually

pytestmark = [pytest.mark.needs("redis-server"), pytest.mark.needs("sidekiq", "puma")]


def test_rubys_page_lists_and_serves_our_profile(sidekiq_at, client, raw_redis, processes, ruby):
    if sidekiq_at.wire_version < 8:
        pytest.skip(f"Sidekiq {sidekiq_at.version} has no profiles; OFFSIDER_TEST_SIDEKIQ names one that has")
    jid = client.push({"class": "Elements", "args": [200, 0.001], "queue": "elements", "profile": "ann"})
    processes.offsider("-q", "elements")
    eventually(lambda: raw_redis.exists(f"ann-{jid}"), "the profile")
    listed = ruby("Sidekiq::ProfileSet.new.map { |p| [p.key, p.type, p.token, p.size.to_i] }")
    assert listed == [[f"ann-{jid}", "Elements", "ann", len(raw_redis.hget(f"ann-{jid}", "data"))]]
    url = processes.pages()

    def page() -> str:
        try:
            return httpx.get(f"{url}/profiles").text
        except httpx.TransportError:
            return ""

    assert f"profiles/ann-{jid}/data" in eventually(page, "Sidekiq's pages")
    with httpx.stream("GET", f"{url}/profiles/ann-{jid}/data") as served:
        data = b"".join(served.iter_raw())
        assert served.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(data))["meta"]["product"] == "offsider"
