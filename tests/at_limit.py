"""A program's part that leaves a process no room for another thread: as at `ulimit -v`, with some of the heap left."""

from __future__ import annotations

NO_MORE_THREADS = """
def no_more_threads():
    import resource, threading
    import psutil
    # Less than a thread's stack of 8 MiB; those of ended threads, which the C library keeps, are used first.
    room = psutil.Process().memory_info().vms + 6 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    wait = threading.Event()
    while True:
        try:
            threading.Thread(target=wait.wait, daemon=True).start()
        except RuntimeError as error:
            assert "can't start new thread" in str(error), error
            return
"""
