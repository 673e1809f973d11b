"""What this server takes from uvicorn. None of it is documented; tests/unit/server/test_uvicorn_parts.py watches it.

uvicorn can run any protocol class: `Server(Config(app, http=Connection)).serve(sockets=...)`. It does not run this one,
because what `Server` itself does would break promises of ours (uvicorn 0.54, server.py):

- `head_timeout`, and an end of closing over TLS: `Server.startup` calls `loop.create_server` without
  `ssl_handshake_timeout` and `ssl_shutdown_timeout`, which then are 60 and 30 seconds.
- Callers get in under load: the loop accepts one connection per turn (see `acceptor`), and `Server` leaves it at that.
- Callbacks arrive while calls drain: `Server.shutdown` closes the listening sockets before it waits for anything.
- `shutdown_grace` ends everything: after `timeout_graceful_shutdown`, whole seconds that no reload can change,
  `Server.shutdown` cancels the tasks of requests, but leaves their connections open.
- Exit code 0 after SIGTERM: `Server.serve` installs signal handlers of its own, and raises the signals anew when it
  ends. It also restores the handlers before, while the other one of two listeners still needs them.
- `drain_delay`: a second signal can only end everything, not the delay alone.
- All other limits: `limit_concurrency`, `timeout_keep_alive` and `h11_max_incomplete_event_size` are carried out by the
  protocol classes of uvicorn, which have no deadlines for heads and bodies; `Server` itself knows of none.
"""

from __future__ import annotations

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.protocols.utils import get_local_addr, get_remote_addr

__all__ = ["HIGH_WATER_LIMIT", "STATUS_LINE", "FlowControl", "get_local_addr", "get_remote_addr"]
