"""Compares offsider with other job systems: the same jobs, server and concurrency, in one run.

    python3 dev.py bench compare --quick
    python3 dev.py bench compare --only offsider sidekiq --tests drain push --repeats 5 --json figures.json

1. each rival is installed in its own virtual environment, each run has its own server
2. the tests alternate between all contestants (`rivals`), so that a slow phase affects all (`tournament`)
3. a job records its runs in a mapped file (`apps/probe.py`, `ledger`); CPU times are read from /proc (`machine`)
4. repeats become medians and ranges (`bench.report`); rows that other programs disturbed are marked and repeated
5. tables are written from them (`tables`), also later from the JSON file

To add a rival, describe it in `rivals`, and write a module in apps/ that declares and pushes the job.
"""
