"""All contestants; offsider and Sidekiq are first."""

from __future__ import annotations

from bench.compare.contestant import Contestant
from bench.compare.rivals import arq, celery, dramatiq, huey, offsider, rq, saq, sidekiq, taskiq

CONTESTANTS: tuple[Contestant, ...] = (
    *offsider.CONTESTANTS,
    *sidekiq.CONTESTANTS,
    *celery.CONTESTANTS,
    *dramatiq.CONTESTANTS,
    *huey.CONTESTANTS,
    *taskiq.CONTESTANTS,
    *saq.CONTESTANTS,
    *arq.CONTESTANTS,
    *rq.CONTESTANTS,
)
