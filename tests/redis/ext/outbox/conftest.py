"""The outbox of Django on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest
from redis import Redis

from offsider.ext.outbox import Outbox
from offsider.ext.unique import Unique
from tests import django_project

django_project.set_up()
#: The databases with the table.
MIGRATED: set[str] = set()


@pytest.fixture
def server(server_of):
    """One kind of server is enough: the scripts have their tests on both."""
    one = server_of("valkey")
    with Redis.from_url(one.url) as client:
        client.flushall()
    return one


@pytest.fixture(params=["default", "postgres"])
def alias(request):
    """A database of Django with the table of the outbox."""
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connections

    name = request.param
    if name == "postgres" and name not in settings.DATABASES:
        host = request.getfixturevalue("postgresql_host")
        settings.DATABASES[name] = {
            "ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "HOST": host
        }  # fmt: skip
        del connections.settings
    if name not in MIGRATED:
        call_command("migrate", "offsider", database=name, verbosity=0)
        MIGRATED.add(name)
    yield name
    with connections[name].cursor() as cursor:
        cursor.execute("delete from offsider_outbox")
    connections.close_all()


@pytest.fixture
def source(alias):
    from offsider.django.outbox import DjangoSource

    return DjangoSource(alias)


@pytest.fixture
def errors():
    return []


@pytest.fixture
def config(config, source, errors):
    config.use(Unique())
    config.use(Outbox(source))
    config.error_handlers.remove(config.error_handlers[0])
    config.error_handlers.append(lambda error, context: errors.append((str(error), context["context"])))
    return config


@pytest.fixture
def atomic(alias):
    from django.db import transaction

    return lambda: transaction.atomic(using=alias)
