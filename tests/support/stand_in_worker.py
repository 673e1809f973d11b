"""A stand-in for a worker process that imports nothing: configurations are words, and `bad` ones cannot be used."""

from __future__ import annotations

import argparse
import json
import os
import pickle
import socket
import sys
import threading
import time
from typing import Any

REPORT_S = 0.05
UNUSABLE = "The configuration cannot be used."


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=int)
    control = socket.socket(fileno=parser.parse_known_args()[0].control)
    reader = control.makefile("rb")

    def say(**message: Any) -> None:
        control.sendall(json.dumps(message).encode() + b"\n")

    def receive() -> tuple[int, str]:
        order: tuple[int, str] = pickle.loads(reader.read(int.from_bytes(reader.read(4), "big")))
        return order

    def report_on() -> None:
        while True:
            say(kind="report", details={"status": "ok"}, gauges=[], children={})
            time.sleep(REPORT_S)

    if receive()[1].startswith("bad"):
        say(kind="failed", reason=UNUSABLE)
        sys.exit(1)
    threading.Thread(target=report_on, daemon=True).start()
    say(kind="ready")
    while True:
        number, config = receive()
        say(kind="done", number=number, ok=not config.startswith("bad"))


if __name__ == "__main__":
    try:
        main()
    except (EOFError, OSError):  # its supervisor is gone
        os._exit(0)
