"""Declared jobs, as seen from below their registry."""

from __future__ import annotations

import subprocess
import sys

from offsider import job
from offsider.config.routing import known_job, known_jobs
from offsider.jobs import registry


def test_a_declared_job_is_found_by_its_name_and_its_aliases():
    with registry.isolated():

        @job(name="shop.greet", aliases=["shop.hello"])
        def greet() -> None: ...

        assert known_job("shop.greet") is known_job("shop.hello") is registry.find("shop.greet")
        assert known_job("shop.nobody") is None
        assert registry.find("shop.greet") in known_jobs()


def test_without_a_registry_nothing_is_declared():
    program = (
        "from offsider.config.routing import known_job, known_jobs; "
        "assert known_job('shop.greet') is None and not known_jobs()"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
