"""A push from a template has the bytes that the closer look would store; what it is not for takes the closer look."""

from unittest import mock

import pytest
from hypothesis import given, settings, strategies as st

from offsider import job
from offsider.client import Client
from offsider.client.preparer import MAX_TEMPLATES
from offsider.client.via import via
from offsider.config import test_mode
from offsider.config.config import Config
from offsider.core.errors import InvalidArguments
from offsider.jobs import registry
from offsider.runtime.propagation import context
from offsider.testing.fake_clock import FakeClock

JID = "0" * 24

with registry.isolated():

    @job(name="plain", queue="low", retry=3, tags=["a"])
    def plain(*args): ...


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=8,
)
OPTIONS = st.fixed_dictionaries(
    {}, optional={"queue": st.sampled_from(["low", "mail"]), "retry": st.integers(0, 9), "backtrace": st.booleans()}
)


def stored_by(push):
    stored = []
    with (
        test_mode.diverted(stored.extend),
        mock.patch("offsider.client.builder.new_jid", return_value=JID),
        mock.patch("offsider.client.template.new_jid", return_value=JID),
    ):
        try:
            push()
        except InvalidArguments as error:
            return str(error)
    return [(one.raw, one.queue, one.at, one.payload) for one in stored]


@settings(max_examples=200, deadline=None)
@given(args=st.lists(VALUES, max_size=4), options=OPTIONS, user=st.none() | st.text(min_size=1, max_size=5))
def test_its_bytes_are_those_of_the_closer_look(args, options, user):
    config = Config()
    config.clock = FakeClock()
    client = Client(config)
    configured = plain.using(**options).via(client)
    with context(**({"user": user} if user else {})):
        fast = stored_by(lambda: configured.enqueue(*args))
        slow = stored_by(lambda: client.push(configured._checked(client, {"args": args, "class": plain.declared})))
    if isinstance(slow, str):
        assert fast == slow
    else:
        ((raw, queue, at, _),), ((expected, *others, _),) = fast, slow
        assert (raw, queue, at) == (expected, *others)


@pytest.fixture
def usual(config):
    """Prepare a push of `plain` from a template; None without."""
    client = Client(config)

    def prepare(*args, **options):
        configured = plain.using(**options)
        return client.usual(plain.declared, configured._key, args, configured._checked)

    prepare.client = client
    return prepare


def test_a_change_of_the_configuration_ends_a_template(usual, config):
    assert usual(1)
    config.client_middleware.add(lambda push: (yield))
    assert usual(1) is None


@pytest.mark.parametrize(
    "options", [{"tags": ["b"]}, {"expires_in": 60}, {"wait_replicas": 1}, {"after_commit": False}]
)
def test_options_of_unusual_pushes(usual, options):
    assert usual(1, **options) is None


@pytest.mark.parametrize("args", [(object(),), ("a" * 2_000,), ("\ud800",), (float("nan"),), (10**5000,)])
def test_arguments_that_need_a_closer_look(usual, args):
    assert usual(*args) is None


def test_a_block_that_chooses_the_server(usual, config):
    config.add_server("bulk", url="redis://localhost:1")
    with via("bulk"):
        assert usual(1) is None
    assert usual(1).server == ""


def test_equal_options_of_other_types_are_others(usual):
    assert [usual(1, retry=retry).payload["retry"] for retry in (True, 1, False, 0)] == [True, 1, False, 0]
    assert b'"retry":1,' in usual(1, retry=1).raw


def test_the_wire_version_may_change(usual, config):
    assert b'"created_at":17' in usual(1).raw
    config.redis.wire_version = 7
    assert b"." in usual(1).raw.partition(b'"created_at":')[2].partition(b",")[0]


def test_an_effect_is_asked_at_each_push(usual, config):
    wanted = []

    class Entry:
        def concerns(self, push):
            return bool(wanted)

    config.push_effects.append(Entry())
    assert usual(1)
    wanted.append(1)
    assert usual(1) is None


def test_a_client_that_pushes_in_its_own_way_is_asked(config):
    pushed = []

    class Own(Client):
        def push(self, payload, *, wait_replicas=0):
            pushed.append(payload["args"])

    plain.via(Own(config)).enqueue(5)
    assert pushed == [(5,)]


def test_ever_new_options_do_not_fill_the_memory(usual):
    for number in range(MAX_TEMPLATES + 10):
        usual(1, queue=f"q{number}")
    assert len(usual.client._templates) <= MAX_TEMPLATES
