"""Cost, memory and latency of a job against the size of an installation: one curve for each dimension.

    python3 dev.py bench scale                               # three rounds, about 20 minutes and 3 GB of memory
    python3 dev.py bench scale --only queues classes --rounds 5
    python3 dev.py bench scale --quick                       # a smoke test of every curve, without meaningful figures
    python3 dev.py bench scale --json scale.json  # a table for each number

1. Each point starts its own server on a unix socket, without persistence, and one real worker; other processes are
   simulated by `bench.scale.fleet`.
2. A point varies one number of `Point` and leaves the others at their defaults.
3. The rounds alternate between all points, so that a slow phase of the machine affects all of them. A figure is the
   median of the rounds.
4. CPU times are those of the kernel in nanoseconds (schedstat), and of the server's own statistics (INFO), because the
   wall time depends on other programs.
"""
