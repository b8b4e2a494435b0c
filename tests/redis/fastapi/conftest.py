"""Starlette's test client warns at its import that httpx has a successor, which is not installed here."""

import warnings

with warnings.catch_warnings(action="ignore"):
    import starlette.testclient  # noqa: F401
