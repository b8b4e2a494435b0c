"""The table of reports."""

from django.db import models


class Report(models.Model):
    """A report of one year."""

    year = models.IntegerField()
    status = models.CharField(max_length=10, default="pending")
    runs = models.IntegerField(default=0)
    text = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"{self.year} ({self.status})"
