"""Answers kept over a kill: complete ones only, of the same data and settings only."""

from __future__ import annotations

import random
import resource
import signal

import pytest

from proxy.backends.base import Solutions
from proxy.pipeline.journal import Journal
from proxy.query.term import RDF_LANG_STRING, XSD_STRING, BlankNode, Iri, Literal, TripleTerm

ROWS = [
    (Iri("http://e/a"), Literal("x", XSD_STRING), None),
    (BlankNode("b0"), Literal("ü\n\0", RDF_LANG_STRING, "de-AT"), Literal("1", "http://e/odd")),
]
ANSWER = Solutions(("a", "b", "c"), ROWS)


def opened(tmp_path, state="s"):
    return Journal.open(tmp_path / "j", state=state)


def test_answers_come_back(tmp_path):
    """Every kind of term, unbound variables and empty answers; a query that was never asked has none."""
    one = opened(tmp_path)
    one.put("Q1", ANSWER)
    one.put("Q2", Solutions(("a",), []))
    one.close()
    two = opened(tmp_path)
    assert two.get("Q1") == ANSWER and two.get("Q2") == Solutions(("a",), []) and two.get("Q3") is None
    assert (len(two), two.replayed) == (2, 2)
    two.discard()
    assert not (tmp_path / "j").exists()


def test_another_state_begins_anew(tmp_path):
    """Answers given on other data, or under other settings, are worth nothing."""
    one = opened(tmp_path)
    one.put("Q1", ANSWER)
    one.close()
    two = opened(tmp_path, state="t")
    assert len(two) == 0 and two.get("Q1") is None
    two.put("Q2", ANSWER)
    two.close()
    three = opened(tmp_path, state="t")
    assert len(three) == 1
    three.close()


def test_half_a_record_is_cut_off(tmp_path):
    """Wherever the kill came: whole records before it stay, and new ones follow them."""
    one = opened(tmp_path)
    for i in range(4):
        one.put(f"Q{i}", ANSWER)
    one.close()
    whole = (tmp_path / "j").read_bytes()
    start = 52
    size = (len(whole) - start) // 4
    for cut in random.Random(1).sample(range(len(whole)), 60):
        (tmp_path / "j").write_bytes(whole[:cut])
        two = opened(tmp_path)
        assert len(two) == max(0, cut - start) // size
        two.put("new", ANSWER)
        two.close()
        three = opened(tmp_path)
        assert three.get("new") == ANSWER
        three.close()


def test_a_damaged_record_ends_the_journal(tmp_path):
    """A flipped bit: the checksum tells, and what follows is asked again."""
    one = opened(tmp_path)
    for i in range(3):
        one.put(f"Q{i}", ANSWER)
    one.close()
    whole = bytearray((tmp_path / "j").read_bytes())
    whole[len(whole) // 2] ^= 1
    (tmp_path / "j").write_bytes(whole)
    two = opened(tmp_path)
    assert two.get("Q0") == ANSWER and two.get("Q1") is None
    two.close()


def test_triple_terms_are_asked_again(tmp_path):
    """They are not kept, and break nothing."""
    one = opened(tmp_path)
    one.put("Q", Solutions(("t",), [(TripleTerm(Iri("a"), Iri("b"), Iri("c")),)]))
    assert one.get("Q") is None and one.error == ""
    one.close()


def test_a_full_disk_is_an_error_to_show_not_to_raise(tmp_path):
    """The build goes on without a journal; what was written before can still be read."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    one = opened(tmp_path)
    one.put("Q1", ANSWER)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "j").stat().st_size + 10, hard))
        one.put("Q2", ANSWER)
        one.put("Q3", ANSWER)
        one.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert "cannot be written" in one.error
    two = opened(tmp_path)
    assert two.get("Q1") == ANSWER and two.get("Q2") is None
    two.close()


def test_a_folder_in_its_place_is_an_error(tmp_path):
    """Whoever opens it is told."""
    (tmp_path / "j").mkdir()
    with pytest.raises(OSError):
        opened(tmp_path)
