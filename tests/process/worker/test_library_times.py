"""Log lines have the time in databases and Redis, without code of the user."""

from __future__ import annotations

import json

from tests.process.stored import push

APP = """
    import os

    import django
    from django.conf import settings

    settings.configure(DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": "{folder}/django"}}}})
    django.setup()

    import redis
    import sqlalchemy
    from django.db import connection
    from sqlalchemy.ext.asyncio import create_async_engine

    from offsider import current_job, job

    engine = sqlalchemy.create_engine("sqlite:///{folder}/alchemy")
    async_engine = create_async_engine("sqlite+aiosqlite:///{folder}/alchemy")
    slow = sqlalchemy.text(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 200000) SELECT count(*) FROM n"
    )
    url = os.environ["REDIS_URL"]

    @job(name="Django")
    def with_django():
        with connection.cursor() as cursor:
            cursor.execute(str(slow))

    @job(name="Alchemy")
    def with_alchemy():
        with engine.connect() as used, current_job().measure("db"):
            used.execute(slow)  # inside of the job's own block: counts once

    @job(name="AsyncAlchemy")
    async def with_async_alchemy():
        async with async_engine.connect() as used:
            await used.execute(slow)

    @job(name="BrokenAlchemy", retry=0)
    def broken():
        with engine.connect() as used:
            try:
                used.execute(sqlalchemy.text("SELECT * FROM nothing"))
            except sqlalchemy.exc.OperationalError:
                used.execute(slow)
        raise LookupError("told")

    @job(name="Redis")
    def with_redis():
        with redis.Redis.from_url(url) as client:
            client.blpop("nothing", timeout=0.1)
            client.pipeline().set("a", 1).get("a").execute()

    @job(name="AsyncRedis")
    async def with_async_redis():
        async with redis.asyncio.Redis.from_url(url) as client:
            await client.blpop("nothing", timeout=0.1)
            await client.pipeline().set("a", 1).get("a").execute()

    @job(name="Neither")
    def neither(): ...
"""
DB, REDIS = {"db_duration_s"}, {"redis_duration_s"}
EXPECTED = {
    "Django": DB,
    "Alchemy": DB,
    "AsyncAlchemy": DB,
    "BrokenAlchemy": DB,
    "Redis": REDIS,
    "AsyncRedis": REDIS,
    "Neither": set(),
}


def test_queries_and_commands_of_jobs_are_measured(workers, stored, tmp_path):
    for name in EXPECTED:
        push(stored, name)
    text = APP.format(folder=tmp_path)
    worker = workers.start("-c", "1", text=text, wait=False, environ={"OFFSIDER_LOG_FORMAT": "json"})
    worker.until_says('"completed_at"', times=len(EXPECTED))
    lines = [json.loads(line) for line in worker.stopped().splitlines()]
    ends = {line["class"]: line for line in lines if "completed_at" in line}
    measured = {name: {field for field in line if field.endswith("_duration_s")} for name, line in ends.items()}
    assert measured == EXPECTED
    for name, fields in EXPECTED.items():
        for field in fields:  # each query and each pop takes several milliseconds
            assert 0.003 < ends[name][field] <= ends[name]["duration_s"], (name, ends[name])
