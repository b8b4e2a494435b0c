"""A shop with an incident: twenty classes, nine queues, and nine things that go wrong within three minutes.

1. The hour before is written as its workers would have written it; then real workers run real jobs.
2. A periodic entry and a queue are paused, a worker is quiet, a batch has a dead member, threads hang.
3. A partner becomes slow, release v42 breaks one class, processes crash, and one tenant floods a queue.

The pages must name all of them. ``python -m bench.incident`` plays it with the pages at a port, to look at;
tests/browser/test_on_call.py plays it and asks the pages what an on-call engineer asks.
"""
