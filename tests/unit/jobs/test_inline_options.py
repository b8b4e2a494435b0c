"""A run without a push has no options of the push in its payload."""

from offsider import current_job, job


def test_an_inline_run_has_no_options_of_a_push():
    @job
    def keys() -> list[str]:
        return [*current_job().payload]

    found = keys.using(after_commit=False, wait_replicas=1).run_inline()
    assert {"after_commit", "wait_replicas"}.isdisjoint(found)
    assert "jid" in found
