"""The API reference: a place and a docstring for every public name, and for each member of the public classes."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import griffe
import pytest

ROOT = Path(__file__).parents[2]
# Modules whose `__all__` is public
MODULES = (
    "offsider",
    "offsider.embedded",
    "offsider.ext.concurrency_limits",
    "offsider.ext.limiters",
    "offsider.ext.periodic",
    "offsider.ext.unique",
    "offsider.fastapi",
    "offsider.fleet",
    "offsider.flask",
    "offsider.inspector",
    "offsider.integrations.statsd",
    "offsider.testing",
    "offsider.web",
)
#: Public in their module only
INNER = {
    "offsider.django.middleware.caller_of",
    "offsider.django.outbox.DjangoSource",
    "offsider.django.task_backend.destinations",
    "offsider.django.task_backend.find_task",
    "offsider.django.task_backend.run_task",
    "offsider.django.database.is_open",
}
CENTRAL = ("offsider.Config", "offsider.JobContext", "offsider.Client")
# Django reads these and describes them.
OF_DJANGO = {
    "offsider.django.middleware.CallerId.async_capable",
    "offsider.django.middleware.CallerId.sync_capable",
    "offsider.django.task_backend.TaskBackend.supports_async_task",
    "offsider.django.task_backend.TaskBackend.supports_defer",
    "offsider.django.task_backend.TaskBackend.supports_get_result",
    "offsider.django.task_backend.TaskBackend.supports_priority",
}
PAGES = "\n".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
LISTED = re.findall(r"^::: (offsider\.\S+)$", PAGES, re.MULTILINE)
# The pages of the documentation, apart from those that explain the code
SHOWN = [ROOT / "README.md", *(page for page in (ROOT / "docs").rglob("*.md") if "internals" not in page.parts)]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`(offsider(?:\.\w+)+\.[A-Z]\w+)`")


@pytest.fixture(scope="module")
def package():
    return griffe.load("offsider", search_paths=[str(ROOT / "src")], allow_inspection=False)


def found(package, path):
    item = package[path.removeprefix("offsider.")]
    return item.final_target if item.is_alias else item


def imported(page):
    """Yield the names of offsider that the Python snippets of a page import."""
    for snippet in SNIPPET.findall(page):
        for node in ast.walk(ast.parse(snippet)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "offsider":
                yield from (f"{node.module}.{one.name}" for one in node.names)


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_place_in_the_reference(module):
    names = importlib.import_module(module).__all__
    assert [name for name in names if f"{module}.{name}" not in LISTED] == [], "add them to a page of docs/reference/"


def test_names_that_the_pages_import_have_a_place_in_the_reference(package):
    pages = [page.read_text() for page in SHOWN]
    used = {path for page in pages for path in (*imported(page), *NAMED.findall(page))}
    places = {found(package, path).path for path in LISTED}
    items = {path: found(package, path) for path in used}
    assert len(used) > 50
    assert sorted(path for path, item in items.items() if not item.is_module and item.path not in places) == []


def test_public_names_of_the_django_app_have_a_place_in_the_reference(package):
    """Its modules have no ``__all__``: Django imports most of them itself, under names of its own choice."""
    of_django = {"admin", "apps", "checks", "management", "migrations", "models"}
    names = {
        member.path
        for name, module in package["django"].modules.items()
        if name not in {*of_django, "task_results"}  # of the task backend
        for member in module.members.values()
        if not member.is_alias and member.is_public and (member.is_function or member.is_class)
    }
    assert len(names) > 8
    assert sorted(names - set(LISTED) - INNER) == []


def test_no_name_has_two_places():
    assert len(LISTED) > 150
    assert sorted({name for name in LISTED if LISTED.count(name) > 1}) == []


def test_every_name_in_the_reference_has_a_docstring(package):
    assert [path for path in LISTED if not found(package, path).docstring] == []


def lacking(package, path):
    """Return the public members of a class that neither it nor one of its bases describes."""
    item = found(package, path)
    family = (item, *item.mro())
    if "install" in item.all_members:  # of an extension
        family = (*family, found(package, "offsider.Extension"))
    texts = [each.docstring.value for each in family if each.docstring]
    described = {
        name
        for text in texts
        for names in re.findall(r"^ {4}(\w+(?:, \w+)*): ", text, re.MULTILINE)
        for name in names.split(", ")
    }
    described |= {name for each in family for name, member in each.members.items() if member.docstring}
    if path not in CENTRAL:  # fields may be described in a sentence
        described |= {word for text in texts for word in re.findall(r"\w+", text)} - {
            name for name, member in item.all_members.items() if member.is_function or "property" in member.labels
        }
    return {name for name in item.all_members if not name.startswith("_")} - described


def test_every_attribute_of_the_public_classes_is_described(package):
    classes = [path for path in LISTED if found(package, path).is_class]
    assert len(classes) > 100
    assert {*CENTRAL} <= {*classes}
    lack = {f"{path}.{name}" for path in classes for name in lacking(package, path)}
    assert sorted(lack - OF_DJANGO) == []
