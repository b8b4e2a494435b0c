"""The table of the outbox."""

# pyright: basic, reportMissingTypeStubs=false
from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """See the module docstring."""

    dependencies: ClassVar[list[tuple[str, str]]] = [("offsider", "0001_initial")]
    operations: ClassVar[list[object]] = [
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
