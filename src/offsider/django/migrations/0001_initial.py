"""The model of the permissions, without a table."""

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
    ]
