"""The table of reports."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []  # noqa: RUF012

    operations = [  # noqa: RUF012
        migrations.CreateModel(
            name="Report",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("year", models.IntegerField()),
                ("status", models.CharField(default="pending", max_length=10)),
                ("runs", models.IntegerField(default=0)),
                ("text", models.TextField(blank=True)),
            ],
        ),
    ]
