"""Examine servers, workers and stored data: each finding explains a problem, its effect and its fix."""

from offsider.inspector.doctor.examination import examine, examine_all
from offsider.inspector.doctor.finding import Finding, Severity, worst

__all__ = ["Finding", "Severity", "examine", "examine_all", "worst"]
