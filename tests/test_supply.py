"""What `.ci/sbom` says: a known flaw fails the run, a service that cannot be asked does not, and is told."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CI = Path(__file__).parent.parent / ".ci"
CLEAN = {"name": "httpx", "version": "1", "vulns": []}
FLAWED = {"name": "numpy", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
SKIPPED = {"name": "pytest", "skip_reason": "not found"}
OURS = {"name": "sparlance", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("dependencies", "code", "words"),
    [
        ([CLEAN, OURS], 0, "0 of 1 packages have a known vulnerability; 0 could not be looked up"),
        ([CLEAN, FLAWED], 1, "numpy 2: PYSEC-1, fixed by 3"),
        ([CLEAN, SKIPPED, OURS], 0, "1 could not be looked up"),
        ([SKIPPED, OURS], 0, "NOT AUDITED: the index tells nothing of vulnerabilities (1 packages)"),
        (None, 0, "NOT AUDITED: the vulnerability service cannot be reached"),
    ],
    ids=["clean", "flawed", "in part", "by nobody", "no file"],
)
def test_what_an_audit_comes_to(tmp_path, dependencies, code, words):
    """Nothing audited is never said to be nothing found."""
    if dependencies is not None:
        (tmp_path / "audit.json").write_text(json.dumps({"dependencies": dependencies, "fixes": []}))
    command = [sys.executable, CI / "read-audit", tmp_path / "audit.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, words in done.stdout + done.stderr) == (code, True)


def test_without_a_package_index_it_says_so(tmp_path):
    """It is a step of a run that must work without a network."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))}
    environ |= {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_CONFIG_FILE": os.devnull}
    command = ["sh", CI / "sbom", Path(sys.prefix), tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    assert done.returncode == 0 and "SKIPPED, the package index cannot be reached" in done.stderr, done.stderr
    assert not (tmp_path / "sbom.cdx.json").exists()
