"""Names and jobs: one name, one job, and a reload is not a conflict."""

import pytest

from offsider import Job, job
from offsider.config.config import Config
from offsider.core.errors import InvalidOptions, UnknownJob
from offsider.jobs import registry


def test_a_job_is_found_by_its_name_and_its_aliases():
    class Mail(Job, name=("Mail", "OldMail", "OlderMail")):
        def perform(self): ...

    assert {registry.find(name) for name in ("Mail", "OldMail", "OlderMail")} == {Mail.declared}
    assert registry.names() >= {"Mail", "OldMail", "OlderMail"}
    assert registry.all_jobs().count(Mail.declared) == 1


def test_an_unknown_name_raises():
    with pytest.raises(UnknownJob, match="'Nobody'") as caught:
        registry.find("Nobody")
    assert caught.value.name == "Nobody"


def test_two_jobs_under_one_name_are_refused_with_both_places():
    @job(name="Same")
    def first(): ...

    with pytest.raises(InvalidOptions) as caught:

        @job(name="Same")
        def second(): ...

    message = str(caught.value)
    assert "'Same'" in message
    assert "<locals>.first" in message
    assert "<locals>.second" in message
    assert message.count("test_registry.py:") == 2


def test_an_alias_of_another_job_is_refused_and_changes_nothing():
    @job(name=("First", "Old"))
    def first(): ...

    with pytest.raises(InvalidOptions, match="'Old'"):

        @job(name=("Second", "Old"))
        def second(): ...

    assert "Second" not in registry.names()


def test_a_reloaded_module_replaces_its_jobs():
    def declare():
        @job(name=("Again", "Before"))
        def again(): ...

        return again

    first, second = declare(), declare()
    assert registry.find("Again") is second.declared
    assert first.declared is not second.declared


def test_a_reload_with_an_alias_less_forgets_the_alias():
    for name in (["Again", "Before"], "Again"):

        @job(name=name)
        def again(): ...

    assert "Again" in registry.names()
    assert "Before" not in registry.names()


def test_an_isolated_registry_is_restored_afterwards():
    before = registry.names()
    with registry.isolated():

        @job(name="Inside")
        def inside(): ...

        assert "Inside" in registry.names()
    assert registry.names() == before


def test_a_job_that_promises_more_than_it_can_keep_is_named_at_launch(caplog):
    @job(name="Charge", urgency="high", external_dependencies=True)
    def charge() -> None: ...

    registry.check_all(Config())
    assert "Charge is of high urgency and calls external services" in caplog.text


def test_jobs_with_the_same_warning_share_one_line(caplog):
    for number in range(40):

        @job(name=f"charge{number:02}", urgency="high", resource_boundary="memory")
        def charge() -> None: ...

        charge.declared.qualname = f"charge{number}"
    registry.check_all(Config())
    (reported,) = [record.getMessage() for record in caplog.records]
    assert reported.startswith("each of 40 jobs is of high urgency and is limited by memory")
    assert reported.endswith(": charge00, charge01, charge02, charge03, charge04 and 35 more")


def test_every_name_is_reported_with_its_signature_digest():
    @job(name=("A", "B"))
    def one(number): ...

    with registry.isolated():
        reported = registry.signatures()
    assert reported["A"] == reported["B"] == one.declared.signature.digest
