"""How calls end that have no value."""

from __future__ import annotations

from gateway.client.answers import Failure, GatewayReply, Refusal


class ToolgateError(Exception):
    """What all errors of a client are. The message may be shown to a user or a model."""


class UnreachableError(ToolgateError):
    """No gateway answered. `may_have_run`: a call had been sent by then. `advice` is for who runs the program."""

    def __init__(self, message: str, *, may_have_run: bool = False, advice: str = "") -> None:
        super().__init__(message)
        self.may_have_run = may_have_run
        self.advice = advice


class RefusedError(ToolgateError):
    """The tool has not run. `code` is the word for why; `refusal` says what is wrong, or missing.

    `retry_after_s`: in how many seconds the same may be sent again; None: it may not.
    """

    def __init__(self, refusal: Refusal, reply: GatewayReply) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        self.reply = reply
        self.code = reply.code
        self.retry_after_s = reply.retry_after_s


class ToolFailedError(ToolgateError):
    """The tool ran, or may have run, and there is no value. `code` is the word for why.

    `failure` has what a model may be told besides, and whether the tool may be called again.
    """

    def __init__(self, failure: Failure, reply: GatewayReply) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.reply = reply
        self.code = reply.code


class ConsentError(ToolgateError):
    """The user declined, or took too long."""
