"""The fetch engine under random faults, for as long as you like: no job may be lost.

    python3 dev.py bench stress                            # one minute, a new seed
    python3 dev.py bench stress --minutes 30 --seed 7      # every night
    python3 dev.py bench stress --seed 7                   # the same faults in the same order

1. Workers run jobs of several kinds. For half of the workers the server is 5 ms away, so that several requests are
   under way.
2. Each thread pauses for up to 50 ms at random lines of `offsider/worker/fetch`.
3. Requests and replies are lost, connections break, queues are paused, and workers are stopped, suspended, declared
   dead and killed, in an order that the seed determines.
4. Then the faults end. Each job must be finished, according to a server without faults; the number of duplicates must
   be within the bound of docs/guarantees.md; no list may contain a job; each worker must stop with code 0 and leave no
   thread.

The seed determines faults, jobs and pauses. The operating system still schedules the threads, so a rare interleaving
may need several runs with one seed.
"""
