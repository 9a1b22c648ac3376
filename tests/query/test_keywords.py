"""Keywords in text that could not be parsed."""

import pytest

from proxy.query.keywords import holds_keyword


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * { service <x> {} }", True),
        ("\\u0053ERVICE", True),
        ("\\U00000053ervice", True),
        ("1SERVICE", True),
        ("# service", True),
        ("SELECT * { ?s ?p \\u0058 }", False),
        ("\\UFFFFFFFF", False),
        ("SERV ICE", False),
    ],
)
def test_holds_keyword(text, expected):
    """In any case, escaped, glued or in a comment; errs towards yes."""
    assert holds_keyword(text, "SERVICE") is expected
