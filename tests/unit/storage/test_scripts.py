"""Scripts declare their keys and arguments, and can do without flags."""

import re
from importlib.resources import files

import pytest

from offsider.core.errors import RedisRefused
from offsider.storage import scripts
from offsider.storage.scripts import Script, drop_flags, flags_are_accepted

LUA = files("offsider.storage") / "lua"
NAMES = sorted(path.name.removesuffix(".lua") for path in LUA.iterdir() if path.name.endswith(".lua"))
READ_ONLY = {"due_jobs", "find_runs", "next_held", "oldest"}
#: They are refused by a server without memory: pushes, and records that can do without.
MAY_BE_REFUSED = {"record_runs", "signal", "store"}
WRITES = re.compile(
    r"call\('(LMOVE|[LR]PUSH|[LR]POP|LREM|LSET|Z(?:ADD|REM\w*)|S(?:ADD|REM|ET|ETRANGE)|H(?:SET|DEL|INCRBY)|DEL|UNLINK"
    r"|EXPIRE)'"
)


@pytest.fixture
def restored(monkeypatch):
    """What `drop_flags` does to the process is taken back after the test."""
    yield
    monkeypatch.undo()
    scripts._without_flags = False
    for script in list(scripts._every):
        script._use(script.source)


@pytest.mark.parametrize("name", NAMES)
def test_the_head_of_a_script_describes_it(name):
    source = Script(name).source
    flags = " flags=no-writes,allow-oom" if name in READ_ONLY else " flags=allow-oom"
    assert source.startswith(f"#!lua{'' if name in MAY_BE_REFUSED else flags}\n-- "), "flags, then its purpose"
    assert re.search(r"^-- returns ", source, re.MULTILINE), "what it answers"
    assert len(source.splitlines()) <= 100


@pytest.mark.parametrize("name", NAMES)
def test_a_script_is_read_only_exactly_if_flagged(name):
    source = Script(name).source
    writes = WRITES.search(source.replace("pcall", "call")) or name == "commands"  # which get their names as arguments
    assert bool(writes) is (name not in READ_ONLY)


@pytest.mark.parametrize("name", NAMES)
def test_every_index_that_is_used_is_declared(name):
    script = Script(name)
    for kind in ("KEYS", "ARGV"):
        declared, more = script.declared(kind)
        code = "\n".join(line for line in script.source.splitlines() if not line.startswith("--"))
        used = [int(index) for index in re.findall(rf"{kind}\[(\d+)\]", code)]
        assert max(used, default=0) <= declared
        assert more or not re.search(rf"{kind}\[[^\]\d]|#{kind}|unpack\({kind}", code)


@pytest.mark.parametrize("name", NAMES)
def test_no_script_builds_a_key(name):
    """Each key that is touched is a whole element of KEYS, or a local that is one (rule 26)."""
    code = Script(name).source
    of_keys = re.findall(r"local (\w+(?:, \w+)*) = KEYS\[[^\]]+\](?:, KEYS\[[^\]]+\])*$", code, re.MULTILINE)
    allowed = {name for names in of_keys for name in names.split(", ")}
    allowed |= set(re.findall(r"for \w+, (\w+) in ipairs\(KEYS\)", code))
    for command, key in re.findall(r"p?call\('(\w+)'(?:, ([^,)]+(?:\[[^\]]*\])?))?", code):
        if command != "TIME":
            assert key.startswith(("KEYS[", "unpack(KEYS")) or key in allowed, f"{command} of {key}"
        assert ".." not in key


def test_flags_can_be_dropped_for_scripts_of_now_and_later(restored):
    before = Script("ack_and_claim")
    sha = before.sha
    drop_flags()
    for script in (before, Script("ack_and_claim")):
        assert not script.text.startswith("#!")
        assert script.sha != sha
        assert script.declared("KEYS")[0] == 4


class Server:
    """Refuses scripts: those with flags, or all."""

    def __init__(self, *, without_flags: bool) -> None:
        self.without_flags = without_flags

    def run(self, script, keys, arguments=()):
        if script.text.startswith("#!") or not self.without_flags:
            raise RedisRefused("ERR Unexpected flag in script shebang: allow-oom", code="ERR")
        return 1


def test_a_server_without_script_flags_is_detected():
    assert flags_are_accepted(Server(without_flags=True)) is False


def test_a_server_that_runs_no_scripts_at_all_is_an_error():
    with pytest.raises(RedisRefused):
        flags_are_accepted(Server(without_flags=False))
