"""docs/security.md: every claim names tests, and every test that it names is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| threat ", "| --- "))]
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))


def test_every_row_names_a_test():
    """A claim that nobody tries is none."""
    assert len(ROWS) > 40
    assert [row for row in ROWS if not re.search(r"`[\w/]+\.py::\w+`[^|]*\|$", row)] == []


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[f"{f}::{n}" for f, n in NAMED])
def test_the_test_is_there(file, name):
    assert re.search(rf"^(?:async )?def {name}\(", (ROOT / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE)
