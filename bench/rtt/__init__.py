"""Workers with a distant server: throughput and pick-up latency by round-trip time, compared with other systems.

    python3 dev.py bench rtt                                   # seven rounds, about 40 minutes
    python3 dev.py bench rtt --rounds 3 --only offsider --rtt 0 5
    python3 dev.py bench rtt --json rtt.json --markdown        # writes the tables into docs/internals/performance.md

1. A relay between workers and server adds the round trip (`bench.compare.delay`), including one of 0 ms, so that every
   figure contains the cost of the relay. Producers connect to the server directly.
2. The tests alternate between all contestants and distances, with the components of `bench compare`.
3. `relay` measures the delay and the maximum throughput of the relay itself.
"""
