"""Pushing to a chosen server: the block, the option, the declaration, the rules, in this order."""

import asyncio

import pytest

from offsider import job
from offsider.client import Client, via
from offsider.client.via import chosen_server
from offsider.config.config import Config
from offsider.core.errors import ConfigurationError, InvalidOptions

pytestmark = pytest.mark.usefixtures("declared")


@pytest.fixture
def client():
    config = Config()
    config.add_server("bulk", url="redis://bulk/0")
    config.add_server("fast", url="redis://fast/0")
    return Client(config)


def test_the_innermost_block_selects_the_server():
    with via("bulk"):
        assert chosen_server() == "bulk"
        with via("fast"):
            assert chosen_server() == "fast"
        assert chosen_server() == "bulk"
    assert chosen_server() == ""


@pytest.mark.parametrize("name", [None, "", 7])
def test_an_invalid_server_name_raises_and_pushes_nothing(name):
    with pytest.raises(InvalidOptions, match="via expects the name of a server, got"), via(name):
        pass
    assert chosen_server() == ""


def test_a_block_ends_with_an_error_too():
    with pytest.raises(LookupError), via("bulk"):
        raise LookupError
    assert chosen_server() == ""


def test_a_block_applies_only_to_its_own_task():
    async def seen_by_a_task_from_outside():
        started = asyncio.Event()

        async def other():
            await started.wait()
            return chosen_server()

        task = asyncio.create_task(other())
        with via("bulk"):
            started.set()
            return await task, chosen_server()

    assert asyncio.run(seen_by_a_task_from_outside()) == ("", "bulk")


def test_the_server_of_a_push_overrides_that_of_the_block(client):
    push = {"class": "HardJob", "args": []}
    assert client.build(push).server == ""
    with via("bulk"):
        assert client.build(push).server == "bulk"
        assert client.build({**push, "server": "fast"}).server == "fast"
        assert client.build({**push, "server": "main"}).server == ""


def test_without_both_the_rule_then_the_declaration_selects_the_server(client):
    @job(name="Exports", server="bulk", urgency="throttled")
    def exports() -> None: ...

    assert client.build({"class": exports, "args": []}).server == "bulk"
    client.config.routing.rules = [["urgency=throttled", "later", "fast"]]
    assert client.build({"class": exports, "args": []}).server == "fast"
    client.config.routing.rules = [["*", "default"]]
    assert client.build({"class": exports, "args": []}).server == "bulk"


def test_the_server_is_never_stored(client):
    @job(name="Exports", server="bulk")
    def exports() -> None: ...

    payload = client.build({"class": exports, "args": [], "server": "fast"}).payload
    assert "server" not in payload
    assert payload["queue"] == "default"


def test_an_unconfigured_server_raises_at_the_push(client):
    with (
        via("blk"),
        pytest.raises(ConfigurationError, match=r"no server 'blk' \(did you mean 'bulk'\?\).*main, bulk, fast"),
    ):
        client.build({"class": "HardJob", "args": []})


def test_times_are_written_in_the_form_of_the_server_that_gets_them(client):
    client.config.servers["bulk"].wire_version = 7
    seconds = client.build({"class": "HardJob", "args": [], "server": "bulk"}).payload["created_at"]
    milliseconds = client.build({"class": "HardJob", "args": []}).payload["created_at"]
    assert isinstance(seconds, float)
    assert isinstance(milliseconds, int)
