"""Commands of a waiting worker are distinguished by their keys."""

import pytest

from bench.idle.purposes import HEARTBEAT, LEASE, WAITING, counted, purpose_of

IDENTITY = "host:17033:8fcf32ebda57"


@pytest.mark.parametrize(
    "words, purpose",
    [
        (["BLMOVE", "queue:default", f"offsider:working:{IDENTITY}:default:default", "RIGHT", "LEFT", "18"], WAITING),
        (["EVALSHA", "abc", "4", f"offsider:fenced:{IDENTITY}", "paused", "queue:default"], WAITING),
        (["EVALSHA", "abc", "1", "schedule", "100"], WAITING),
        (["SOMETHING", "else"], WAITING),
        (["EVALSHA", "abc", "1", "offsider:sweep", IDENTITY, "11250"], LEASE),
        (["EVALSHA", "abc", "3", "offsider:schedule", "retry", "schedule", "abcdef", "5000", "100"], LEASE),
        (["EVALSHA", "abc", "3", "offsider:controls:version", "paused", f"{IDENTITY}-signals"], HEARTBEAT),
        (["EVALSHA", "abc", "3", "schedule", "queues", "queue:default", "1"], WAITING),
        (["HGETALL", "offsider:owners"], LEASE),
        (["EVALSHA", "abc", "4", f"offsider:fenced:{IDENTITY}", f"offsider:alive:{IDENTITY}"], LEASE),
        (["EVALSHA", "abc", "4", "processes", IDENTITY, f"{IDENTITY}:work", f"{IDENTITY}-signals"], HEARTBEAT),
        (["RPOP", f"{IDENTITY}-signals"], HEARTBEAT),
        (["INCRBY", "stat:processed", "5"], HEARTBEAT),
        (["PING"], HEARTBEAT),
        (["MULTI"], HEARTBEAT),
    ],
    ids=" ".join,
)
def test_a_command_has_one_purpose(words, purpose):
    assert purpose_of(words) == purpose


def test_commands_of_scripts_and_noise_are_not_counted():
    lines = [
        "OK",
        '1795262206.659 [0 127.0.0.1:1234] "EVALSHA" "abc" "1" "retry" "100"',
        '1795262206.660 [0 lua] "ZRANGE" "retry" "0" "1"',
        '1795262206.661 [0 unix:/tmp/x] "PING"',
    ]
    purposes = counted(lines, seconds=2)
    assert purposes.rates == {HEARTBEAT: 0.5, LEASE: 0.0, WAITING: 0.5}
    assert purposes.waiting == {"EVALSHA retry": 1}
