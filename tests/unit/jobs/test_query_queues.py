"""A worker that selects jobs serves the queues to which the current rules route them."""

from __future__ import annotations

import pytest

from offsider import job
from offsider.config.config import Config
from offsider.core.characteristics import Query
from offsider.core.errors import ConfigurationError
from offsider.jobs import registry
from offsider.jobs.routes import routes_of, serve_selected

FILE = """
[servers.bulk]
url = "redis://bulk"

[routing]
rules = [["urgency=high", "urgent"], ["resource_boundary=cpu", "heavy", "bulk"], ["*", "default"]]

[shards.fast]
select = "urgency=high"

[shards.named]
queues = ["urgent"]

[shards.none]
select = "tags=none"
"""


@pytest.fixture(autouse=True)
def jobs(monkeypatch):
    monkeypatch.setattr(registry, "_jobs", {})
    for name, declaration in {
        "send": {"urgency": "high", "tags": ["mail"]},
        "alarm": {"urgency": "high"},
        "resize": {"resource_boundary": "cpu"},
        "report": {"tags": ["mail"]},
    }.items():

        @job(name=name, **declaration)
        def declared(): ...

        declared.declared.qualname = name


@pytest.fixture
def load(tmp_path):
    path = tmp_path / "offsider.toml"
    path.write_text(FILE)
    return lambda **overrides: Config.load(path, environ={}, overrides=overrides)


def served(config, *queries, **options):
    warnings = serve_selected(config, [Query.parse(text) for text in queries], **options)
    return [str(spec) for spec in config.capsules["default"].specs], warnings


def test_without_a_query_nothing_is_changed(load):
    assert served(load()) == (["default"], [])
    assert served(load(shard="named")) == (["urgent"], [])


def test_selected_queues_have_equal_priority(load):
    config = load()
    assert served(config, "urgency=high", "name=report") == (["urgent,1", "default,1"], [])
    assert config.capsules["default"].mode == "random"


def test_a_shard_selects_unless_queues_are_named(load):
    assert served(load(shard="fast")) == (["urgent,1"], [])
    assert served(load(shard="fast", queues=["mine"])) == (["mine"], [])
    assert served(load(shard="fast"), "name=report") == (["default,1"], [])


def test_jobs_served_without_being_selected_are_reported(load):
    queues, warnings = served(load(), "name=send")
    assert queues == ["urgent,1"]
    (warning,) = warnings
    assert warning == (
        "--select 'name=send' serves the queue urgent with all its jobs, including alarm, which it does not select: "
        "route them to another queue"
    )
    queues, (warning,) = served(load(), "name=send", negate=True)
    assert queues == ["default,1"]
    assert warning.startswith("--select 'name=send' leaves out the queue urgent with all its jobs, including alarm")


def test_jobs_of_other_servers_are_reported(load):
    queues, (warning,) = served(load(), "resource_boundary=cpu", "name=report")
    assert queues == ["default,1"]
    assert warning == (
        "--select 'resource_boundary=cpu' or 'name=report' does not serve heavy of the server bulk, where resize would "
        "wait: start a worker for the server of that queue, since this one serves main"
    )


@pytest.mark.parametrize(
    "shard, queries, negate, complaint",
    [
        ("", ["tags=none"], False, r"^--select 'tags=none' selects none of 4 declared jobs, so there is no queue"),
        ("none", [], False, r"^the shard none \('tags=none'\) selects none of 4 declared jobs"),
        (
            "",
            ["resource_boundary=cpu"],
            False,
            "its jobs go to heavy of the server bulk, and this worker serves main",
        ),
        ("", ["*"], True, "with --negate no queue of a declared job is left"),
    ],
)
def test_a_worker_that_would_serve_nothing_is_refused_with_the_reason(load, shard, queries, negate, complaint):
    config = load(shard=shard) if shard else load()
    with pytest.raises(ConfigurationError, match=complaint):
        served(config, *queries, negate=negate)


def test_queues_of_shards_of_this_server_are_left_to_them(tmp_path):
    path = tmp_path / "shards.toml"
    shards = '[shards.here]\nqueues = ["urgent"]\n\n[shards.there]\nserver = "bulk"\nqueues = ["default"]\n'
    path.write_text(FILE.partition("[shards.fast]")[0] + shards)
    assert served(Config.load(path, environ={}))[0] == ["default"]


def test_an_application_without_jobs_is_refused(load, monkeypatch):
    monkeypatch.setattr(registry, "_jobs", {})
    with pytest.raises(ConfigurationError, match="the application declares no jobs; pass the modules that do with -r"):
        served(load(), "*")


def test_without_a_query_all_declared_jobs_are_served(monkeypatch):
    """With names that can be named: only "*" serves one with outer spaces."""
    monkeypatch.setattr(registry, "_jobs", {})

    @job(name="mail", queue="mail", retry_queue="again")
    def mail(): ...

    @job(name="odd", queue=" odd")
    def odd(): ...

    config = Config()
    config.capsule("other", queues=["again"])
    assert served(config) == (["default,1", "mail,1"], [])
    assert config.capsules["default"].mode == "random"
    everything = Config()
    everything.capsule("other", queues=["*"])
    assert served(everything) == (["default"], [])
    everything.jobs["retry_queue"] = "second"
    assert [each.queue for each in routes_of(everything).destinations()] == [" odd", "again", "mail", "second"]
