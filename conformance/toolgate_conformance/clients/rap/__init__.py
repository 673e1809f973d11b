"""The checks of RAP runtimes, the clients of that protocol."""

from toolgate_conformance.clients.rap import callbacks, invocations, notices, subscriptions

THEMES = (invocations, callbacks, subscriptions, notices)
