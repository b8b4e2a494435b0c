"""Several servers side by side."""

from __future__ import annotations

import json

from offsider.web.app import WebApp
from offsider.web.options import WebOptions
from offsider.web.request import Request
from offsider.wiring.config import Config


def test_one_that_does_not_answer_hides_no_other(config):
    gone = Config()
    gone.redis.url = "redis://:secret@127.0.0.1:1/0"
    app = WebApp(WebOptions({"main": config, "gone <b>": gone}))

    def ask(accept):
        return app.respond(Request("GET", "/servers", headers={"host": "localhost", "accept": accept}))

    main, other = json.loads(ask("application/json").body)["servers"]
    assert (main["name"], main["address"], main["error"]) == ("main", "/", "")
    assert main["stats"]["processed"] == 0
    assert other["address"] == "/@gone~20~3cb~3e/"
    assert other["stats"] is None
    assert other["error"]
    page = ask("text/html").body
    assert b"gone &lt;b&gt;" in page
    assert b"secret" not in page
