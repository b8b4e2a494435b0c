"""The model of the permissions, without a table; and the table of the outbox."""

# pyright: basic, reportMissingTypeStubs=false
from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """See the module docstring."""

    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[object]] = [
        migrations.CreateModel(
            name="Jobs",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ],
            options={
                "verbose_name": "background jobs",
                "verbose_name_plural": "background jobs",
                "managed": False,
                "default_permissions": ("view", "change"),
            },
        ),
        migrations.CreateModel(
            name="OutboxRow",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("jid", models.CharField(max_length=255)),
                ("server", models.CharField(max_length=255)),
                ("place", models.TextField()),
                ("score", models.FloatField(null=True)),
                ("payload", models.BinaryField()),
                ("guarded", models.BooleanField()),
                ("created_at", models.FloatField()),
            ],
            options={
                "verbose_name": "row of the outbox",
                "verbose_name_plural": "rows of the outbox",
                "db_table": "offsider_outbox",
                "default_permissions": (),
            },
        ),
    ]
