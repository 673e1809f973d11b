"""The operator's own service that is asked whether a call may run."""

from gateway.authorization.decisions import Decision
from gateway.authorization.service import HttpAuthorizer, Unknown

__all__ = ["Decision", "HttpAuthorizer", "Unknown"]
