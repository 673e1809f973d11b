"""`toolgate` on a machine whose clock is wrong: `python -m tests.support.wrong_clock SECONDS WORD...`.

Linux gives no process a wall clock of its own, so it is Python's that is set.
"""

from __future__ import annotations

import os
import sys
import time

if __name__ == "__main__":
    if "gateway.cli" in sys.modules:  # some of what is imported has the right clock already
        os.execv(sys.executable, [sys.executable, "-m", "tests.support.wrong_clock", *sys.argv[1:]])
    right, ahead_s = time.time, float(sys.argv[1])
    del sys.argv[1]
    time.time = lambda: right() + ahead_s
    from gateway.__main__ import main

    sys.exit(main())
