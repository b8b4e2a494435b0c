"""The configuration as a whole: plugging in, guarding, freezing, reporting errors."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from offsider.config.config import Config, Extension
from offsider.config.web_tab import WebTab
from offsider.core.errors import ConfigurationError


class Recorder(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


@pytest.fixture
def config():
    return Config()


@pytest.fixture
def log():
    recorder = Recorder()
    logger = logging.getLogger("offsider")
    logger.addHandler(recorder)
    yield recorder.records
    logger.removeHandler(recorder)


def test_capsules_are_made_and_changed_by_name(config):
    capsule = config.capsule("images", concurrency=2, queues=["a"])
    assert config.capsule("images", mode="random") is capsule
    assert (capsule.concurrency, capsule.queues, capsule.mode) == (2, ["a"], "random")
    with pytest.raises(ConfigurationError, match=r"capsules\.images\.concurrency expects"):
        config.capsule("images", concurrency=0)


def test_an_extension_is_installed_once(config):
    class Thing:
        name = "thing"

        def install(self, config):
            config.add_job_option("unique_for", int)
            config.info_fields.append(lambda: {"thing": 1})
            config.add_web_tab(WebTab("thing", "Thing", "/thing"))
            config.services.append(lambda config: None)
            config.on("beat", print)
            config.jobs["unique_for"] = 5

    assert isinstance(Thing(), Extension)
    config.use(Thing())
    assert list(config.extensions) == ["thing"]
    assert list(config.job_options) == ["unique_for"]
    assert (len(config.info_fields), len(config.web_tabs), len(config.services)) == (1, 1, 1)
    assert config.events.listened("beat")
    with pytest.raises(ConfigurationError, match="'thing' is installed already"):
        config.use(Thing())
    with pytest.raises(ConfigurationError, match="web tab 'thing' already"):
        config.add_web_tab(WebTab("thing", "Thing", "/thing"))
    with pytest.raises(ConfigurationError, match="job option 'unique_for' already"):
        config.add_job_option("unique_for", int)
    config.freeze()


def test_a_fetcher_by_name_or_class(config):
    assert config.fetcher == "reliable"
    config.fetcher = "basic"
    assert config.worker.fetcher == "basic"

    class Mine:
        pass

    config.fetcher = Mine
    assert config.fetcher is Mine
    config.fetcher = "package.module:Class"
    assert config.fetcher == "package.module:Class"
    with pytest.raises(ConfigurationError, match=r"worker\.fetcher expects"):
        config.fetcher = "no such thing"


def test_only_seams_are_assignable(config):
    config.reloader = lambda job: (yield)
    config.after_commit = lambda push: push()
    config.queue_resolver = lambda push: None
    with pytest.raises(ConfigurationError, match=r"config\.relaoder cannot be assigned \(did you mean 'reloader'\?\)"):
        config.relaoder = None
    with pytest.raises(ConfigurationError, match=r"config\.redis cannot be assigned"):
        config.redis = "redis://localhost"
    with pytest.raises(ConfigurationError, match=r"config\.reloader expects a generator function"):
        config.reloader = print


@pytest.mark.parametrize(
    "edit",
    [
        lambda config: setattr(config.worker, "concurrency", 1),
        lambda config: setattr(config.redis, "url", "redis://x"),
        lambda config: setattr(config, "reloader", None),
        lambda config: setattr(config, "fetcher", "basic"),
        lambda config: setattr(config, "clock", None),
        lambda config: config.jobs.update(retry=1),
        lambda config: config.client_middleware.add(print),
        lambda config: config.server_middleware.clear(),
        lambda config: config.capsule("x"),
        lambda config: config.capsules["default"].server_middleware.add(print),
        lambda config: config.on("beat", print),
        lambda config: config.error_handlers.append(print),
        lambda config: config.add_web_tab(WebTab("a", "b", "/c")),
        lambda config: config.add_job_option("x", int),
        lambda config: config.use(object()),
    ],
)
def test_after_the_freeze_every_edit_is_refused(config, edit):
    config.freeze()
    config.freeze()
    assert config.frozen
    with pytest.raises(ConfigurationError, match="frozen"):
        edit(config)


def test_the_freeze_checks_the_whole(config):
    config.jobs["unknown_thing"] = 1
    with pytest.raises(ConfigurationError, match="unknown option 'unknown_thing'"):
        config.freeze()
    assert not config.frozen


def test_an_override_must_be_a_setting(tmp_path):
    with pytest.raises(ConfigurationError, match=r"no setting concurency \(did you mean 'concurrency'\?\)"):
        Config.load(environ={}, cwd=tmp_path, overrides={"concurency": 1})
    with pytest.raises(ConfigurationError, match=r"^-c, --concurrency: worker\.concurrency expects"):
        Config.load(environ={}, cwd=tmp_path, overrides={"concurrency": 0})


def test_every_error_handler_is_called_even_if_one_fails(config, log):
    seen = []
    config.error_handlers.append(lambda error, context: 1 / 0)
    config.error_handlers.append(lambda error, context: seen.append((str(error), context)))
    config.handle_error(ValueError("boom"), {"tick": 1})
    assert seen == [("boom", {"tick": 1})]
    assert log[0].getMessage() == "ValueError: boom"
    assert log[0].fields == {"tick": 1}
    assert "an error handler failed while it reported ValueError: boom" in log[1].getMessage()


def test_an_error_handler_gets_the_whole_payload_and_the_log_no_arguments(config, log):
    seen = []
    config.error_handlers.append(lambda error, context: seen.append(context["job"]))
    payload = {"class": "Hard", "args": ["secret"], "kwargs": {"key": "secret"}, "jid": "ab", "queue": "low"}
    config.handle_error(ValueError("boom"), {"job": payload})
    assert seen == [payload]
    assert "secret" not in str(vars(log[0]))
    config.log.arguments = True
    config.handle_error(ValueError("boom"), {"job": payload})
    assert log[1].fields["args"] == '["secret",{"key":"secret"}]'


def test_the_message_of_an_error_begins_with_what_the_worker_did(config, log):
    config.handle_error(ValueError("boom"), {"context": "storing the result of a job", "server": "main"})
    config.handle_error(ValueError("boom"), {"context": "a malformed payload", "next": "moved to the dead set"})
    assert [record.getMessage() for record in log] == [
        "storing the result of a job: ValueError: boom",
        "a malformed payload: failed (moved to the dead set): ValueError: boom",
    ]
    assert log[0].fields == {"server": "main"}


def test_ctrl_c_in_a_death_handler_stops_the_console_and_other_errors_are_reported(config):
    called, reported = [], []

    def broken(payload, error):
        raise SystemExit(1)

    def interrupted(payload, error):
        raise KeyboardInterrupt

    config.error_handlers.append(lambda error, context: reported.append((type(error), context["context"])))
    config.death_handlers.extend([broken, lambda payload, error: called.append(payload), interrupted])
    with pytest.raises(KeyboardInterrupt):
        config.call_death_handlers({"class": "Hard", "jid": "ab"}, ValueError("boom"))
    assert called == [{"class": "Hard", "jid": "ab"}]
    assert reported == [(SystemExit, "calling a death handler")]


def test_reporting_an_error_never_raises_even_when_the_log_is_broken_or_a_handler_exits(config, log):
    seen, logger = [], logging.getLogger("offsider")

    def broken(record):
        raise LookupError("a broken filter")

    def leave(error, context):
        raise SystemExit(1)

    config.error_handlers.append(leave)
    config.error_handlers.append(lambda error, context: seen.append(str(error)))
    logger.addFilter(broken)
    try:
        config.handle_error(ValueError("boom"), {})
    finally:
        logger.removeFilter(broken)
    assert seen == ["boom"]


def test_the_traceback_is_logged_in_development_and_not_in_production(config, log):
    config.handle_error(ValueError("boom"), {})
    config.worker.environment = "production"
    config.handle_error(ValueError("boom"), {})
    assert [bool(record.exc_info) for record in log] == [True, False]


@pytest.mark.parametrize("style, traced", [("text", True), ("json", False)])
def test_a_failed_job_is_one_record_with_its_traceback_in_production_too(config, log, style, traced):
    """Structured lines have the traceback in the line of the job's end."""
    config.worker.environment, config.log.format = "production", style
    context = {"job": {"class": "J", "args": ["secret"], "jid": "ab"}, "next": "attempt 1 of 26, next in 37 s"}
    config.handle_error(ValueError("boom"), context)
    [record] = log
    assert record.getMessage() == "failed (attempt 1 of 26, next in 37 s): ValueError: boom"
    assert record.fields == {"class": "J", "jid": "ab", "correlation_id": "ab"}
    assert (bool(record.exc_info), record.folded) == (traced, True)


# ------------------------------------------------------------------------------------- servers and shards


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "offsider.toml"
    path.write_text("""
        concurrency = 7
        queues = ["default"]
        [redis]
        url = "redis://main/0"
        [servers.bulk]
        url = "${BULK_URL:-redis://bulk/1}"
        wire_version = 7
        [shards.urgent]
        queues = ["urgent", "mails"]
        concurrency = 3
        [shards.bulk]
        queues = ["bulk"]
        processes = 2
        server = "bulk"
        [shards.heavy]
        select = "resource_boundary=memory"
    """)
    return lambda environ=None, for_worker=False, **overrides: Config.load(
        path, environ=environ or {}, overrides=overrides, for_worker=for_worker
    )


def test_without_a_shard_the_process_works_for_the_server_of_redis(fleet):
    config = fleet()
    assert list(config.servers) == ["main", "bulk"]
    assert (config.server, config.redis.url, config.redis) == ("main", "redis://main/0", config.servers["main"])
    assert (config.servers["bulk"].url, config.servers["bulk"].wire_version) == ("redis://bulk/1", 7)
    assert list(config.shards) == ["urgent", "bulk", "heavy"]
    assert fleet({"BULK_URL": "redis://other"}).servers["bulk"].url == "redis://other"


def test_a_shard_overrides_the_rest_of_the_file(fleet):
    config = fleet(shard="urgent")
    assert (config.worker.queues, config.worker.concurrency) == (("urgent", "mails"), 3)
    assert (config.server, config.worker.processes) == ("main", 0)
    bulk = fleet(shard="bulk")
    assert (bulk.worker.queues, bulk.worker.concurrency, bulk.worker.processes) == (("bulk",), 7, 2)
    assert (bulk.server, bulk.redis.url, bulk.redis) == ("bulk", "redis://bulk/1", bulk.servers["bulk"])


def test_the_shard_of_the_environment_applies_only_to_workers(fleet):
    variable = "OFFSIDER_WORKER_SHARD"
    assert fleet({variable: "bulk"}, for_worker=True).server == "bulk"
    other = fleet({variable: "bulk"})
    assert (other.server, other.worker.shard, other.warnings) == ("main", "", [])
    assert fleet({variable: "gone"}).worker.shard == ""
    with pytest.raises(ConfigurationError, match="there is no shard 'gone'"):
        fleet({variable: "gone"}, for_worker=True)


def test_the_environment_and_the_command_line_override_a_shard(fleet):
    assert fleet({"OFFSIDER_WORKER_CONCURRENCY": "9"}, shard="urgent").worker.concurrency == 9
    assert fleet({"OFFSIDER_WORKER_CONCURRENCY": "9"}, shard="urgent", concurrency=2).worker.concurrency == 2
    assert fleet(shard="urgent", queues=["low"]).worker.queues == ("low",)
    config = fleet({"REDIS_URL": "redis://from-environment"}, shard="bulk")
    assert (config.servers["main"].url, config.redis.url) == ("redis://from-environment", "redis://bulk/1")


def test_an_unknown_shard_raises_with_the_configured_names(fleet):
    with pytest.raises(
        ConfigurationError, match=r"no shard 'urgnt' \(did you mean 'urgent'\?\); there are urgent, bulk"
    ):
        fleet(shard="urgnt")
    with pytest.raises(ConfigurationError, match="no shard 'x'; the configuration has none"):
        Config.load(environ={}, overrides={"shard": "x"}, cwd=Path("/"))


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("[servers.bulk]\nwire_version = 7", r"offsider\.toml: servers\.bulk needs a url"),
        ("[servers.bulk]", r"servers\.bulk is an empty table; it needs a url"),
        ("[servers.bulk]\nurll = 'redis://x'", r"no setting servers\.bulk\.urll \(did you mean 'url'"),
        (
            "[redis]\nurl = 'redis://a/1'\n[servers.b]\nurl = 'redis://a/1'",
            "the servers main and b are the same one, redis",
        ),
        ("[servers.main]\nurl = 'redis://x'", r"servers\.main: the name cannot be used: it is the name of \[redis\]"),
        (
            "[servers.'a b']\nurl = 'redis://x'",
            r"servers\.a b: the name cannot be used: a name may contain only letters",
        ),
        (
            "[shards.a]\nqueues = ['a']\nserver = 'bulk'",
            r"shards\.a\.server: there is no server 'bulk': a table",
        ),
        ("[shards.a]\nqueues = ['a']\nselect = 'tags=a'", r"shards\.a has both queues and select"),
        ("[shards.a]\nconcurrency = 3", r"shards\.a has neither queues nor select"),
        ("[shards.a]\nselect = 'urgenci=high'", "unknown predicate 'urgenci'"),
        ("[shards.'']\nqueues = ['a']", "a shard needs a name"),
        ("[shards.a]", r"shards\.a is an empty table; it needs queues or select"),
    ],
)
def test_a_shard_with_an_unknown_server_is_refused(tmp_path, text, complaint):
    path = tmp_path / "offsider.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=complaint):
        Config.load(path, environ={})


def test_servers_are_added_in_code():
    config = Config()
    assert config.add_server("bulk", url="redis://bulk", key_prefix="x:") is config.servers["bulk"]
    with pytest.raises(ConfigurationError, match="there is a server 'bulk' already"):
        config.add_server("bulk", url="redis://bulk")
    with pytest.raises(ConfigurationError, match="the server 'other' needs a url"):
        config.add_server("other", key_prefix="x:")
    with pytest.raises(ConfigurationError, match=r"no setting servers\.other\.urll"):
        config.add_server("other", urll="redis://bulk")
    assert list(config.servers) == ["main", "bulk"]
    config.freeze()
    with pytest.raises(ConfigurationError, match=r"config\.servers"):
        config.add_server("other", url="redis://other")
    with pytest.raises(ConfigurationError, match="frozen"):
        config.servers["bulk"].key_prefix = "x:"


def test_a_rule_with_an_unknown_server_raises_at_the_freeze():
    config = Config()
    config.routing.rules = [["*", "default", "bulk"]]
    with pytest.raises(
        ConfigurationError,
        match=r"routing\.rules, rule 1: there is no server 'bulk': a table \[servers\.bulk\] with its url is missing",
    ):
        config.freeze()


def test_after_a_thaw_everything_can_change_and_capsules_follow_the_configuration():
    config = Config()
    single = config.capsule("single", concurrency=1)
    single.server_middleware.add(own := lambda job: (yield))
    config.freeze()
    config.thaw()
    config.server_middleware.add(later := lambda job: (yield))
    config.events.on("startup", list)
    config.error_handlers.append(print)
    config.jobs["queue"] = "low"
    config.worker.concurrency = 3
    config.redis.url = "redis://elsewhere"
    config.outbox = None
    config.capsule("single", concurrency=2)
    assert list(config.capsules["default"].server_middleware) == [later]
    assert list(single.server_middleware) == [own]
    config.freeze()
    with pytest.raises(ConfigurationError, match="it cannot change after the worker has started"):
        config.worker.concurrency = 4
