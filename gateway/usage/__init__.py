"""Who used which tool on which day: runs and refused calls by the key or issuer of their callers, stored in Redis.

`recorder` counts in this process and writes every few seconds, `ledger` is where the counts of all processes are.
"""

from gateway.usage.ledger import Ledger, Used
from gateway.usage.recorder import UsageRecorder

__all__ = ["Ledger", "UsageRecorder", "Used"]
