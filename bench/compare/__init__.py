"""offsider beside other job systems: the same jobs, server and concurrency, in one run.

    python3 dev.py bench compare --quick
    python3 dev.py bench compare --only offsider sidekiq --tests drain push --repeats 5 --json figures.json

1. each rival is installed in an environment of its own (`venvs`), each run has a server of its own (`server`)
2. the tests (`plan`) go round robin over all contestants (`rivals`), so that a slow spell hits everybody (`tournament`)
3. a job notes what it did in a mapped file (`apps/probe.py`, `ledger`); CPU times come from /proc (`machine`)
4. repeats become medians and ranges (`stats`); rows that others disturbed are marked and repeated
5. tables, the chart and the bars are written from them (`tables`, `chart`, `bars`), also later from the JSON file

A further rival is a module in rivals/, which says how its worker is started, and one in apps/, which declares the job
and pushes it.
"""
