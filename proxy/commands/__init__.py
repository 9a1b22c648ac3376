"""What the commands of ``sparlance`` do, once their arguments are settings; each returns its exit code."""

DONE, REFUSED, FAILED = 0, 1, 2
"""Exit codes, as ``sparlance --help`` tells them."""
