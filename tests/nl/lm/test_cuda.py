"""The path to a GPU, without one: what is asked of onnxruntime, and what happens where it cannot."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from proxy.errors import ModelError
from proxy.nl.lm.decoding import read_prefix, write
from proxy.nl.lm.prefixes import PrefixCache
from proxy.nl.lm.step import OnnxStepModel
from tests.nl.lm.faked_cuda import CPU, CUDA, FakedCuda

NEVER = float("inf")


def opened(folder: Path, fake: FakedCuda, *, driver: bool = True, form: str | None = None) -> OnnxStepModel:
    return OnnxStepModel(folder, threads=1, form=form, runtime=fake, has_driver=lambda: driver)


def texts(model: OnnxStepModel) -> list[str]:
    prefix = read_prefix(model, "Class Ship: ")
    found = write(model, ["Which", "How many"], max_tokens=6, clock=lambda: 0.0, deadline=NEVER, prefix=prefix, drafts=2)
    return [w.text for w in found]


def test_fp16_runs_where_cuda_does_and_the_cache_stays_there(folder: Path) -> None:
    """Keys and values are bound to the device at every step; only logits come to the host."""
    fake = FakedCuda()
    model = opened(folder, fake)
    assert (model.form, model.device, model.notice) == ("fp16", "cuda", "")
    assert fake.opened == [("model.fp16.onnx", [CUDA, CPU])]
    assert texts(model) == texts(OnnxStepModel(folder, threads=1, form="fp16"))
    outputs = {(name, device) for name, device in fake.bound if name != "value"}
    assert {device for name, device in outputs if name == "logits"} == {"cpu"}
    assert {device for name, device in outputs if name != "logits"} == {"cuda"}
    assert len(outputs) == 1 + 2 * model.folder.layers


def test_a_prefix_from_disk_goes_to_the_device(folder: Path, tmp_path: Path) -> None:
    """It is kept in the form of the cache, and comes back to where the model runs."""
    PrefixCache(opened(folder, FakedCuda()), folder=tmp_path).get("Class Ship")
    fake = FakedCuda()
    model = opened(folder, fake)
    assert model.cache_type == np.float16
    found, where = PrefixCache(model, folder=tmp_path).get("Class Ship")
    assert where == "disk" and found.cache.length == len(found.tokens)
    assert fake.bound == [("value", "cuda")] * (2 * model.folder.layers)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"works": False}, "onnxruntime cannot use the GPU ("),
        ({"error": "CUDA failure 2: out of memory\n ; GPU=0"}, "(CUDA failure 2: out of memory ; GPU=0)"),
    ],
    ids=["library", "memory"],
)
def test_what_cannot_run_on_cuda_runs_on_the_cpu_and_says_why(folder: Path, given: dict[str, Any], reason: str) -> None:
    """The other form is opened, one reason is given, and onnxruntime's own lines are held back only meanwhile."""
    fake = FakedCuda(**given)
    model = opened(folder, fake)
    assert (model.form, model.device) == ("int8", "cpu")
    assert reason in model.notice and model.notice.endswith("the model runs on the CPU")
    assert "\n" not in model.notice
    assert fake.opened[0][1] == [CUDA, CPU]
    assert fake.opened[-1] == ("model.int8.onnx", [CPU])
    assert fake.severities == [4, 2]
    assert texts(model) == texts(OnnxStepModel(folder, threads=1, form="int8"))
    assert {device for name, device in fake.bound} == {"cpu"}


def test_a_form_that_was_asked_for_stays(folder: Path) -> None:
    """It is opened once where the fallback happened inside, and its cache has its own type."""
    fake = FakedCuda(works=False)
    model = opened(folder, fake, form="fp16")
    assert (model.form, model.device, len(fake.opened)) == ("fp16", "cpu", 1)
    assert model.notice


@pytest.mark.parametrize(("available", "driver"), [([CUDA, CPU], False), ([CPU], True)], ids=["no driver", "no provider"])
def test_without_a_gpu_nothing_is_tried_or_said(folder: Path, available: list[str], driver: bool) -> None:
    """No driver, or an onnxruntime that was built without CUDA."""
    fake = FakedCuda(available=available)
    model = opened(folder, fake, driver=driver)
    assert (model.form, model.device, model.notice) == ("int8", "cpu", "")
    assert fake.opened == [("model.int8.onnx", [CPU])] and not fake.severities


def test_a_graph_that_runs_nowhere_is_an_error(folder: Path, tmp_path: Path) -> None:
    """Damage is no reason to fall back to the CPU and go on without a word."""
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    for name in ("model.fp16.onnx", "model.int8.onnx"):
        (tmp_path / name).write_bytes(b"damaged")
    with pytest.raises(ModelError, match="cannot be used"):
        opened(tmp_path, FakedCuda())


@pytest.mark.skipif(CUDA not in onnxruntime.get_available_providers(), reason="this onnxruntime was built without CUDA")
def test_a_real_onnxruntime_that_finds_no_cuda_prints_nothing(folder: Path) -> None:
    """The one line is ours: the library that is missing is named in it. With a GPU, it runs there."""
    code = (
        "import sys; from pathlib import Path; from proxy.nl.lm.step import OnnxStepModel; "
        "m = OnnxStepModel(Path(sys.argv[1]), has_driver=lambda: True); print(m.device, m.form, m.notice, sep='|')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=120)
    device, form, notice = done.stdout.strip().split("|")
    assert done.stderr == ""
    assert (device, form, notice) == ("cuda", "fp16", "") or ((device, form) == ("cpu", "int8") and "GPU (" in notice)
