"""Errors of redis-py, grouped by how a caller can react."""

import pytest
from redis import exceptions

from offsider.core.errors import Fenced, QueueFull, RedisRefused, RedisUnavailable
from offsider.storage.redis_errors import REDIRECTIONS, REROUTE, error_code, translate

UNBLOCKED = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"


@pytest.mark.parametrize("sent", [True, False])
@pytest.mark.parametrize(
    "error",
    [
        exceptions.ConnectionError("Connection closed by server."),
        exceptions.TimeoutError("Timeout reading from socket"),
    ],
)
def test_a_broken_connection_is_ambiguous_when_something_was_sent(error, sent):
    failure = translate(error, sent=sent, server="redis://host")
    assert isinstance(failure, RedisUnavailable)
    assert failure.ambiguous is sent
    assert "redis://host" in str(failure)


def test_a_loading_server_executed_nothing():
    failure = translate(exceptions.BusyLoadingError("LOADING"), sent=True, server="redis://host")
    assert isinstance(failure, RedisUnavailable)
    assert not failure.ambiguous


@pytest.mark.parametrize(
    "error, kind, code",
    [
        (exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), QueueFull, "OOM"),
        (exceptions.ReadOnlyError("You can't write against a read only replica."), RedisRefused, "READONLY"),
        (exceptions.MasterDownError("Link with MASTER is down"), RedisRefused, "MASTERDOWN"),
        (exceptions.ResponseError(UNBLOCKED), RedisRefused, "UNBLOCKED"),
        (exceptions.ResponseError("NOREPLICAS Not enough good replicas to write."), RedisRefused, "NOREPLICAS"),
        (exceptions.NoScriptError("No matching script."), RedisRefused, "NOSCRIPT"),
        (exceptions.NoPermissionError("this user has no permissions"), RedisRefused, "NOPERM"),
        (exceptions.AuthenticationError("invalid username-password pair"), RedisRefused, "NOAUTH"),
        (exceptions.AuthenticationWrongNumberOfArgsError("wrong"), RedisRefused, "NOAUTH"),
        (exceptions.ExecAbortError("Transaction discarded"), RedisRefused, "EXECABORT"),
        (exceptions.MovedError("1 127.0.0.1:7000"), RedisRefused, "MOVED"),
        (exceptions.ClusterCrossSlotError("Keys in request don't hash"), RedisRefused, "CROSSSLOT"),
        (exceptions.ResponseError("WRONGTYPE Operation against a key"), RedisRefused, "WRONGTYPE"),
        (exceptions.ResponseError("FENCED this identity was declared dead"), Fenced, "FENCED"),
        (exceptions.ResponseError("unknown command"), RedisRefused, "ERR"),
        (exceptions.ResponseError(""), RedisRefused, "ERR"),
    ],
)
def test_an_error_reply_is_refused_with_its_code(error, kind, code):
    failure = translate(error, sent=True, server="redis://host")
    assert type(failure) is kind
    assert failure.code == error_code(error) == code


@pytest.mark.parametrize(
    "error",
    [
        exceptions.MovedError("1 127.0.0.1:7000"),
        exceptions.AskError("1 127.0.0.1:7000"),
        exceptions.ClusterCrossSlotError("Keys in request don't hash to the same slot"),
        exceptions.ClusterDownError("Hash slot not served"),
        exceptions.TryAgainError("Multiple keys request during rehashing of slot"),
    ],
)
def test_a_cluster_is_reported_with_the_next_step(error):
    assert str(translate(error, sent=True, server="redis://host")) == (
        "redis://host is a node of a Cluster: write its URL as redis+cluster://host:port (TLS: rediss+cluster://)"
    )


def test_an_unreachable_address_is_reported_with_the_next_step():
    error = exceptions.TimeoutError("Timeout connecting to server")
    plain = str(translate(error, sent=False, server="redis://host"))
    assert plain.endswith("(start it, or set REDIS_URL or its url in the configuration to another server)")
    tls = str(translate(error, sent=False, server="rediss://host"))
    assert tls.endswith("to another server, or redis:// in its URL if it does not use TLS)")
    tls = str(translate(exceptions.ConnectionError("refused"), sent=False, server="rediss+cluster://a:1"))
    assert tls.endswith("or redis+cluster:// in its URL if it does not use TLS)")


def test_another_program_at_the_port_is_called_no_redis_server():
    failure = translate(exceptions.InvalidResponse('Protocol error, got "<"'), sent=True, server="redis://host")
    assert str(failure).startswith('redis://host is not a Redis server (Protocol error, got "<"): set REDIS_URL')


@pytest.mark.parametrize(
    "error, code, why",
    [
        (exceptions.MovedError("1 127.0.0.1:7000"), "MOVED", "its slot has moved to another node"),
        (exceptions.AskError("1 127.0.0.1:7000"), "ASK", "its slot is moving to another node"),
        (exceptions.TryAgainError("Multiple keys request"), "TRYAGAIN", "its slot is moving to another node"),
        (exceptions.ClusterDownError("The cluster is down"), "CLUSTERDOWN", "the Cluster is down"),
    ],
)
def test_a_cluster_that_cannot_execute_a_command_is_unavailable(error, code, why):
    failure = translate(error, sent=True, server="redis+cluster://host")
    assert type(failure) is RedisUnavailable
    assert (failure.code, failure.ambiguous) == (code, False)
    assert str(failure) == f"redis+cluster://host cannot be used: {why} ({code})"


def test_roles_that_changed_ask_for_another_connection():
    assert {"READONLY", "UNBLOCKED", "MASTERDOWN", "NOREPLICAS"} == REROUTE - set(REDIRECTIONS)
    assert {"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"} == set(REDIRECTIONS)
