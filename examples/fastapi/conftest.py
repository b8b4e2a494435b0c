"""Tests use a database of their own, and build reports at once."""

import os

os.environ["DATABASE_URL"] = "sqlite:///test.db"
os.environ["REPORT_SECONDS"] = "0"
