import asyncio

import msgspec
import pytest

pytest.importorskip("onnx", reason="the extra lm is not installed: models cannot be imported")
pytest.importorskip("onnxruntime", reason="the extra nl is not installed")

from proxy.assembly import make_writer
from proxy.config import Config
from proxy.errors import ModelError
from proxy.nl.generate import Message, Wanted
from proxy.nl.lm.prefixes import PrefixCache
from proxy.nl.lm.step import OnnxStepModel
from proxy.pipeline.local_generator import LocalGenerator
from proxy.pipeline.local_model import LocalModel
from proxy.pipeline.model_queue import ModelQueue
from proxy.training.decoder.importing import import_model
from tests.nl.lm.tiny import LLAMA, write_source

ASKED = [Message("system", "Ships."), Message("user", "How many?")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> OnnxStepModel:
    at = tmp_path_factory.mktemp("llama")
    import_model(write_source(at / "source", LLAMA), at / "model", forms=("fp32",))
    return OnnxStepModel(at / "model", threads=1)


def test_a_local_model_writes_like_any_other(model: OnnxStepModel) -> None:
    """As many drafts as are wanted, each a block of code; the rules and the description are read once."""
    local = LocalModel(model, ModelQueue(), PrefixCache(model))

    async def run() -> None:
        generator = LocalGenerator(local)
        for wanted in (Wanted(2, 5, 0.8, 3), Wanted(1, 5)):
            found = await generator.write(ASKED, wanted, timeout_s=60)
            assert len(found.texts) == wanted.drafts
            assert all(t.startswith("```sparql\n") and t.endswith("\n```") for t in found.texts)
            assert found.tokens_read > 0
            assert 0 < found.tokens_written <= 5 * wanted.drafts
        await generator.aclose()

    asyncio.run(run())
    assert (local.prefixes.counts.read, local.prefixes.counts.memory) == (1, 1)


def test_what_does_not_fit_is_an_error_of_the_model(model: OnnxStepModel) -> None:
    """The prompt is longer than the context: a ModelError, as the writer expects it."""
    local = LocalModel(model, ModelQueue(), PrefixCache(model))
    asked = [ASKED[0], Message("user", "x" * 10_000)]
    with pytest.raises(ModelError):
        asyncio.run(LocalGenerator(local).write(asked, Wanted(1, 5), timeout_s=60))


def test_the_configuration_names_it(model: OnnxStepModel) -> None:
    """Two datasets with the same folder share one model; without a folder and a server nobody writes."""
    settings = Config()
    assert make_writer(settings) is None
    settings = msgspec.structs.replace(
        settings,
        writer=msgspec.structs.replace(settings.writer, folder=str(model.folder.path)),
        nl=msgspec.structs.replace(settings.nl, threads=1, prefix_cache=""),
    )
    first, second = make_writer(settings), make_writer(settings)
    assert first is not None and second is not None
    assert isinstance(first.generator, LocalGenerator) and isinstance(second.generator, LocalGenerator)
    assert first.generator.model is second.generator.model
