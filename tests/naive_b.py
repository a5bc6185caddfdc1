"""Slow oracle for general service: queues of jobs, one event after the other; imports nothing from lbcore."""

from collections import deque


def serve(gaps, services, choices, n, buffers=None, levels=()):
    """Replay given arrivals with given choices of servers, first come first served.

    Parameters
    ----------
    gaps, services : sequence of float, length m
        Interarrival and service times.
    choices : sequence of int, length m
        Server that each job is sent to.
    n : int
        Servers.
    buffers : sequence of int, length n, optional
        Most jobs at each server.
    levels : sequence of float
        Amounts of work for the profile.

    Returns
    -------
    dict
        ``waits`` (by job; None if lost), ``queues`` and ``profile`` as each arrival finds them, ``second``:
        integral, until all are gone, of the number of servers with two jobs or more.
    """
    queues = [deque() for _ in range(n)]  # of job numbers, the one in service first
    ends = [None] * n  # of the service under way at each server
    waits, arrived = [None] * len(gaps), []
    seen, profiles, second, now = [], [], 0.0, 0.0

    def start(server, time):
        job = queues[server][0]
        waits[job] = time - arrived[job]
        ends[server] = time + services[job]

    def run_until(time):
        nonlocal second, now
        while True:
            busy = [(ends[s], s) for s in range(n) if ends[s] is not None and ends[s] <= time]
            moment, server = min(busy) if busy else (time, None)
            second += (moment - now) * sum(len(queue) > 1 for queue in queues)
            now = moment
            if server is None:
                return
            queues[server].popleft()
            ends[server] = None
            if queues[server]:
                start(server, now)

    clock = 0.0
    for job, (gap, server) in enumerate(zip(gaps, choices, strict=True)):
        clock += gap
        arrived.append(clock)
        run_until(clock)
        seen.append([len(queue) for queue in queues])
        work = [(ends[s] - now + sum(services[j] for j in list(queues[s])[1:]) if queues[s] else 0.0) for s in range(n)]
        profiles.append([sum(w > level for w in work) / n for level in levels])
        if buffers is not None and len(queues[server]) >= buffers[server]:
            continue
        queues[server].append(job)
        if len(queues[server]) == 1:
            start(server, now)
    while any(queues):
        run_until(min(end for end in ends if end is not None))
    return {"waits": waits, "queues": seen, "profile": profiles, "second": second}
