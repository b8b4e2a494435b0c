"""The pages of the queues."""

from __future__ import annotations

import json
import time

import pytest

from offsider.core.compression import compress, expand
from offsider.core.payload import encode
from tests.markup import Markup
from tests.redis.web.stored import WHEN, jid, job, push
from tests.waiting import wait_for


def names(data):
    return [queue["name"] for queue in data["queues"]]


def numbers(data):
    return [int(row["jid"], 16) for row in data["jobs"]]


@pytest.fixture
def mail(raw_redis):
    """A queue of thirty jobs; the first runs next."""
    push(raw_redis, "mail", *(job(number) for number in range(30)))


# --------------------------------------------------------------------------------- all of them


def test_queues_are_listed_with_size_latency_and_oldest_job(read, raw_redis, mail):
    raw_redis.sadd("queues", "idle")
    mail, idle = read("/queues")["queues"]
    assert (mail["name"], mail["size"], mail["paused"], mail["path"]) == ("mail", 30, False, "/queues/mail")
    assert mail["oldest_at"] == pytest.approx(WHEN, abs=0.01)
    assert mail["latency_seconds"] == pytest.approx(max(0, time.time() - WHEN), abs=60)
    assert (idle["name"], idle["size"], idle["oldest_at"]) == ("idle", 0, None)


def test_queues_are_sorted_by_the_requested_column(read, raw_redis):
    push(raw_redis, "a", job(1, enqueued_at=1_000_000), job(2))
    push(raw_redis, "b", *(job(number) for number in range(3)))
    push(raw_redis, "c", job(9, enqueued_at=1_000))
    assert names(read("/queues")) == ["c", "a", "b"]
    assert names(read("/queues", "sort=size")) == ["b", "a", "c"]
    assert names(read("/queues", "sort=name")) == ["a", "b", "c"]


def test_an_unserved_queue_is_marked(ask, read, raw_redis, mail):
    assert "No worker" in ask("/queues").body.decode()
    info = json.dumps({"hostname": "h", "pid": 7, "queues": ["mail"], "concurrency": 5})
    raw_redis.sadd("processes", "h:7:abc")
    raw_redis.hset("h:7:abc", mapping={"info": info, "busy": 0, "beat": WHEN, "quiet": "false"})
    assert "No worker" not in ask("/queues").body.decode()
    assert read("/queues")["queues"][0]["served_by"] == ["h:7:abc"]
    assert read("/queues/mail")["served_by"] == ["h:7:abc"]


def test_large_compressed_arguments_are_expanded_only_on_the_page_of_their_job(ask, read, raw_redis, monkeypatch):
    def noted(payload, raw):
        read_jids.append(payload["jid"])
        return expand(payload, raw)

    read_jids: list[str] = []
    long = encode(compress({"class": "Export", "args": ["x" * 5_000_000], "jid": jid(1), "queue": "mail"}))
    push(raw_redis, "mail", long, encode(compress({"class": "Export", "args": ["short"], "jid": jid(2)})))
    assert json.loads(read(f"/job/{jid(1)}")["args"] + '"]')[0].startswith("xxx")
    with monkeypatch.context() as lists:
        lists.setattr("offsider.core.compression.expand", noted)
        rows = {row["jid"]: row for row in read("/queues/mail")["jobs"]}
        assert "Compressed 5.0 MB" in Markup(ask("/queues/mail").body.decode()).text
    assert set(read_jids) == {jid(2)}
    assert (rows[jid(1)]["args"], rows[jid(1)]["unlisted_bytes"]) == ("", 5_000_004)
    assert (rows[jid(2)]["args"], rows[jid(2)]["unlisted_bytes"]) == ('"short"', 0)


def test_a_queue_is_paused_and_resumed(ask, read, raw_redis, mail):
    assert ask("/queues/mail/pause", method="POST").status == 303
    assert raw_redis.smembers("paused") == {b"mail"}
    assert read("/queues")["queues"][0]["paused"]
    assert "paused" in Markup(ask("/queues/mail").body.decode()).text
    ask("/queues/mail/unpause", method="POST")
    assert raw_redis.smembers("paused") == set()


# --------------------------------------------------------------------------------------- one


def test_a_queue_shows_25_jobs_a_page_the_one_that_runs_next_first(read, mail):
    first = read("/queues/mail")
    assert numbers(first) == list(range(25))
    assert [row["position"] for row in first["jobs"]] == list(range(25))
    assert (first["pager"]["first"], first["pager"]["last"], first["pager"]["total"]) == (1, 25, 30)
    path, _, query = first["pager"]["next"].partition("?")
    assert numbers(read(path, query)) == list(range(25, 30))
    assert read("/queues/mail", "page=9")["jobs"] == []


def test_a_queue_can_be_shown_newest_first(read, mail):
    newest = read("/queues/mail", "order=newest")
    assert numbers(newest) == list(range(29, 4, -1))
    assert newest["jobs"][0]["position"] == 29


def test_a_filter_shows_matching_jobs_and_the_progress_of_the_scan(read, raw_redis, mail, look):
    push(raw_redis, "mail", job(50, tags=["vip"], **{"meta.caller_id": "web#buy"}))
    for query in ("tag=vip", "caller=web%23buy", "argument=user50%40", "text=user50"):
        found = look("/queues/mail", query)
        assert numbers(found) == [50]
        assert found["search"] == {"found": 1, "scanned": 31, "total": 31, "more": ""}
    assert numbers(look("/queues/mail", "name=Shop%3A%3ASend&argument=user3%40")) == [3]
    assert look("/queues/mail", "name=Nothing")["jobs"] == []


def test_facets_link_to_filters(read, look, raw_redis, mail):
    push(raw_redis, "mail", job(50, **{"class": "Other", "tags": ["vip"]}))
    facets = {each["field"]: each["values"] for each in read("/queues/mail", "order=newest")["facets"]}
    assert [(value["value"], value["count"]) for value in facets["name"]] == [("Shop::Send", 24), ("Other", 1)]
    path, _, query = facets["tag"][0]["path"].partition("?")
    assert numbers(look(path, query)) == [50]


def test_long_arguments_are_cut_and_can_be_expanded(ask, read, raw_redis):
    push(raw_redis, "mail", job(1, args=["x" * 1_000_000]), job(2, args=["y" * 150]))
    page = ask("/queues/mail").body
    assert len(page) < 30_000
    assert page.count(b'<details class="long">') == 2
    assert len(read("/queues/mail")["jobs"][0]["args"]) < 2_100


def test_arguments_are_redacted(ask_with, raw_redis):
    push(raw_redis, "mail", job(1), b"no job but a secret")
    ask = ask_with(redact=lambda name, args, kwargs: ([f"hidden of {name}"], {}))
    page = ask("/queues/mail").body.decode()
    assert "hidden of Shop::Send" in page
    assert "user1" not in page
    assert "secret" not in page


# ------------------------------------------------------------------------------------- names


def test_a_queue_with_special_characters_has_a_page(ask, read, raw_redis):
    name = "<a/b> ?&é"
    push(raw_redis, name, job(1))
    (queue,) = read("/queues")["queues"]
    assert read(queue["path"])["name"] == name
    assert b"<a/b>" not in ask(queue["path"]).body
    (row,) = read(queue["path"])["jobs"]
    assert read(row["path"])["jid"] == jid(1)
    ask(f"{queue['path']}/selected/delete", method="POST", body=f"key={row['key']}&confirmed=yes")
    assert raw_redis.llen(f"queue:{name}") == 0


def test_a_queue_with_a_usual_name_has_a_page_before_its_first_push(read):
    assert read("/queues/fresh-1.x:y_z")["jobs"] == []


@pytest.mark.parametrize("name", ["no~20such", "a%20b", "~3cscript~3e", "x" * 201])
def test_a_missing_queue_with_special_characters_is_not_found(ask, name):
    assert ask(f"/queues/{name}").status == 404
    assert ask(f"/queues/{name}/pause", method="POST").status == 404


@pytest.mark.parametrize(
    "query", ["page=0", "page=1000001", "page=x", "order=up", "older=-1", "text=" + "x" * 101, "newer=9e9"]
)
def test_parameters_out_of_bounds_are_refused(ask, query):
    assert ask("/queues/mail", query).status == 400


def test_malformed_jobs_are_shown_and_can_be_deleted(ask, read, raw_redis):
    push(raw_redis, "mail", b"\xff\xfe", b"{}", b'{"class":5}')
    rows = read("/queues/mail")["jobs"]
    assert [row["malformed"] for row in rows] == [True] * 3
    assert "Malformed job" in ask("/queues/mail").body.decode()
    assert read(rows[1]["path"])["args"] == "{}"
    ask("/queues/mail/selected/delete", method="POST", body=f"key={rows[1]['key']}&confirmed=yes")
    assert raw_redis.lrange("queue:mail", 0, -1) == [b'{"class":5}', b"\xff\xfe"]


# ----------------------------------------------------------------------------------- actions


def test_selected_jobs_are_deleted_even_if_positions_changed(ask, read, raw_redis, mail):
    keys = [row["key"] for row in read("/queues/mail")["jobs"][10:13]]
    raw_redis.rpop("queue:mail", 5)
    body = "&".join([f"key={key}" for key in [*keys, "3|gone"]] + ["confirmed=yes"])
    answer = ask("/queues/mail/selected/delete", method="POST", body=body, accept="application/json")
    assert json.loads(answer.body) == {"done": "Deleted 3 jobs. 1 job was already gone.", "done_to": 3, "gone": 1}
    left = [json.loads(raw)["args"][0] for raw in reversed(raw_redis.lrange("queue:mail", 0, -1))]
    assert left == [*range(5, 10), *range(13, 30)]


def test_without_our_script_deleting_asks_for_confirmation(ask, read, raw_redis, mail):
    key = read("/queues/mail")["jobs"][0]["key"]
    asked = ask("/queues/mail/selected/delete", method="POST", body=f"key={key}")
    assert asked.status == 200
    assert "Permanently delete the selected jobs in mail (1)?" in Markup(asked.body.decode()).text
    assert raw_redis.llen("queue:mail") == 30
    form = Markup(asked.body.decode()).form(lambda form: "/selected/delete" in form.action)
    assert ("key", key) in form.fields


def test_selected_jobs_move_to_the_quarantine(ask, read, raw_redis, mail):
    keys = [row["key"] for row in read("/queues/mail")["jobs"][:2]]
    ask("/queues/mail/selected/quarantine", method="POST", body="&".join(f"key={key}" for key in keys))
    assert raw_redis.llen("queue:mail") == 28
    assert {row["jid"] for row in read("/quarantine")["jobs"]} == {jid(0), jid(1)}


def test_removing_matching_jobs_shows_their_number_first(ask, read, raw_redis, mail):
    asked = wait_for(lambda: (data := read("/queues/mail/all", "argument=user1"))["complete"] and data)
    assert asked["matched"] == 11  # 1 and 10 to 19
    assert raw_redis.llen("queue:mail") == 30
    body = ask("/queues/mail/all", "argument=user1").body.decode()
    assert ("argument", "user1") in Markup(body).form(lambda form: form.method == "post" and not form.action).fields
    ask("/queues/mail/all/quarantine", method="POST", body="argument=user1")
    assert raw_redis.llen("queue:mail") == 19
    assert read("/quarantine")["size"] == 11
    ask("/queues/mail/all/delete", method="POST", body="argument=user2")
    assert raw_redis.llen("queue:mail") == 8


def test_clearing_a_queue_deletes_it(ask, read, raw_redis, mail):
    assert read("/queues/mail/all")["matched"] == 30
    answer = ask("/queues/mail/all/delete", method="POST", body="every=yes", accept="application/json")
    assert json.loads(answer.body)["done_to"] == 30
    assert not raw_redis.exists("queue:mail")
    assert read("/queues")["queues"] == []
