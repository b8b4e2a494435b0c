"""The manifest: every job in a stable order, and differences described in words."""

import datetime as dt
import json

import pytest

from offsider import Job, job
from offsider.config.config import Config
from offsider.core.errors import ConfigurationError, InvalidOptions
from offsider.fleet.manifest import differences, manifest, read, written
from offsider.jobs import registry


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch):
    """What other modules of tests have declared is out of sight."""
    monkeypatch.setattr(registry, "_jobs", {})


def entry(name="a", queue="default", **changed):
    return {"name": name, "queue": queue, "tags": [], "arguments": [], **changed}


def holding(*jobs):
    return {"version": 1, "jobs": list(jobs)}


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
        queue_namespace="images",
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
                "queue_namespace": "images",
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


def test_an_impossible_declaration_is_an_error():
    @job(name="resize", urgency="urgent")
    def resize(): ...

    with pytest.raises(InvalidOptions, match="resize: urgency must be one of"):
        manifest(Config())


def test_a_manifest_round_trips(config):
    @job(name="größe")
    def resize(path: str = "ä"): ...

    found = manifest(config)
    assert read(written(found), "jobs.json") == found
    assert written(found).endswith("}\n")
    assert "größe" in written(found)
    assert differences(read(written(found), "jobs.json"), found) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"jobs": {}}', '{"jobs": [1]}', '{"jobs": [{"name": 1}]}'])
def test_an_invalid_manifest_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"^jobs\.json is not a manifest"):
        read(text, "jobs.json")


def test_each_added_removed_or_changed_job_is_one_line():
    old = holding(entry("a"), entry("b"), entry("c"))
    new = holding(entry("b", queue="low", tags=["x"]), entry("c"), entry("d", queue="high"))
    assert differences(old, new) == [
        "- a",
        '~ b: queue "default" → "low"',
        '~ b: tags [] → ["x"]',
        "+ d (high)",
    ]


def test_changed_arguments_are_shown_in_python_syntax(config):
    @job(name="a")
    def old(path: str): ...

    before = manifest(config)

    @job(name="b")
    def new(path: str, when: object = object(), *rest: int, width: int = 100, **more): ...

    after = manifest(config)
    after["jobs"] = [{**after["jobs"][1], "name": "a"}]
    assert differences(before, after) == [
        "~ a: arguments (path: str) → (path: str, when: object = …, *rest: int, keyword width: int = 100, **more)"
    ]


@pytest.mark.parametrize("arguments, shown", [([7], "(7)"), ([{"x": 1}], '({"x": 1})'), (None, "null")])
def test_odd_arguments_of_an_old_file_are_shown_as_they_are(arguments, shown):
    (line,) = differences(holding(entry(arguments=arguments)), holding(entry()))
    assert line == f"~ a: arguments {shown} → ()"


def test_an_added_or_removed_key_is_a_change():
    assert differences(holding(entry(old=1)), holding(entry(new=2))) == ["~ a: new null → 2", "~ a: old 1 → null"]


def test_another_order_is_a_difference_too():
    old, new = holding(entry("a"), entry("b")), holding(entry("b"), entry("a"))
    assert differences(old, new) == ["~ the same jobs, in another format or order"]
    assert differences(json.loads(written(old)), old) == []
