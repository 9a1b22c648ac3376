"""An onnxruntime that says it has CUDA: it computes on the CPU, and notes what was asked to happen on which device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as real

CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


class FakedCuda:
    """works: sessions on CUDA are ones. Else they fall back without a word, as onnxruntime does where a library is missing,
    or *error* is raised, as where the GPU has no memory left."""

    SessionOptions = real.SessionOptions

    def __init__(self, *, works: bool = True, error: str = "", available: Sequence[str] = (CUDA, CPU)) -> None:
        self.works, self.error, self.available = works, error, list(available)
        self.opened: list[tuple[str, list[str]]] = []
        self.bound: list[tuple[str, str]] = []
        self.severities: list[int] = []
        self.__file__ = str(Path(real.__file__))
        self.OrtValue = _Values(self)

    def get_available_providers(self) -> list[str]:
        return self.available

    def set_default_logger_severity(self, severity: int) -> None:
        self.severities.append(severity)

    def InferenceSession(self, path: str, options: Any, *, providers: list[str]) -> Any:
        self.opened.append((Path(path).name, providers))
        if CUDA in providers and self.error:
            raise RuntimeError(self.error)
        session = real.InferenceSession(path, options, providers=[CPU])
        return _Session(self, session, [p for p in providers if p != CUDA or self.works])


class _Values:
    """Values "on the device" are numpy arrays that remember it."""

    def __init__(self, fake: FakedCuda) -> None:
        self.fake = fake

    def ortvalue_from_numpy(self, array: np.ndarray, device: str = "cpu") -> Any:
        self.fake.bound.append(("value", device))
        return real.OrtValue.ortvalue_from_numpy(array)


class _Session:
    def __init__(self, fake: FakedCuda, session: Any, providers: list[str]) -> None:
        self.fake, self.session, self.providers = fake, session, providers

    def get_providers(self) -> list[str]:
        return self.providers

    def get_inputs(self) -> Any:
        return self.session.get_inputs()

    def get_outputs(self) -> Any:
        return self.session.get_outputs()

    def io_binding(self) -> Any:
        return _Binding(self.fake, self.session.io_binding())

    def run_with_iobinding(self, binding: Any) -> None:
        self.session.run_with_iobinding(binding.binding)


class _Binding:
    def __init__(self, fake: FakedCuda, binding: Any) -> None:
        self.fake, self.binding = fake, binding

    def bind_output(self, name: str, device: str) -> None:
        self.fake.bound.append((name, device))
        self.binding.bind_output(name, "cpu")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.binding, name)
