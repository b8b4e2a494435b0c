"""Current attributes of one language hold in the jobs of the other, in the form of each version of Sidekiq."""

from __future__ import annotations

import json
from contextvars import ContextVar, copy_context
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace

import pytest

from offsider import Client, Config
from offsider.ext.current_attributes import CurrentAttributes
from tests.interop.waiting import eventually

pytestmark = pytest.mark.needs("redis-server")

# Sidekiq 8 stores ActiveJob's types, older versions store plain JSON values.
OF_RUBY = {
    6: "user_id: 7, role: 'admin', options: {'a' => [1, nil]}",
    8: """user_id: 7, role: :admin, since: Time.utc(2026, 11, 22, 6, 30, 19.123456789r), lasts: 1.month,
          price: BigDecimal('12.5'), options: {a: [1, nil], when: Date.new(2026, 1, 2)}""",
}
SEEN_IN_PYTHON = {
    6: {"user_id": "7", "role": "'admin'", "options": "{'a': [1, None]}"},
    8: {
        "user_id": "7",
        "role": "'admin'",
        "since": repr(datetime(2026, 11, 22, 6, 30, 19, 123456, UTC)),
        "lasts": repr(timedelta(seconds=2629746)),
        "price": repr(Decimal("12.5")),
        "options": repr({"a": [1, None], "when": date(2026, 1, 2)}),
    },
}
SEEN_IN_RUBY_AGAIN = {
    6: {"user_id": ["Integer", "7"], "role": ["String", '"admin"'], "options": ["Hash", '{"a"=>[1, nil]}']},
    8: {
        "user_id": ["Integer", "7"],
        "role": ["Symbol", ":admin"],
        "since": ["Time", "2026-11-22 06:30:19.123456789 UTC"],
        "lasts": ["ActiveSupport::Duration", "1 month"],
        "price": ["BigDecimal", "0.125e2"],
        "options": ["Hash", "{:a=>[1, nil], :when=>Fri, 02 Jan 2026}"],
    },
}
OF_PYTHON = {
    6: {"user_id": 7, "role": "é", "options": {"a": [1, None]}},
    8: {
        "user_id": 7,
        "role": "é",
        "since": datetime(2026, 11, 22, 6, 30, 19, 123456, UTC),
        "lasts": timedelta(minutes=90),
        "price": Decimal("12.5"),
        "options": {"a": [1, None], "when": date(2026, 1, 2)},
    },
}
SEEN_IN_RUBY = {
    6: {"user_id": ["Integer", "7"], "role": ["String", '"é"'], "options": ["Hash", '{"a"=>[1, nil]}']},
    8: {
        "user_id": ["Integer", "7"],
        "role": ["String", '"é"'],
        "since": ["Time", "2026-11-22 06:30:19.123456 UTC"],
        "lasts": ["ActiveSupport::Duration", "5400 seconds"],
        "price": ["BigDecimal", "0.125e2"],
        "options": ["Hash", '{"a"=>[1, nil], "when"=>Fri, 02 Jan 2026}'],
    },
}
CURRENT = SimpleNamespace(**{name: ContextVar(name, default=None) for name in OF_PYTHON[8]})


@pytest.fixture(scope="module")
def form(sidekiq_at) -> int:
    return 8 if sidekiq_at.wire_version >= 8 else 6


@pytest.fixture(scope="module", autouse=True)
def workers(processes) -> None:
    processes.offsider("-q", "python")
    processes.sidekiq("-q", "ruby")


@pytest.fixture
def reported(raw_redis):
    """The attributes that a job saw, or the job that it pushed to Ruby, but for those without a value."""

    def reported(key: str) -> dict:
        seen = json.loads(eventually(lambda: raw_redis.get(f"current:{key}"), f"job {key}"))
        return {name: value for name, value in seen.items() if value not in ("None", ["NilClass", "nil"])}

    return reported


def test_attributes_of_ruby_apply_in_a_job_here_and_in_the_job_it_pushes_to_ruby(ruby, form, reported):
    push = "Sidekiq::Client.push('class' => 'PythonTellsCurrent', 'args' => [], 'queue' => 'python')"
    jid = ruby(f"Current.set({OF_RUBY[form]}) {{ {push} }}")

    assert reported(jid) == SEEN_IN_PYTHON[form]
    assert reported(f"{jid}:ruby") == SEEN_IN_RUBY_AGAIN[form]


def test_attributes_of_python_apply_in_a_job_of_ruby(config, form, reported):
    ours = Config()
    ours.redis.url, ours.redis.wire_version = config.redis.url, config.redis.wire_version
    ours.use(CurrentAttributes(CURRENT))

    def push() -> str:
        for name, value in OF_PYTHON[form].items():
            getattr(CURRENT, name).set(value)
        return Client(ours).push({"class": "RubyTellsCurrent", "args": [], "queue": "ruby"})

    assert reported(f"{copy_context().run(push)}:ruby") == SEEN_IN_RUBY[form]
