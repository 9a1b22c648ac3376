from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="the extra lm is not installed: models cannot be imported")
pytest.importorskip("onnxruntime", reason="the extra nl is not installed")

from proxy.nl.lm.step import OnnxStepModel
from proxy.training.decoder.importing import import_model
from tests.nl.lm.tiny import KINDS, write_source


@pytest.fixture(scope="session", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The imported folder of a tiny model of each architecture."""
    at = tmp_path_factory.mktemp(request.param)
    import_model(write_source(at / "source", KINDS[request.param]), at / "model", forms=("fp32", "int8", "fp16"))
    return at / "model"


@pytest.fixture(scope="session")
def model(folder: Path) -> OnnxStepModel:
    return OnnxStepModel(folder, threads=1, form="fp32")
