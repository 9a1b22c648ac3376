import itertools
import os
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest

from proxy.errors import ModelError
from proxy.nl.lm.decoding import likelihoods, write
from proxy.nl.lm.prefixes import PrefixCache
from proxy.nl.lm.step import OnnxStepModel

NEVER = float("inf")
TEXT = "Class Ship has name, tonnage."


def texts(model: OnnxStepModel, cache: PrefixCache, prefix: str = TEXT) -> tuple[str, str]:
    """What is written behind *prefix*, and where the prefix came from."""
    found, where = cache.get(prefix)
    return write(model, ["Q:"], max_tokens=8, clock=lambda: 0.0, deadline=NEVER, prefix=found)[0].text, where


def test_memory_and_disk_give_what_the_model_gave(model: OnnxStepModel, tmp_path: Path) -> None:
    """Text and likelihoods are the same whether a prefix was read, held, or found in a file by another process."""
    first = PrefixCache(model, folder=tmp_path)
    written, where = texts(model, first)
    assert where == "read"
    assert texts(model, first) == (written, "memory")
    before = model.tokens_read
    second = PrefixCache(model, folder=tmp_path)
    found, where = second.get(TEXT)
    assert (where, model.tokens_read) == ("disk", before)
    assert texts(model, second) == (written, "memory")
    values = [likelihoods(model, p, [("", "ab")], clock=lambda: 0.0, deadline=NEVER) for p in (found, first.get(TEXT)[0])]
    assert values[0] == values[1]


def test_forms_and_texts_do_not_share_files(folder: Path, tmp_path: Path) -> None:
    """Each text, each form of a model and each import has files of its own."""
    for form in ("fp32", "int8", "fp16"):
        cache = PrefixCache(OnnxStepModel(folder, threads=1, form=form), folder=tmp_path)
        assert [cache.get(t)[1] for t in (TEXT, TEXT + "x")] == ["read", "read"]
    assert len(list(tmp_path.iterdir())) == 6


def test_a_damaged_file_is_read_anew_and_replaced(model: OnnxStepModel, tmp_path: Path) -> None:
    """Whatever happened to the file, the text is the same, and the file is whole afterwards."""
    written, _ = texts(model, PrefixCache(model, folder=tmp_path))
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    middle = len(whole) // 2
    flipped = bytearray(whole)
    flipped[middle] ^= 1
    for content in (b"", whole[:-1], whole + b"\0", whole[:middle], bytes(flipped), b"\0" * len(whole)):
        file.write_bytes(content)
        cache = PrefixCache(model, folder=tmp_path)
        assert texts(model, cache) == (written, "read")
        assert (cache.counts.damaged, file.read_bytes()) == (1, whole)


def test_a_whole_file_of_another_text_is_not_believed(model: OnnxStepModel, tmp_path: Path) -> None:
    """A file under the name of another one has a good digest, and tells its tokens."""
    cache = PrefixCache(model, folder=tmp_path)
    cache.get(TEXT)
    (one,) = tmp_path.iterdir()
    cache.get("Class Town has name, district")
    (other,) = set(tmp_path.iterdir()) - {one}
    other.write_bytes(one.read_bytes())
    assert PrefixCache(model, folder=tmp_path).get("Class Town has name, district")[1] == "read"


def test_a_folder_that_cannot_be_used_costs_time_only(model: OnnxStepModel, tmp_path: Path) -> None:
    """No folder can be made where a file is; a file cannot be read where a folder is."""
    (tmp_path / "file").write_text("")
    blocked = PrefixCache(model, folder=tmp_path / "file" / "folder")
    assert blocked.get(TEXT)[1] == "read" and blocked.counts.unkept == 1
    PrefixCache(model, folder=tmp_path / "there").get(TEXT)
    (file,) = (tmp_path / "there").iterdir()
    file.unlink()
    file.mkdir()
    again = PrefixCache(model, folder=tmp_path / "there")
    assert again.get(TEXT)[1] == "read"
    assert (again.counts.damaged, again.counts.unkept) == (1, 1)


def test_the_files_are_bounded_and_the_oldest_goes(model: OnnxStepModel, tmp_path: Path) -> None:
    """What was used longest ago makes room, also when a crashed process left a draft; a file that is too large is not kept."""
    PrefixCache(model, folder=tmp_path).get(TEXT)
    size = next(tmp_path.iterdir()).stat().st_size
    next(tmp_path.iterdir()).unlink()
    (tmp_path / "x.1.draft").write_bytes(b"\0" * size)
    os.utime(tmp_path / "x.1.draft", (1, 1))
    cache = PrefixCache(model, folder=tmp_path, disk_bytes=2 * size + 200)
    times = itertools.count(10)
    for name in "abc":
        cache.get(TEXT[:-1] + name)
        for file in tmp_path.glob("*.prefix"):
            if file.stat().st_mtime > 1e9:
                os.utime(file, (n := next(times), n))
        assert sum(f.stat().st_size for f in tmp_path.iterdir()) <= 2 * size + 200
    assert not list(tmp_path.glob("*.draft"))
    fresh = PrefixCache(model, folder=tmp_path)
    assert [fresh.get(TEXT[:-1] + name)[1] for name in "cba"] == ["disk", "disk", "read"]
    small = PrefixCache(model, folder=tmp_path / "small", disk_bytes=100)
    assert small.get(TEXT)[1] == "read"
    assert small.counts.unkept == 1 and not (tmp_path / "small").exists()


def test_memory_is_bounded_but_for_the_last(model: OnnxStepModel) -> None:
    """At least one prefix is held, and no more than fit."""
    cache = PrefixCache(model, memory_bytes=1)
    assert [cache.get(t)[1] for t in ("ab", "ab", "cd", "ab")] == ["read", "memory", "read", "read"]
    roomy = PrefixCache(model)
    assert [roomy.get(t)[1] for t in ("ab", "cd", "ab", "cd")] == ["read", "read", "memory", "memory"]


def test_what_the_model_refuses_is_an_error(model: OnnxStepModel, tmp_path: Path) -> None:
    """A prefix longer than the context is the caller's; nothing is kept of it."""
    with pytest.raises(ModelError, match="a prefix has"):
        PrefixCache(model, folder=tmp_path).get("a" * 500)
    assert not list(tmp_path.iterdir())


def test_a_cache_comes_back_as_it_was(model: OnnxStepModel) -> None:
    """Export and restore are inverse, batch and all."""
    tokens = np.array([model.encode("abcd"), model.encode("efgh")])
    _, cache = model.step(tokens, np.ones_like(tokens))
    arrays = model.export(cache)
    assert all(a.shape == (2, model.folder.kv_heads, 4, model.folder.head_dim) for a in arrays)
    again = model.export(type(cache)(4, 2, model.restore(arrays)))
    assert all(np.array_equal(a, b) for a, b in zip(arrays, again, strict=True))


def test_a_model_whose_files_are_gone_still_reads(folder: Path, tmp_path: Path) -> None:
    """It is open; only what would be kept has no name any more."""
    (tmp_path / "model").mkdir()
    for file in folder.iterdir():
        (tmp_path / "model" / file.name).write_bytes(file.read_bytes())
    model = OnnxStepModel(tmp_path / "model", threads=1, form="fp32")
    (tmp_path / "model" / "lm.json").unlink()
    cache = PrefixCache(model, folder=tmp_path / "kept")
    assert [cache.get(TEXT)[1] for _ in range(2)] == ["read", "memory"]
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("header", [b"[" * 100_000, b"{}", b"[]", b'{"tokens": 1, "arrays": 2}', b"\xff", b"1e999"])
def test_a_file_that_somebody_made_is_never_fatal(model: OnnxStepModel, tmp_path: Path, header: bytes) -> None:
    """One with a good digest and a header that is none."""
    written, _ = texts(model, PrefixCache(model, folder=tmp_path))
    (file,) = tmp_path.iterdir()
    body = b"sparlance prefix 1\n" + len(header).to_bytes(8, "little") + header
    file.write_bytes(body + blake2b(body, digest_size=32).digest())
    cache = PrefixCache(model, folder=tmp_path)
    assert texts(model, cache) == (written, "read") and cache.counts.damaged == 1
