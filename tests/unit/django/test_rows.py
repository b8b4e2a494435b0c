"""Rows by their key: all of them, from a key on, page by page, while others are added and deleted."""

from __future__ import annotations

import pytest

from tests import django_project

django_project.set_up()


@pytest.fixture
def rows():
    from django.core.management import call_command

    from offsider.django.models import OutboxRow

    call_command("migrate", verbosity=0)
    OutboxRow.objects.all().delete()
    OutboxRow.objects.bulk_create([OutboxRow(guarded=False, created_at=1.0, payload=b"") for _ in range(10)])
    yield OutboxRow.objects.order_by("-pk")
    OutboxRow.objects.all().delete()


def test_rows_come_in_the_order_of_their_keys_from_a_key_on(rows):
    from offsider.django.rows import by_key

    keys = sorted(rows.values_list("pk", flat=True))
    assert [row.pk for row in by_key(rows)] == keys
    for page_size in (1, 3, 100):
        assert [row.pk for row in by_key(rows, keys[4], page_size=page_size)] == keys[4:]
    found = []
    for row in by_key(rows, page_size=2):
        found.append(row.pk)
        if row.pk == keys[1]:
            rows.filter(pk__in=(keys[0], keys[5])).delete()
    assert found == [key for key in keys if key != keys[5]]
