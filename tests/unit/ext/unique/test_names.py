"""The name of a lock: the same for the same job, another for every other."""

from __future__ import annotations

import hashlib

import pytest

from offsider import Job, job
from offsider.config.config import Config
from offsider.core.errors import InvalidArguments
from offsider.ext.unique.rules import lock_name, unique_by

pytestmark = pytest.mark.usefixtures("declared")


def name_of(*args, across_queues=False, **payload):
    given = {"class": "Hard", "queue": "default", "args": list(args), **payload}
    return lock_name(given, Config(), across_queues=across_queues)


def test_the_name_is_the_sha_256_of_queue_class_and_arguments():
    assert name_of(1, "two") == hashlib.sha256(b'default\nHard\n[1,"two"]').hexdigest()


def test_different_jobs_have_different_names():
    names = [
        name_of(),
        name_of(1),
        name_of("1"),
        name_of([1]),
        name_of(1, 2),
        name_of(12),
        name_of(None),
        name_of(True),
        name_of(1, kwargs={"a": 1}),
        name_of(1, kwargs={"a": 2}),
        name_of([1], {"a": 1}),
        name_of(1, **{"class": "Other"}),
        name_of(1, queue="low"),
    ]
    assert len(set(names)) == len(names)


def test_the_order_of_keys_does_not_matter():
    assert name_of({"a": 1, "b": [{"c": 2, "d": 3}]}) == name_of({"b": [{"d": 3, "c": 2}], "a": 1})
    assert name_of(kwargs={"a": 1, "b": 2}) == name_of(kwargs={"b": 2, "a": 1})
    assert name_of(1, kwargs={}) == name_of(1)


def test_with_across_queues_the_queue_does_not_matter():
    assert name_of(1, across_queues=True) == name_of(1, queue="low", across_queues=True)
    assert name_of(1, across_queues=True) != name_of(2, across_queues=True)


def test_unique_by_selects_the_arguments():
    @job(name="Refresh")
    @unique_by(lambda account_id, reason="", *, force=False: account_id)
    def refresh(account_id: int, reason: str = "", *, force: bool = False) -> None: ...

    same = {name_of(7, **{"class": "Refresh"}), name_of(7, "late", **{"class": "Refresh"}, kwargs={"force": True})}
    assert len(same) == 1
    assert name_of(8, **{"class": "Refresh"}) not in same


def test_unique_by_works_on_a_job_class():
    @unique_by(lambda account_id, _reason: [account_id])
    class Refresh(Job, name="Refresh"):
        def perform(self, account_id: int, reason: str) -> None: ...

    assert name_of(7, "a", **{"class": "Refresh"}) == name_of(7, "b", **{"class": "Refresh"})


def test_arguments_that_are_not_json_are_refused_with_the_job():
    with pytest.raises(InvalidArguments, match="Hard: cannot name the lock, arguments are not JSON"):
        name_of({1, 2})
    with pytest.raises(InvalidArguments, match="Hard"):
        name_of(float("nan"))
    with pytest.raises(InvalidArguments, match="Hard"):
        name_of({1: 2, "a": 3})
