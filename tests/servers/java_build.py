"""Build the Java side (tests/servers/java) once, with whatever JDK and Maven are installed, and say clearly if they are not."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("java")
BUILD_LIMIT_S = 540
REQUIRE = "SPARLANCE_REQUIRE_JAVA"
"""Environment variable: set to 1 where a missing Java must fail the tests instead of skipping them (CI)."""


class JavaUnavailable(Exception):
    """What is missing, in words for a skip reason."""


def java() -> str:
    """Return the path of the ``java`` command.

    Raises:
        JavaUnavailable: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if path is None:
        raise JavaUnavailable("no java command: install a JDK 17 or newer")
    return path


def build() -> Path:
    """Build what is not built yet and return the folder of the Maven project; seconds, or a download the first time.

    Raises:
        JavaUnavailable: no JDK, no Maven, or the libraries cannot be fetched here.
        RuntimeError: our own code does not compile.
    """
    java()
    done = FOLDER / "target" / "built"
    done.parent.mkdir(exist_ok=True)
    with (FOLDER / "target" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs in one checkout
        sources = [path for pattern in ("pom.xml", "*/pom.xml", "*/src/**/*.java") for path in FOLDER.glob(pattern)]
        if done.exists() and all(path.stat().st_mtime <= done.stat().st_mtime for path in sources):
            return FOLDER
        maven = shutil.which("mvn")
        if maven is None:
            raise JavaUnavailable("no mvn command: install Maven")
        run = subprocess.run(
            [maven, "-B", "-q", "-f", str(FOLDER / "pom.xml"), "compile"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_LIMIT_S,
        )
        if run.returncode:
            said = (run.stdout + run.stderr)[-3000:]
            if "Could not resolve" in said or "Could not transfer" in said or "could not be resolved" in said:
                raise JavaUnavailable(f"Maven cannot fetch the libraries: {_first_error(said)}")
            if ("release version" in said and "not supported" in said) or "No compiler is provided" in said:
                raise JavaUnavailable(f"the JDK is too old, or a JRE: {_first_error(said)}")
            raise RuntimeError(f"mvn compile failed in {FOLDER}:\n{said}")
        done.touch()
    return FOLDER


def _first_error(said: str) -> str:
    return next((line for line in said.splitlines() if "ERROR" in line), said)[:300]


def build_or_skip() -> Path:
    """Build for a test: skip it with the reason where there is no Java, or fail where Java is required."""
    try:
        return build()
    except JavaUnavailable as missing:
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{REQUIRE}=1, but {missing}", pytrace=False)
        pytest.skip(f"needs Java: {missing}")


def class_path(module: str) -> str:
    """Return the class path of one built module."""
    target = FOLDER / module / "target"
    return os.pathsep.join([str(target / "classes"), str(target / "lib" / "*")])
