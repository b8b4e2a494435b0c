"""What becomes of a push before it reaches Redis."""

import json
import math
import re
from datetime import timedelta
from enum import StrEnum

import pytest

from offsider.core.errors import InvalidArguments, InvalidJob, InvalidOptions
from offsider.core.payload import decode
from offsider.runtime.context import JobContext, running
from offsider.runtime.propagation import context
from tests.middleware import returning


def test_a_push_gets_defaults_jid_and_stamps(client, stored):
    jid = client.push({"class": "HardJob", "args": [1]})
    assert stored[0].payload == {
        "retry": True,
        "queue": "default",
        "class": "HardJob",
        "args": [1],
        "jid": jid,
        "created_at": 1795216780652,
        "enqueued_at": 1795216780652,
    }
    assert decode(stored[0].raw) == stored[0].payload
    assert stored[0].queue == "default"


def test_push_options_override_configured_defaults(client, config, stored):
    config.jobs["queue"] = "mails"
    config.jobs["tags"] = ["a"]
    client.push({"class": "X", "args": []})
    client.push({"class": "X", "args": [], "queue": "low"})
    config.jobs["retry_for"] = timedelta(hours=1)
    client.push({"class": "X", "args": []})
    client.push({"class": "X", "args": [], "retry": 0})
    assert [job.queue for job in stored] == ["mails", "low", "mails", "mails"]
    assert stored[0].payload["tags"] == ["a"]
    assert (stored[2].payload["retry"], stored[2].payload["retry_for"]) == (True, 3600)
    assert stored[3].payload["retry"] == 0
    assert "retry_for" not in stored[3].payload


def test_an_unknown_default_is_refused_at_the_first_push(client, config, stored):
    config.jobs["retri"] = 1
    for _ in range(2):
        with pytest.raises(
            InvalidOptions, match=r"jobs \(default options\): unknown option 'retri' \(did you mean 'retry'\?\)"
        ):
            client.push({"class": "X", "args": []})
    assert stored == []


def test_a_default_of_an_extension_is_accepted(client, config, stored):
    config.jobs["unique_for"] = 60
    config.add_job_option("unique_for", lambda value: None)
    client.push({"class": "X", "args": []})
    assert stored[0].payload["unique_for"] == 60


def test_a_given_jid_and_creation_time_are_kept(client, stored):
    assert client.push({"class": "X", "args": [], "jid": "a" * 24, "created_at": 5}) == "a" * 24
    assert stored[0].payload["created_at"] == 5


def test_the_values_of_the_caller_are_not_changed(client):
    item = {"class": "X", "args": (1,), "at": 60, "tags": ["a"]}
    before = dict(item)
    client.push(item)
    assert item == before


@pytest.mark.parametrize(
    "item, error, complaint",
    [
        ({"args": []}, InvalidJob, "class must be"),
        ({"class": "", "args": []}, InvalidJob, "class must be"),
        ({"class": int, "args": []}, InvalidJob, "class must be"),
        ({"class": "X"}, InvalidArguments, "X: args must be a list"),
        ({"class": "X", "args": "ab"}, InvalidArguments, "X: args must be a list"),
        ({"class": "X", "args": {"a": 1}}, InvalidArguments, "X: args must be a list"),
        ({"class": "X", "args": [], "kwargs": {"a": 1}}, InvalidArguments, "kwargs cannot be pushed by class name"),
        ({"class": "X", "args": [], "queue": ""}, InvalidOptions, "X: queue must be a string of at least one"),
        ({"class": "X", "args": [], "retry": -1}, InvalidOptions, "X: retry must be"),
        ({"class": "X", "args": [], "retry": 1, "retry_for": 5}, InvalidOptions, "X: retry=1 and retry_for"),
        ({"class": "X", "args": [], "jid": 7}, InvalidJob, "X: 'jid' is an integer"),
        ({"class": "X", "args": [], "at": "later"}, InvalidOptions, "must be seconds"),
        ({"class": "X", "args": [], "at": -1}, InvalidOptions, "must not be negative"),
        ({"class": "X", "args": [], "wait_replicas": "2"}, InvalidOptions, "X: wait_replicas must be"),
        ({"class": "X", "args": [], "extra": 5}, InvalidOptions, "X: extra must be a mapping"),
        ({"class": "X", "args": [], "custom": object()}, InvalidArguments, "X: cannot be stored as JSON"),
        ({"class": "X", "args": [object()]}, InvalidArguments, r"X: the argument 'args\[0\]' is an object"),
        ({"class": "X", "args": [1, {"a": float("nan")}]}, InvalidArguments, r"'args\[1\]' at \['a'\] is nan"),
        ({"class": "X", "args": [{1: 2}]}, InvalidArguments, "JSON keys are strings"),
    ],
)
def test_an_invalid_job_is_refused_before_anything_is_stored(client, stored, item, error, complaint):
    with pytest.raises(error, match=complaint):
        client.push(item)
    assert stored == []


def test_strict_arguments_may_only_warn(client, config, stored, caplog):
    config.client.strict_args = "warn"
    client.push({"class": "X", "args": [(1, 2)]})
    assert decode(stored[0].raw)["args"] == [[1, 2]]
    assert "X: the argument 'args[0]' is a tuple" in caplog.text


def test_warnings_about_strict_arguments_name_no_part_of_them(client, config, stored, caplog):
    config.client.strict_args = "warn"
    client.push({"class": "X", "args": [{"ann@example.org": {5150: 2}}], "custom": {5151: 1}})
    assert "X: the argument 'args[0]' has a key of type int" in caplog.text
    assert "X: 'custom' has a key of type int" in caplog.text
    assert not re.search("ann|515", caplog.text)


def test_without_strict_arguments_values_outside_json_are_still_refused(client, config, stored, caplog):
    config.client.strict_args = "off"
    client.push({"class": "X", "args": [(1, 2)]})
    assert caplog.text == ""
    with pytest.raises(InvalidArguments, match="X: cannot be stored as JSON"):
        client.push({"class": "X", "args": [float("nan")]})
    assert len(stored) == 1


def test_a_job_for_later_has_no_time_in_its_payload(client, stored):
    client.push({"class": "X", "args": [], "at": timedelta(minutes=1)})
    assert stored[0].at == pytest.approx(1795216840.6525)
    assert not {"at", "enqueued_at"} & set(stored[0].payload)


def test_middleware_may_change_a_job(client, config, stored):
    def to_low(push):
        push.payload["queue"] = "low"
        push.payload["args"].append("added")
        yield

    config.client_middleware.add(to_low)
    client.push({"class": "X", "args": [1]})
    assert (stored[0].queue, stored[0].payload["args"]) == ("low", [1, "added"])


def test_middleware_may_stop_a_job(client, config, stored):
    config.client_middleware.add(returning())
    assert not client.push({"class": "X", "args": []})
    assert client.push_bulk({"class": "X", "args": [[1], [2]]}) == ["", ""]
    assert stored == []


def test_middleware_may_replace_the_payload(client, config, stored):
    def replaced(push):
        push.payload = {**push.payload, "jid": "other"}
        yield

    config.client_middleware.add(replaced)
    assert client.push({"class": "X", "args": []}) == "other"


def test_middleware_may_schedule_a_job(client, config, stored):
    def later(push):
        push.payload["at"] = 1_800_000_000.5
        yield

    config.client_middleware.add(later)
    client.push({"class": "X", "args": []})
    assert stored[0].at == 1_800_000_000.5
    assert "enqueued_at" not in stored[0].payload


@pytest.mark.parametrize(
    "change", [{"queue": ""}, {"queue": "\ud800"}, {"args": (1,)}, {"class": 7}, {"at": math.nan}], ids=str
)
def test_a_payload_broken_by_middleware_is_refused(client, config, stored, change):
    def breaking(push):
        push.payload.update(change)
        yield

    config.client_middleware.add(breaking)
    with pytest.raises(InvalidJob):
        client.push({"class": "X", "args": [1]})
    assert stored == []


def test_arguments_are_checked_after_middleware(client, config, stored):
    def repair(push):
        push.payload["args"] = [list(push.payload["args"][0])]
        yield

    config.client_middleware.add(repair)
    client.push({"class": "X", "args": [(1, 2)]})
    assert stored[0].payload["args"] == [[1, 2]]


def test_the_queue_resolver_runs_before_middleware_and_at_the_first_push_only(client, config, stored):
    seen = []

    def look(push):
        seen.append((push.reason, push.payload["queue"]))
        yield

    config.client_middleware.add(look)
    config.queue_resolver = lambda push: "routed" if push.payload["class"] == "X" else None
    client.push({"class": "X", "args": []})
    client.push({"class": "Y", "args": []})
    client.reenqueue({"class": "X", "args": [], "queue": "stored"}, "schedule")
    assert seen == [("push", "routed"), ("push", "default"), ("schedule", "stored")]


def test_an_odd_queue_of_the_resolver_is_refused(client, config):
    config.queue_resolver = lambda push: ["low"]
    with pytest.raises(InvalidOptions, match="queue_resolver"):
        client.push({"class": "X", "args": []})


def test_middleware_that_tags_a_job_tags_neither_the_defaults_nor_the_caller_s_list(client, config, stored):
    def tag(push):
        push.payload["tags"].append("more")
        yield

    config.client_middleware.add(tag)
    config.jobs["tags"] = ["a"]
    own = ["b"]
    client.push({"class": "X", "args": []})
    client.push({"class": "X", "args": []})
    client.push({"class": "X", "args": [], "tags": own})
    assert [job.payload["tags"] for job in stored] == [["a", "more"], ["a", "more"], ["b", "more"]]
    assert own == ["b"]


class TestReenqueue:
    def test_an_odd_queue_name_of_ruby_is_accepted(self, client, config):
        config.client_middleware.add(lambda push: (yield))
        assert client.reenqueue({"class": "X", "args": [], "queue": "a b"}, "schedule").queue == "a b"

    @pytest.mark.parametrize("queue, moved", [(None, "default"), ("", "default"), ([], "default"), (5, "5")])
    def test_a_queue_of_another_type_is_named_as_ruby_names_it(self, client, queue, moved):
        prepared = client.reenqueue({"class": "X", "args": [], "queue": queue, "retry": "5"}, "retry")
        assert (prepared.queue, prepared.payload["queue"], prepared.payload["retry"]) == (moved, moved, "5")

    def test_middleware_cannot_send_it_back_to_the_schedule(self, client, config):
        def later(push):
            push.payload["at"] = 4_102_444_800
            yield

        config.client_middleware.add(later)
        moved = client.reenqueue({"class": "X", "args": []}, "schedule")
        assert moved.at is None
        assert moved.payload["enqueued_at"] == 1795216780652

    def test_large_arguments_are_warned_about_once_only(self, client, caplog):
        client.reenqueue({"class": "X", "args": ["x" * 1_000_000]}, "schedule")
        assert caplog.text == ""

    def test_a_moved_job_gets_defaults_and_a_new_stamp_and_keeps_the_rest(self, client):
        payload = {"class": "X", "args": [], "jid": "j", "enqueued_at": 1, "retry_count": 2, "foreign": {"a": 1}}
        moved = client.reenqueue(payload, "retry")
        assert list(moved.payload.items()) == [
            ("retry", True),
            ("queue", "default"),
            ("class", "X"),
            ("args", []),
            ("jid", "j"),
            ("enqueued_at", 1795216780652),
            ("retry_count", 2),
            ("foreign", {"a": 1}),
        ]
        assert moved.at is None

    def test_its_own_options_win_even_if_they_contradict_each_other(self, client):
        moved = client.reenqueue({"class": "X", "args": [], "queue": "low", "retry": 3, "retry_for": 60}, "retry")
        assert (moved.queue, moved.payload["retry"], moved.payload["retry_for"]) == ("low", 3, 60)

    def test_middleware_receives_the_reason_and_may_stop_the_push(self, client, config):
        config.client_middleware.add(lambda push: None if push.reason == "schedule" else (yield))
        assert client.reenqueue({"class": "X", "args": []}, "schedule") is None
        assert client.reenqueue({"class": "X", "args": []}, "retry") is not None

    def test_a_payload_that_does_not_encode_raises(self, client):
        with pytest.raises(InvalidJob):
            client.reenqueue({"class": "X", "args": [], "foreign": float("nan")}, "schedule")


def nested(levels, kind):
    value = []
    for _ in range(levels - 1):
        value = {"a": value} if kind is dict else kind([value])
    return value


@pytest.mark.parametrize("mode", ["raise", "warn", "off"])
@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_arguments_nested_too_deeply_for_ruby_are_never_stored(client, config, stored, mode, kind):
    config.client.strict_args = mode
    # The payload and its list of arguments are levels as well.
    client.push({"class": "X", "args": [nested(98, kind if mode == "off" else list)]})
    assert decode(stored[0].raw)
    with pytest.raises(InvalidArguments, match=r"X: .*nested deeper than \d+ levels"):
        client.push({"class": "X", "args": [nested(99, list)]})
    with pytest.raises(InvalidArguments, match=r"X: cannot be stored as JSON: nested deeper than 100 levels"):
        client.push({"class": "X", "args": [], "custom": nested(100, kind)})
    with pytest.raises(InvalidArguments, match=r"X: .*nested deeper than \d+ levels"):
        client.push_bulk({"class": "X", "args": [[1], [nested(99, list)]]})
    assert len(stored) == 1


class TestCollidingKeys:
    TWICE = r"X: cannot be stored as JSON: two keys of one dict become '1'; use distinct string keys"

    @pytest.mark.parametrize("mode", ["warn", "off"])
    @pytest.mark.parametrize("value", [{1: "a", "1": "b"}, [({"deep": {1: "a", "x": 0, "1": "b"}},)]])
    def test_odd_values_are_refused_even_without_strict_arguments(self, client, config, stored, mode, value):
        config.client.strict_args = mode
        with pytest.raises(InvalidArguments, match=self.TWICE):
            client.push({"class": "X", "args": [value]})
        with pytest.raises(InvalidArguments, match=self.TWICE):
            client.push({"class": "X", "args": [], "custom": value})
        with pytest.raises(InvalidArguments, match=self.TWICE):
            client.push_bulk({"class": "X", "args": [[value], [value]]})
        assert stored == []

    def test_are_refused_before_the_commit_that_a_push_waits_for(self, client, config):
        waiting = []
        config.client.strict_args = "off"
        config.after_commit = waiting.append
        with pytest.raises(InvalidArguments, match=self.TWICE):
            client.push({"class": "X", "args": [{1: "a", "1": "b"}]})
        assert waiting == []
        client.push({"class": "X", "args": [{1: "a", "2": "b"}]})
        assert len(waiting) == 1

    def test_keys_that_differ_in_json_pass(self, client, config, stored):
        config.client.strict_args = "off"
        client.push({"class": "X", "args": [{1: "a", "2": "b", None: "c", 1.5: "e"}]})
        assert json.loads(stored[0].raw)["args"] == [{"1": "a", "2": "b", "null": "c", "1.5": "e"}]

    def test_middleware_cannot_put_them_into_a_stored_job(self, client, config):
        def breaks(push):
            push.payload["custom"] = {1: "a", "1": "b"}
            yield

        config.client_middleware.add(breaks)
        with pytest.raises(InvalidArguments, match=self.TWICE):
            client.reenqueue({"class": "X", "args": []}, "retry")


@pytest.mark.parametrize("wrong", [None, [], "HardJob", 5])
def test_a_push_that_is_not_a_mapping_explains_the_expected_form(client, stored, wrong):
    for push in (client.push, client.push_bulk, client.build):
        with pytest.raises(
            InvalidJob, match=r'a push must be a mapping like \{"class": "HardJob", "args": \[1\]\}, got \w+$'
        ):
            push(wrong)
    assert stored == []


class TestKeysThatAreNoStrings:
    """JSON would make strings of them."""

    def test_of_the_push_are_refused(self, client, config, stored):
        config.client.strict_args = "off"
        with pytest.raises(InvalidJob, match="X: the keys of a job must be strings, got 5"):
            client.push({"class": "X", "args": [], 5: 1})
        with pytest.raises(InvalidJob, match="X: the keys of a job must be strings, got 5"):
            client.push_bulk({"class": "X", "args": [[]], 5: 1})
        assert stored == []

    def test_a_subclass_of_str_is_a_string(self, client, config, stored):
        client.push({"class": "X", "args": [], StrEnum("Key", ["mark"])("mark"): 1})
        assert b'"mark":1' in stored[0].raw

    def test_nor_may_middleware_put_them_there(self, client, config, stored):
        @config.client_middleware.add
        def number(push):
            push.payload[5] = 1
            yield

        with pytest.raises(InvalidJob, match="X: the keys of a job must be strings, got 5"):
            client.push({"class": "X", "args": []})
        assert stored == []

    @pytest.mark.parametrize("custom", [{5: 1}, {"a": [({"b": {5: 1}},)]}])
    def test_deeper_down_strict_arguments_decide(self, client, config, stored, caplog, custom):
        push = {"class": "X", "args": [], "custom": custom}
        with pytest.raises(InvalidArguments, match="X: 'custom' has a key of type int; JSON keys are strings"):
            client.push(push)
        assert stored == []
        config.client.strict_args = "warn"
        client.push(push)
        assert "X: 'custom' has a key of type int; JSON keys are strings" in caplog.text
        caplog.clear()
        config.client.strict_args = "off"
        client.push(push)
        assert not caplog.records
        assert len(stored) == 2


# ------------------------------------------------------------------------------------- the context of the pushing side


def test_a_push_is_stamped_before_client_middleware_sees_it(client, config, stored):
    seen = []

    def look(push):
        seen.append(push.payload["meta.user"])
        yield

    config.client_middleware.add(look)
    with context(user="ann", correlation_id="c1"):
        client.push({"class": "X", "args": []})
    assert seen == ["ann"]
    assert decode(stored[0].raw)["meta.user"] == "ann"
    assert decode(stored[0].raw)["correlation_id"] == "c1"


def test_explicit_values_of_a_push_are_kept(client, stored):
    with context(user="ann", correlation_id="c1"):
        client.push({"class": "X", "args": [], "meta.user": "bob", "correlation_id": "c2"})
    assert (stored[0].payload["meta.user"], stored[0].payload["correlation_id"]) == ("bob", "c2")


@pytest.mark.parametrize("reason", ["schedule", "retry"])
def test_a_stored_job_keeps_its_context_and_gets_no_new_one(reason, client, stored):
    with context(user="ann", correlation_id="c1"):
        client.push({"class": "X", "args": []})
    with context(user="bob", project="p"):
        moved = client.reenqueue(decode(stored[0].raw), reason).payload
    assert {key: value for key, value in moved.items() if key.startswith(("meta.", "corr"))} == {
        "meta.user": "ann",
        "correlation_id": "c1",
    }


@pytest.mark.parametrize("how", [{}, {"spread_interval": 60}], ids=["now", "scheduled"])
def test_every_job_of_a_bulk_push_is_stamped(how, client, stored):
    with context(user="ann", correlation_id="c1"):
        client.push_bulk({"class": "X", "args": [[1], [2]]}, **how)
    payloads = [decode(job.raw) for job in stored]
    assert [(job["meta.user"], job["correlation_id"]) for job in payloads] == [("ann", "c1")] * 2


def test_a_job_passes_its_context_to_the_jobs_it_pushes(client, stored):
    parent = JobContext({"class": "Parent", "args": [], "jid": "ab", "meta.user": "ann"}, "default")
    with running(parent):
        client.push({"class": "Child", "args": []})
    found = {key: value for key, value in stored[0].payload.items() if key.startswith(("meta.", "corr"))}
    assert found == {"correlation_id": "ab", "meta.user": "ann", "meta.caller_id": "Parent"}


def test_a_push_may_have_the_id_of_an_earlier_push(client, stored):
    jid = client.push({"class": "HardJob", "args": [1]})
    assert client.push({"class": "HardJob", "args": [jid], "jid": jid}) == jid
    assert type(stored[1].payload["jid"]) is str
    assert decode(stored[1].raw)["args"] == [str(jid)]


def test_extra_options_are_stored_with_the_others(client, stored):
    client.push({"class": "X", "args": [], "extra": {"own": 1}})
    assert stored[0].payload["own"] == 1


def test_a_job_scheduled_in_the_past_is_enqueued_now(client, stored):
    client.push({"class": "X", "args": [], "at": 1_700_000_000})
    assert stored[0].at is None
    assert stored[0].payload["enqueued_at"] == 1795216780652
