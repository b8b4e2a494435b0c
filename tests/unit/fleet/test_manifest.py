"""The manifest: every job in a stable order."""

import datetime as dt

import pytest

from offsider import Job, job
from offsider.core.errors import ConfigurationError
from offsider.fleet.manifest import manifest, read, written


def test_a_job_is_listed_with_its_options_and_its_routed_queue(config):
    @job(
        name=["resize", "shrink", "crop"],
        queue="low",
        urgency="high",
        resource_boundary="unknown",
        feature_category="media",
        external_dependencies=True,
        tags=["b", "a"],
        idempotent=True,
    )
    def resize(path: str): ...

    config.add_server("fast", url="redis://fast")
    config.routing.rules = [["urgency=high", "urgent", "fast"]]
    assert manifest(config) == {
        "version": 1,
        "jobs": [
            {
                "name": "resize",
                "aliases": ["crop", "shrink"],
                "queue": "urgent",
                "server": "fast",
                "urgency": "high",
                "resource_boundary": "none",
                "feature_category": "media",
                "external_dependencies": True,
                "tags": ["a", "b"],
                "idempotent": True,
                "signature": resize.declared.signature.digest,
                "arguments": [{"name": "path", "kind": "positional", "type": "str", "required": True}],
            }
        ],
    }


def test_jobs_are_sorted_by_name_for_any_order_of_modules(config):
    for name in ("c", "a", "b"):

        @job(name=name)
        def declared(): ...

    assert [found["name"] for found in manifest(config)["jobs"]] == ["a", "b", "c"]


def test_every_kind_of_argument_is_listed(config):
    class Report(Job, name="report"):
        def perform(self, title, /, pages: int = 1, *rest: "str", at: dt.date = dt.date.min, **more): ...

    assert manifest(config)["jobs"][0]["arguments"] == [
        {"name": "title", "kind": "positional", "type": None, "required": True},
        {"name": "pages", "kind": "positional", "type": "int", "required": False, "default": 1},
        {"name": "rest", "kind": "rest", "type": "str"},
        {"name": "at", "kind": "keyword", "type": "datetime.date", "required": False},
        {"name": "more", "kind": "keywords", "type": None},
    ]


def test_a_manifest_round_trips(config):
    @job(name="größe")
    def resize(path: str = "ä"): ...

    found = manifest(config)
    assert read(written(found), "jobs.json") == found
    assert written(found).endswith("}\n")
    assert "größe" in written(found)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"jobs": {}}', '{"jobs": [1]}', '{"jobs": [{"name": 1}]}'])
def test_an_invalid_manifest_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"^jobs\.json is not a manifest"):
        read(text, "jobs.json")
