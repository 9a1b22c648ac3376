"""Where a session of onnxruntime runs: on CUDA if it can, else on the CPU, with one reason why not.

onnxruntime falls back to the CPU by itself, prints what it missed to stderr and goes on; here that is asked for and said.
The library is given, by one of the two modules that import it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.errors import ModelError

CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
_WARNING, _NOTHING = 2, 4
"""Severities of onnxruntime's log: its default, and only what ends the process."""


@dataclass(frozen=True, slots=True)
class Opened:
    """device: "cuda" or "cpu". notice: why it is not on the GPU that is there; empty: it is, or there is none."""

    session: Any
    device: str
    notice: str = ""


def open_session(ort: Any, options: Any, *, cuda: Path, cpu: Path, has_driver: Callable[[], bool] | None = None) -> Opened:
    """Open the graph *cuda* on CUDA where that can be, else *cpu* on the CPU; both may be the same.

    Args:
        ort: the module onnxruntime. has_driver: whether there is a GPU to try; None: `has_cuda_driver`.
    Raises:
        ModelError: the graph cannot be used on the CPU either.
    """
    notice = ""
    # Asking for CUDA where no driver is costs a second and prints an error for every session.
    if (has_driver or has_cuda_driver)() and CUDA in ort.get_available_providers():
        ort.set_default_logger_severity(_NOTHING)  # the reason is asked for below, and logged once
        try:
            session = ort.InferenceSession(str(cuda), options, providers=[CUDA, CPU])
        except Exception as exc:  # onnxruntime has no public exception class
            notice = _notice(_shortened(str(exc)))
        else:
            if CUDA in session.get_providers():
                return Opened(session, "cuda")
            notice = _notice(_missing_library(ort))
            if cuda == cpu:
                return Opened(session, "cpu", notice)
            del session
        finally:
            ort.set_default_logger_severity(_WARNING)
    try:
        return Opened(ort.InferenceSession(str(cpu), options, providers=[CPU]), "cpu", notice)
    except Exception as exc:  # as above
        raise ModelError(f"the model in {cpu.parent} cannot be used: {_shortened(str(exc))}") from exc


def has_cuda_driver() -> bool:
    """Whether a CUDA driver can be loaded."""
    return _loads("libcuda.so.1") == ""


def _notice(reason: str) -> str:
    return f"onnxruntime cannot use the GPU ({reason}): the model runs on the CPU"


def _missing_library(ort: Any) -> str:
    """Which library the CUDA part of *ort* does not find, as the system says it."""
    found = _loads(str(Path(ort.__file__).parent / "capi" / "libonnxruntime_providers_cuda.so"))
    return found or "are CUDA 13 and cuDNN 9 there, and does the driver fit them?"


def _loads(library: str) -> str:
    """Why *library* cannot be loaded; empty: it can."""
    try:
        ctypes.CDLL(library)
    except OSError as exc:
        return _shortened(str(exc)) or "it cannot be loaded"
    return ""


def _shortened(text: str) -> str:
    return " ".join(text.split())[:300]
