"""plugins/time_limit.py: a request that takes too long at the backend is ended there."""

import time

import pytest

KEYS = {"slow": "slow-0123456789-0123456789"}
DATA = "".join(f"<a:{i}> <a:p> <a:{i + 1}> .\n" for i in range(400))
HEAVY = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"


def limited(server, options: str):
    return server(data=DATA, enabled=("time_limit",), options=f"[plugins.time_limit]\n{options}\n", keys=KEYS)


def test_a_heavy_query_is_ended(server):
    """504, soon after the time is over, and it says which limit it was."""
    started = time.perf_counter()
    response = limited(server, "seconds = 0.2").ask(HEAVY)
    assert response.status_code == 504 and response.json()["limit"] == "plugin"
    assert time.perf_counter() - started < 10


def test_each_key_has_its_own_time(server):
    """The one of the key replaces the common one, also where it is longer."""
    made = limited(server, "seconds = 60\nkeys = {slow = 0.2}")
    assert made.ask(HEAVY, key="slow").status_code == 504
    assert made.ask("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", accept="text/csv").text.split() == ["n", "400"]


@pytest.mark.parametrize("seconds", ["60", "0"])
def test_what_is_quick_passes(server, seconds):
    """Whole, with its length; 0 is no limit."""
    response = limited(server, f"seconds = {seconds}").ask("SELECT * { ?s ?p ?o }", accept="text/csv")
    assert response.status_code == 200 and len(response.text.split()) == 401


def test_a_long_answer_is_broken_off(server):
    """The time counts until the last byte, though bytes come all the while: the client sees a broken transfer, not an end."""
    made = limited(server, "seconds = 0.3")
    with pytest.raises(AssertionError):  # httpx's transport: the application ended without ending the body
        made.ask("SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }", accept="text/csv")
