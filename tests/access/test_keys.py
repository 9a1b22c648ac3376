"""API keys: what is found, what is not, and what is never kept."""

import pytest

from proxy.access.keys import Role, id_of, mint, read_environment, read_roles, ring

NOW = "2026-01-01T00:00:00Z"


def test_a_key_is_found_by_itself_only():
    """Each change of one character of a key, or a part of it, finds nobody."""
    token, key = mint("wiki", [Role.QUERY], created=NOW)
    found = ring([key])
    assert found.find(token, now=NOW) is key
    wrong = [token[:-1], token + "x", token.upper(), token[:20], "", "spl_", f"spl_{key.id}_", key.digest, f"spl_{key.id}"]
    wrong += [token[:i] + ("a" if token[i] != "a" else "b") + token[i + 1 :] for i in range(len(token))]
    assert [w for w in wrong if found.find(w, now=NOW) is not None] == []


def test_the_record_does_not_hold_the_key():
    """Only the hash is kept, and two keys have nothing in common."""
    token, key = mint("wiki", [Role.QUERY], created=NOW)
    assert token.split("_", 2)[2] not in repr(key)
    assert token != mint("wiki", [Role.QUERY], created=NOW)[0]
    assert id_of(token) == key.id


def test_an_expired_and_a_revoked_key_find_nobody():
    """The moment of expiry is the first at which it is not valid."""
    token, key = mint("wiki", [Role.QUERY], created=NOW, expires="2026-02-01T00:00:00Z")
    assert ring([key]).find(token, now="2026-01-31T23:59:59Z") is key
    assert ring([key]).find(token, now="2026-02-01T00:00:00Z") is None
    from dataclasses import replace

    assert ring([replace(key, digest="")]).find(token, now=NOW) is None
    assert ring([replace(key, digest="")]).find("", now=NOW) is None


def test_keys_of_the_environment_may_be_anybodys():
    """One that another system has made is found by its hash."""
    text = "grafana:query+nl:0123456789abcdefghij, ops:admin:zyxwvutsrqponmlkjihg"
    keys = read_environment(text)
    assert [(k.name, sorted(k.roles)) for k in keys] == [("grafana", ["nl", "query"]), ("ops", ["admin"])]
    assert ring(keys).find("zyxwvutsrqponmlkjihg", now=NOW).name == "ops"
    assert ring(keys).find("zyxwvutsrqponmlkjih", now=NOW) is None
    assert read_environment("  ") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("only-a-key-0123456789abcdef", "entry 1 is not"),
        ("a:query:open-sesame", "could be guessed"),
        ("a:root:" + "x" * 30, "no role"),
    ],
)
def test_what_the_environment_says_wrong_is_told_without_the_key(text, words):
    """The message goes to a log; the key does not."""
    with pytest.raises(ValueError, match=words) as caught:
        read_environment(text)
    assert text.rpartition(":")[2] not in str(caught.value)


def test_names_and_roles_are_checked():
    """A name stands in lists and logs, so it has no blanks or control characters; a key without a role is a mistake."""
    for name in ("", "a b", "a\n", "x" * 65, "-a"):
        with pytest.raises(ValueError, match="no name"):
            mint(name, [Role.NL], created=NOW)
    with pytest.raises(ValueError, match="without a role"):
        mint("a", [], created=NOW)
    with pytest.raises(ValueError, match="there is query, nl, update, admin"):
        read_roles(["root"])
