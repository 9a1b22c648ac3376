"""The cache of verdicts."""

from proxy.query.operation import DatasetDescription
from proxy.query.parse import parse
from proxy.validation.cache import VerdictCache

ENTRY = (parse("ASK {}"), ())


def test_a_verdict_is_kept_for_its_text_epoch_and_dataset():
    """Another index or another dataset is another verdict."""
    cache = VerdictCache()
    cache.put("ASK {}", 1, ENTRY)
    assert cache.get("ASK {}", 1) is ENTRY
    assert cache.get("ASK {}", 2) is None
    assert cache.get("ASK {}", 1, DatasetDescription(("http://g.example/",))) is None


def test_the_least_recently_used_goes_first():
    """Reading an entry keeps it."""
    cache = VerdictCache(max_entries=2)
    cache.put("a", 1, ENTRY)
    cache.put("b", 1, ENTRY)
    cache.get("a", 1)
    cache.put("c", 1, ENTRY)
    assert (len(cache), cache.get("a", 1), cache.get("b", 1)) == (2, ENTRY, None)


def test_long_texts_are_not_kept():
    """They would fill the memory."""
    cache = VerdictCache(max_characters=3)
    cache.put("ASK {}", 1, ENTRY)
    assert len(cache) == 0
