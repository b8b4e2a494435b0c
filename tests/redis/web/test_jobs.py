"""The screen of jobs: lists, filters, exact counts with their values, and actions on them."""

from __future__ import annotations

import json
import time
from urllib.parse import urlencode

import pytest

from offsider.core.compression import compress
from offsider.core.payload import encode
from offsider.screens import jobs as screen
from tests.markup import Markup
from tests.redis.web.conftest import asker, jobs_of
from tests.redis.web.stored import WHEN, failed, jid, job, push

JSON = "application/json"


def numbers(rows):
    return [int(row["JID"], 16) for row in rows]


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """The machine may be busy."""
    monkeypatch.setattr(screen, "PAGE_BUDGET_MS", 5_000)


@pytest.fixture
def counted(read):
    """The count of jobs after its last step: counted("where=dead")."""

    def data(query):
        (count,) = read("/jobs/count", query)["blocks"]
        while count["more"]:
            assert not count["buttons"]
            (count,) = read(*count["more"].split("?"))["blocks"]
        return count

    return data


@pytest.fixture
def post(ask):
    """post("/jobs/retry", counted="1f"): what a program gets."""

    def done(path, **fields):
        answer = ask(path, method="POST", body=urlencode(fields, doseq=True), accept=JSON)
        return json.loads(answer.body)

    return done


@pytest.fixture
def slowly(monkeypatch):
    """Counting and acting take many requests."""
    monkeypatch.setattr(screen, "COUNT_MS", 0)
    monkeypatch.setattr(screen, "ACT_MS", 0)


def button(count, text):
    return next(each for each in count["buttons"] if each["text"] == text)


def values(count, name):
    """The broken down values of a count: value -> number."""
    (links,) = [fact["cell"]["links"] for fact in count["facts"] if fact["name"] == name]
    return {link["text"]: link["count"] for link in links}


def fact(count, name):
    (cell,) = [each["cell"] for each in count["facts"] if each["name"] == name]
    return cell.get("text", cell.get("value"))


@pytest.fixture
def everywhere(raw_redis):
    """Jobs 1 to 5 in five places, and job 6 in quarantine."""
    push(raw_redis, "mail", job(1))
    raw_redis.zadd("retry", {failed(2): WHEN})
    raw_redis.zadd("schedule", {job(3): WHEN})
    raw_redis.zadd("dead", {failed(4): WHEN})
    raw_redis.sadd("offsider:places", "offsider:held:X")
    raw_redis.lpush("offsider:held:X", job(5))


# ------------------------------------------------------------------------------------- lists


def test_without_a_filter_the_places_are_listed_with_their_sizes(read, everywhere):
    (table,) = read("/jobs")["blocks"]
    sizes = {row[0]["text"]: row[1]["value"] for row in table["rows"]}
    assert sizes == {
        "Running": 0, "Retries": 1, "Scheduled": 1, "Dead": 1, "Held": 1, "Quarantine": 0, "Queue mail": 1
    }  # fmt: skip
    for row in table["rows"]:
        read(*row[0]["path"].split("?"))


@pytest.mark.parametrize("where, order", [("retry", "last"), ("dead", "first"), ("queue:mail", "last")])
def test_a_place_is_shown_25_jobs_a_page_in_either_order(ask, read, raw_redis, where, order):
    if where == "queue:mail":
        push(raw_redis, "mail", *(job(number) for number in range(60)))
    else:
        raw_redis.zadd(where, {failed(number): number for number in range(60)})
    first, third = read("/jobs", f"where={where}"), read("/jobs", f"where={where}&page=3")
    (table,) = [block for block in first["blocks"] if block["is"] == "table"]
    expected = [*range(60)] if where != "dead" else [*range(59, -1, -1)]
    assert numbers(jobs_of(first)) == expected[:25]
    assert numbers(jobs_of(third)) == expected[50:]
    assert (first["pager"]["total"], first["pager"]["pages"]) == (60, 3)
    (path,) = table["sorts"].values()
    assert f"order={order}" in path
    assert numbers(jobs_of(read(*path.split("?")))) == expected[::-1][:25]
    assert jobs_of(read("/jobs", f"where={where}&page=9")) == []


@pytest.mark.parametrize(
    "query, found",
    [
        ("text=user", [1, 2, 3, 4, 5]),
        ("where=retry,dead&text=user", [2, 4]),
        ("where=queues,held&text=user", [1, 5]),
        ("where=queue:mail,schedule", [1, 3]),
        ("where=all&error=IOError", [2, 4]),
        ("args=user3%40", [3]),
        ("args=4", [4]),
        (f"jid={jid(5)}", [5]),
        ("queue=mail&class=Shop::Send&where=schedule", [3]),
        ("class=Send", []),
        ("where=running&class=Shop::Send", []),
    ],
)
def test_a_filter_finds_jobs_in_several_places(look, everywhere, query, found):
    assert sorted(numbers(look(query))) == found


def test_jobs_that_failed_in_the_last_minutes_are_found_by_the_time_of_the_failure(config, look, raw_redis):
    now = config.clock.now()
    for number, minutes in enumerate((1, 9, 11, 60)):
        at = {key: int((now - minutes * 60) * 1000) for key in ("failed_at", "retried_at")}
        raw_redis.zadd("retry", {failed(number, **at): now + 900})
        raw_redis.zadd("dead", {failed(10 + number, **at): now - minutes * 60})
    raw_redis.zadd("retry", {failed(99, failed_at=int(now * 1000) - 10**9, retried_at=int(now * 1000) - 1): now})
    assert sorted(numbers(look("where=retry&failed=10m&error=IOError"))) == [0, 1, 99]
    assert sorted(numbers(look("where=retry,dead&failed=10m"))) == [0, 1, 10, 11, 99]
    assert sorted(numbers(look("where=dead&died=20m..10m"))) == [12]
    assert sorted(numbers(look(f"where=dead&died={now - 30}.."))) == []
    assert sorted(numbers(look("where=retry&due=5m"))) == [99]
    clock = [time.strftime("%H:%M:%S", time.gmtime(now - minutes * 60)) for minutes in (12, 8)]
    assert sorted(numbers(look(f"where=dead&failed={'..'.join(clock)}"))) == ([11, 12] if clock[0] < clock[1] else [])


def test_links_of_a_filtered_list_have_absolute_times(read, raw_redis):
    raw_redis.zadd("dead", {failed(1): time.time()})
    data = read("/jobs", "where=dead&died=10m")
    assert "m" not in data["filter"]["fields"]["died"]
    path = data["blocks"][0]["more"]
    assert "died=20" in path
    assert "where=dead" in path


def test_a_long_search_continues_until_all_jobs_are_scanned(read, look, raw_redis):
    raw_redis.zadd("retry", {failed(number): number for number in range(500)})
    first = read("/jobs", "where=retry&text=peer")
    assert first["search"]["more"]
    assert sorted(numbers(look("where=retry&text=peer"))) == [*range(500)]


def test_any_score_and_any_bytes_are_shown_and_deleted(ask, read, raw_redis, post):
    raw_redis.zadd("dead", {b"\xffno job": "inf", b"[]": "-inf", failed(90): 1e300, failed(91): -5})
    push(raw_redis, "<a/b> ?&é", b"\xff\xfe", b"{}", b'{"class":5}')
    rows = jobs_of(read("/jobs", "where=dead"))
    assert [row["Class"] for row in rows] == ["Malformed", "Shop::Send", "Shop::Send", "Malformed"]
    (queue,) = [row[0] for row in read("/jobs")["blocks"][0]["rows"] if row[0]["text"].startswith("Queue")]
    path, _, query = queue["path"].partition("?")
    assert b"<a/b>" not in ask(path, query).body
    rows += jobs_of(read(path, query))
    for row in rows:
        assert ask(row["path"]).status == 200
    done = post("/jobs/selected/delete", key=[row["key"] for row in rows])
    assert (done["done_to"], done["gone"], raw_redis.zcard("dead")) == (7, 0, 0)


def test_large_compressed_arguments_are_not_expanded_in_lists(look, raw_redis):
    push(raw_redis, "mail", encode(compress({"class": "E", "args": ["x" * 5_000_000], "jid": "a", "queue": "mail"})))
    assert look("where=queue:mail")[0]["Arguments"] == "compressed, 5,000,004 bytes"


def test_long_arguments_are_cut_and_can_be_expanded(ask, raw_redis):
    push(raw_redis, "mail", job(1, args=["x" * 1_000_000]), job(2, args=["y" * 150]))
    page = ask("/jobs", "where=queue:mail").body
    assert len(page) < 30_000
    assert page.count(b'<details class="long">') == 2


def test_a_hidden_argument_cannot_be_found_by_guessing(config, raw_redis, look):
    hide = {"redact": lambda name, args, kwargs: (["***"], kwargs)}
    raw_redis.zadd("dead", {failed(1, **{"meta.tenant": "user1@example.com"}): WHEN})
    assert numbers(look("where=dead&args=user1%40")) == [1]
    for query in ("args=user1%40", "text=user1%40", "tenant=user1%40example.com"):
        answer = asker(config, **hide)("/jobs", f"where=dead&{query}", accept=JSON)
        assert jobs_of(json.loads(answer.body)) == []
    visible = asker(config, **hide)("/jobs", "where=dead&text=Shop", accept=JSON)
    assert [row["Arguments"] for row in jobs_of(json.loads(visible.body))] == ['"***"']
    count = asker(config, **hide)("/jobs/count", "where=dead", accept=JSON).body
    assert b"user1" not in count


# ------------------------------------------------------------------------------------- counts


def test_a_large_set_is_counted_exactly_in_steps_with_its_values(ask, read, raw_redis, counted, slowly):
    hour = 1_795_216_000 // 3600 * 3600
    raw_redis.zadd("dead", {
        failed(n, **{"class": "Odd" if n % 3 else "Mail", "meta.tenant": f"t{n % 2}"}): hour + n % 2 * 3600
        for n in range(3_000)
    })  # fmt: skip
    page = read("/jobs", "where=dead")
    (block,) = [block for block in page["blocks"] if block["is"] == "count"]
    assert (block["total"], block["facts"], block["waits"]) == (3_000, [], False)
    path, _, query = block["more"].partition("?")
    shown = Markup(ask(path, query).body.decode())
    assert "Continue" in [link.text for link in shown.all("a", class_="button")]
    count = counted(query)
    assert fact(count, "Jobs") == 3_000
    assert values(count, "Class") == {"Odd": 2_000, "Mail": 1_000}
    assert values(count, "Tenant") == {"t0": 1_500, "t1": 1_500}
    assert [*values(count, "Died on").values()] == [1_500, 1_500]
    (link,) = [link for each in count["facts"] for link in each["cell"].get("links", []) if link["text"] == "Mail"]
    assert fact(counted(link["path"].partition("?")[2]), "Jobs") == 1_000
    (link,) = [each["cell"]["links"][0] for each in count["facts"] if each["name"] == "Died on"]
    assert fact(counted(link["path"].partition("?")[2]), "Jobs") == 1_500


def test_a_very_large_set_is_counted_when_it_is_asked_for(read, raw_redis, monkeypatch):
    monkeypatch.setattr(screen, "MAX_COUNTED_UNASKED", 2)
    raw_redis.zadd("dead", {failed(n): n for n in range(3)})
    assert read("/jobs", "where=dead")["blocks"][0]["waits"]


def test_another_site_cannot_start_a_count(ask, raw_redis):
    raw_redis.zadd("retry", {failed(1): 1})
    assert ask("/jobs/count", "where=retry", sec_fetch_site="cross-site").status == 404
    assert not raw_redis.keys("offsider:counted:*")
    assert ask("/jobs/count", "where=retry", sec_fetch_site="same-origin").status == 200
    assert len(raw_redis.keys("offsider:counted:*")) == 1


def test_an_expired_count_does_nothing(ask, raw_redis):
    raw_redis.zadd("dead", {failed(1): 1})
    assert ask("/jobs/delete", method="POST", body="counted=0123").status == 404
    assert ask("/jobs/count", "counted=0123").status == 404
    assert raw_redis.zcard("dead") == 1


# ------------------------------------------------------------------------------------- actions


def test_an_action_changes_only_counted_jobs_of_all_places_and_reports_the_others(raw_redis, counted, post):
    raw_redis.zadd("retry", {failed(n): n for n in range(100)})
    raw_redis.zadd("dead", {failed(1000 + n): n for n in range(50)} | {b"no job": 1})
    push(raw_redis, "low", *(failed(2000 + n) for n in range(5)))
    count = counted("where=retry,dead,queue:low")
    assert fact(count, "Jobs") == 156
    raw_redis.zrem("retry", *(failed(n) for n in range(22)))
    raw_redis.zadd("retry", {failed(n): n for n in range(500, 510)})
    done = post("/jobs/retry", **button(count, "Retry 151 jobs")["fields"])
    about = "of retry,dead,queue:low"
    assert done["done"] == (
        f"Enqueued 128 jobs {about}. 1 job could not be changed. 22 jobs changed after the count and were skipped."
    )
    assert (done["done_to"], done["changed"], done["refused"], done["finished"]) == (128, 22, 1, True)
    assert (raw_redis.zcard("retry"), raw_redis.llen("queue:mail"), raw_redis.llen("queue:low")) == (10, 128, 5)


@pytest.mark.parametrize("verb", ["Delete", "Quarantine"])
def test_clearing_a_queue_keeps_jobs_pushed_after_the_count(raw_redis, counted, post, verb):
    push(raw_redis, "mail", *(job(n) for n in range(100)))
    fields = button(counted("where=queue:mail"), f"{verb} 100 jobs")["fields"]
    raw_redis.rpop("queue:mail", 10)
    push(raw_redis, "mail", job(500))
    done = post(f"/jobs/{verb.lower()}", **fields)
    assert (done["done_to"], done["changed"]) == (90, 10)
    assert raw_redis.lrange("queue:mail", 0, -1) == [job(500)]
    assert raw_redis.sismember("queues", "mail")


def test_ten_jobs_are_retried_as_a_canary_then_the_rest(ask, read, raw_redis, counted, post):
    raw_redis.zadd("dead", {failed(n): n for n in range(300)})
    first = button(counted("where=dead"), "Retry 10 first")
    done = post(first["path"], **first["fields"])
    assert (done["done_to"], done["finished"], raw_redis.zcard("dead")) == (10, False, 290)
    (event,) = raw_redis.xrange("offsider:events")
    assert (event[1][b"action"], event[1][b"count"], event[1][b"filter"]) == (b"jobs.retry", b"10", b"dead")
    assert post(first["path"], **first["fields"])["done_to"] == 10  # sent twice
    (count,) = read("/jobs/count", f"counted={first['fields']['counted']}")["blocks"]
    assert fact(count, "Enqueued") == "10 of 300 jobs"
    assert ask("/jobs/delete", method="POST", body=f"counted={first['fields']['counted']}").status == 400
    rest = button(count, "Retry the other 290 jobs")
    assert post(rest["path"], **rest["fields"])["done_to"] == 300
    assert (raw_redis.zcard("dead"), raw_redis.llen("queue:mail")) == (0, 300)


def test_a_long_action_continues_with_a_button_and_acts_once_on_each_job(ask, raw_redis, counted, slowly):
    raw_redis.zadd("retry", {failed(n): n for n in range(2_500)})
    fields = button(counted("where=retry"), "Kill 2,500 jobs")["fields"]
    answer, parts = ask("/jobs/kill", method="POST", body=urlencode(fields)), 1
    question = Markup(answer.body.decode())
    assert answer.status == 303, question.text
    while (to := dict(answer.headers)["location"]) != "/jobs?where=retry":
        shown = Markup(ask(*to.split("?")).body.decode())
        assert "of 2,500 jobs" in shown.text
        form = shown.form(lambda form: form.action == "/jobs/kill")
        assert form.button("Continue")
        answer = ask(form.action, method="POST", body=urlencode(form.fields))
        parts += 1
    assert parts > 1
    assert raw_redis.zcard("dead") == 2_500
    again = json.loads(ask("/jobs/kill", method="POST", body=urlencode(fields), accept=JSON).body)
    assert (again["done_to"], raw_redis.zcard("dead")) == (2_500, 2_500)


def test_a_program_acts_on_a_filter_in_one_request(raw_redis, post):
    raw_redis.zadd("dead", {failed(n, error_class="A" if n % 2 else "B"): n for n in range(20)})
    assert post("/jobs/quarantine", where="dead", error="A")["done_to"] == 10
    assert post("/jobs/restore", where="quarantine", every="yes")["done"] == "Restored 10 jobs of quarantine."
    assert raw_redis.zcard("dead") == 20
    assert post("/jobs/delete")["status"] == 400


def test_selected_jobs_of_several_places_are_changed_after_confirmation(ask, read, raw_redis, everywhere):
    page = Markup(ask("/jobs", "text=user").body.decode())
    form = page.form(lambda form: form.boxes)
    delete = form.button("Delete")
    boxes = [("key", value) for name, value in form.boxes if name == "key"]
    fields = [*boxes, ("key", "dead 1|gone"), (delete.name, delete.value)]
    path, _, query = delete.action.partition("?")
    asked = Markup(ask(path, query, method="POST", body=urlencode(fields)).body.decode())
    assert "Delete 6 selected jobs?" in asked.text
    confirmed = asked.form(lambda form: path in form.action)
    answer = ask(path, query, method="POST", body=urlencode(confirmed.fields))
    assert dict(answer.headers)["location"] == "/jobs?text=user"
    assert [raw_redis.exists(key) for key in ("queue:mail", "retry", "schedule", "dead", "offsider:held:X")] == [0] * 5


def test_selected_jobs_are_changed_even_if_positions_changed(look, raw_redis, post):
    push(raw_redis, "mail", *(job(number) for number in range(30)))
    keys = [row["key"] for row in look("where=queue:mail")[10:13]]
    raw_redis.rpop("queue:mail", 5)
    done = post("/jobs/selected/delete", key=[*keys, "queue:mail 3|gone"])
    assert (done["done"], done["gone"]) == ("Deleted 3 jobs. 1 job had already left.", 1)
    left = [json.loads(raw)["args"][0] for raw in reversed(raw_redis.lrange("queue:mail", 0, -1))]
    assert left == [*range(5, 10), *range(13, 30)]


def test_an_impossible_action_on_a_selected_job_is_reported(look, raw_redis, post):
    raw_redis.zadd("dead", {b"no job": 1, failed(1): 2})
    done = post("/jobs/selected/retry", key=[row["key"] for row in look("where=dead")])
    assert done["done"].startswith("Enqueued 1 job. 1 job could not be changed: ")
    assert post("/jobs/selected/kill", key=["dead 1.0|x"])["gone"] == 1


def test_a_button_is_shown_only_for_an_action_that_is_allowed(config, raw_redis):
    raw_redis.zadd("dead", {failed(1): 1})
    count = json.loads(asker(config, read_only=True)("/jobs/count", "where=dead", accept=JSON).body)
    assert count["blocks"][0]["buttons"] == []
    may = asker(config, authorize=lambda request, action: action != "jobs.delete")
    offered = json.loads(may("/jobs/count", "where=dead", accept=JSON).body)["blocks"][0]["buttons"]
    assert [each["text"] for each in offered] == ["Retry 1 job", "Quarantine 1 job"]
    assert b"/jobs/selected/delete" not in may("/jobs", "where=dead").body
    assert may("/jobs/delete", method="POST", body="where=dead&every=yes").status == 403
    assert may("/jobs/selected/delete", method="POST", body="key=dead+1").status == 403
