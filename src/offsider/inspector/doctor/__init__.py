"""Examine servers, workers and stored data: each finding explains a problem, its effect and its fix.

`examination` runs all checks. A worker runs those in `server_checks.BOOT_CHECKS` before it starts, so this package
does not import the others.
"""

from offsider.inspector.finding import Finding, Severity

__all__ = ["Finding", "Severity"]
