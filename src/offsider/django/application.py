"""The application that processes of a Django project load: it sets up Django and configures offsider.

A worker loads it like a module of ``-r``. Web processes and ``manage.py`` commands use it at the first push.
"""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

import sys

import django
from django.apps import apps
from django.conf import settings
from django.utils.module_loading import import_string

from offsider.config.application import TABLE
from offsider.config.config import Config
from offsider.core.options import OUTBOX
from offsider.django.database import after_commit, close_left_connections, connections_of_a_job
from offsider.ext.outbox import Outbox
from offsider.ext.results import Results
from offsider.jobs import registry

if not apps.ready and not apps.loading:  # a jobs.py may push, or read a queue, while Django imports it
    django.setup()

from offsider.django.outbox import DjangoSource  # its model needs the apps


def configure(config: Config) -> None:
    """Close database connections after each job, delay pushes until the commit, and call ``OFFSIDER["configure"]``.

    ``OFFSIDER["outbox"]``, or a declared job with ``after_commit="outbox"``, installs the outbox. A backend of
    ``TASKS`` installs ``Results``, unless ``OFFSIDER["configure"]`` has done so.

    Raises:
        ConfigurationError: ``OFFSIDER["outbox"]`` names no database.
    """
    table = getattr(settings, TABLE, {})
    config.reloader = connections_of_a_job
    config.after_commit = after_commit  # pyright: ignore[reportAttributeAccessIssue]  # a decorator without types
    for alias in getattr(settings, "TASKS", {}).values():  # of django.tasks: ours declares its job
        import_string(alias["BACKEND"])
    if "outbox" in table or any(job.after_commit == OUTBOX for job in registry.all_jobs()):
        outbox = table.get("outbox", False)
        config.use(Outbox(DjangoSource("default" if isinstance(outbox, bool) else outbox), default=bool(outbox)))
    own = import_string(table["configure"]) if table.get("configure") else None
    if own is not None and own not in config.configured_by:
        own(config)
    if "offsider.django.task_backend" in sys.modules:
        config.queue_sources.append(sys.modules["offsider.django.task_backend"].destinations)
        if Results.name not in config.extensions:
            config.use(Results())
    config.server_middleware.add(close_left_connections)
