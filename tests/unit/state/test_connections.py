"""What the gateway uses of redis-py beyond its documentation: a library without it is refused by name."""

from __future__ import annotations

import pytest

from gateway.state.connections import check_library


class Changed:
    """A class of the library that has lost a parameter."""

    def disconnect(self) -> None: ...


@pytest.mark.parametrize(("method", "parameters"), [("can_read", ()), ("disconnect", ("nowait",))])
def test_a_library_that_lacks_a_method_or_a_parameter_is_refused_and_the_error_names_it(
    method: str, parameters: tuple[str, ...]
) -> None:
    with pytest.raises(ImportError, match=rf"^redis [0-9.]+ cannot be used, Changed\.{method}\(.*\) is missing"):
        check_library([(Changed, method, parameters)])
