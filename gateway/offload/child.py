"""The child process: runs one task after another until its parent closes the pipe.

`python -m gateway.offload.child MEMORY`: so many bytes may be used beyond what the program itself takes. A task that
uses more processor time than its frame allows ends the process by SIGPROF, whatever library it is in.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from typing import BinaryIO

from gateway.offload.tasks import HEAD, decode_request, encode, task_of

PR_SET_PDEATHSIG = 1  # linux/prctl.h
FIRST_TO_GO = "1000"  # proc_pid_oom_score_adj(5)


def main(memory_bytes: int) -> None:
    """Answers the frames on standard input on standard output."""
    _end_with_parent()
    _limit_memory(memory_bytes)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while head := source.read(HEAD.size):
        size, cpu_s = HEAD.unpack(head)
        _answer(source.read(size), cpu_s, sink)


def _answer(frame: bytes, cpu_s: float, sink: BinaryIO) -> None:
    try:
        module, name, parts = decode_request(frame)
        del frame
        task = task_of(module, name)  # importing is not the task's time
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        answer = encode(task(*parts))
    except MemoryError:
        os.abort()  # as a library does that cannot report it
    signal.setitimer(signal.ITIMER_PROF, 0)
    sink.write(HEAD.pack(len(answer), 0.0))
    sink.write(answer)
    sink.flush()


def _end_with_parent() -> None:
    """Makes Linux end this process with its parent; on other systems it ends after its task."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it had gone before it could be asked for
            sys.exit(0)


def _limit_memory(memory_bytes: int) -> None:
    """Bounds the address space: a multiple of the heap, because allocators reserve more than they use.

    Where all processes together have less, as in a container, the kernel ends this one first.
    """
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(FIRST_TO_GO)
    with contextlib.suppress(OSError, ValueError):  # a system without such limits; the deadline holds all the same
        with open("/proc/self/statm", "rb") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = used + memory_bytes
        most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(int(sys.argv[1]))
