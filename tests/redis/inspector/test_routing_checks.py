"""Different routing rules on one server are found, with the processes that use them."""

from offsider.inspector.doctor.finding import Severity
from offsider.storage.clients import SeenClient, note_command
from offsider.storage.keys import Keys
from tests.redis.inspector.examined import RUBYS, examined, register, severity


def pushed(raw_redis, *shown):
    for host, role, rules in shown:
        raw_redis.execute_command(*note_command(Keys(), SeenClient(host, role, rules)))


def test_no_rules_anywhere_need_no_word(redis_url, raw_redis):
    register(raw_redis, knows=["A"])
    register(raw_redis, RUBYS)
    pushed(raw_redis, ("web-1", "gunicorn", "none"))
    assert severity(examined(redis_url), "routing") == "none"


def test_the_same_rules_everywhere_are_well(redis_url, raw_redis):
    register(raw_redis, knows=["A"], routing="abc")
    register(raw_redis, RUBYS)
    pushed(raw_redis, ("web-1", "gunicorn", "abc"))
    finding = examined(redis_url)["routing"]
    assert (finding.severity, finding.what) == (
        Severity.OK,
        "all workers and clients use the same rules (abc)",
    )


def test_a_client_without_the_rules_is_named(redis_url, raw_redis):
    register(raw_redis, knows=["A"], routing="abc")
    pushed(raw_redis, ("web-1", "gunicorn", "abc"), ("cron-1", "cron.py", "none"))
    finding = examined(redis_url)["routing"]
    assert finding.severity is Severity.WARN
    assert finding.what == (
        "processes use different routing rules: "
        "abc by gunicorn on web-1, worker on web-1; no rules by cron.py on cron-1"
    )
    assert "[routing] rules" in finding.fix
