"""Who may do what over HTTP."""

import asyncio
import base64

import httpx
import pytest

from proxy import keys as commands
from proxy.access.keys import Role
from proxy.app import create_app
from proxy.config import load_config
from proxy.protocol import access

QUERY = "/sparql?query=ASK{}"
BAD = "spl_0123456789ab_0123456789012345678901234567890123456789012"


class World:
    """An application over one triple, with keys in a file."""

    def __init__(self, folder, *, host="127.0.0.1", anonymous='["query", "nl", "update"]', updates=True):
        (folder / "one.nt").write_text("<a:s> <a:p> <a:o> .\n", encoding="utf-8")
        (folder / "config.toml").write_text(
            f'[server]\nhost = "{host}"\n[backend]\nload = ["one.nt"]\n[index]\nenabled = false\n'
            f'[policy]\nallow_updates = {str(updates).lower()}\n[access]\nkeys_file = "keys.json"\nanonymous = {anonymous}\n',
            encoding="utf-8",
        )
        self.config = load_config(folder / "config.toml", environ={})

    def key(self, name, *roles, **limits):
        return commands.new_key(self.config, name, [Role(r) for r in roles], **limits)[0]

    def ask(self, *requests):
        """Send (method, path, headers) one after the other; returns the responses."""

        async def run():
            app = create_app(self.config)
            await app.startup()
            found = []
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                for method, path, headers, *before in requests:
                    for act in before:
                        act()
                    found.append(await client.request(method, path, headers=headers))
            await app.shutdown()
            return found

        return asyncio.run(run())


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def basic(token):
    return {"authorization": "Basic " + base64.b64encode(f"anyone:{token}".encode()).decode()}


def test_a_key_is_taken_in_three_ways(tmp_path):
    """Bearer, X-API-Key, or as a password, for clients that know nothing else."""
    world = World(tmp_path, anonymous="[]")
    token = world.key("wiki", "query")
    shown = [bearer(token), basic(token), {"x-api-key": token}, {"authorization": f"bearer  {token} "}]
    assert [r.status_code for r in world.ask(*[("GET", QUERY, headers) for headers in shown])] == [200] * 4


def test_without_a_key_or_with_a_wrong_one_it_is_401_with_a_challenge(tmp_path):
    """A client that has user and password sends them when it is asked to (RFC 9110, 11.6.1)."""
    world = World(tmp_path, anonymous="[]")
    world.key("wiki", "query")
    for response in world.ask(*[("GET", QUERY, h) for h in ({}, bearer(BAD), basic(BAD), {"x-api-key": "guess"})]):
        assert response.status_code == 401
        assert response.headers.get_list("www-authenticate") == ['Bearer realm="sparlance"', 'Basic realm="sparlance"']
        assert "guess" not in response.text
        assert BAD not in response.text


@pytest.mark.parametrize(
    ("role", "method", "path", "status"),
    [
        ("query", "GET", QUERY, 200),
        ("nl", "GET", QUERY, 403),
        ("admin", "GET", QUERY, 403),
        ("query", "GET", "/store?default", 200),
        ("query", "PUT", "/store?default", 403),
        ("update", "DELETE", "/store?default", 204),
        ("query", "POST", "/sparql?update=CLEAR%20ALL", 403),
        ("update", "GET", QUERY, 403),
        ("query", "GET", "/sparql?nl=who", 403),
        ("nl", "GET", "/text2sparql?question=who", 503),  # let in; there is no question engine
        ("query", "GET", "/text2sparql?question=who", 403),
        ("query", "GET", "/-/metrics", 403),
        ("admin", "GET", "/-/metrics", 200),
        ("query", "POST", "/-/index", 403),
        ("nl", "GET", "/-/index", 403),
        ("query", "GET", "/-/index", 200),
        ("nl", "GET", "/-/live", 200),
    ],
)
def test_each_request_needs_its_role(tmp_path, role, method, path, status):
    """A key has what it was given and nothing else; the body of the refusal names the role."""
    world = World(tmp_path)
    [response] = world.ask((method, path, bearer(world.key("k", role))))
    assert response.status_code == status, response.text
    if status == 403:
        assert "does not have the role" in response.text


def test_an_update_in_a_form_needs_its_role_too(tmp_path):
    """What an operation is decides, not where it came to."""
    world = World(tmp_path)
    token = world.key("k", "query")

    async def post(app):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return [
                await client.post("/sparql", data={"update": "CLEAR ALL"}, headers=bearer(token)),
                await client.post(
                    "/update", content="CLEAR ALL", headers=bearer(token) | {"content-type": "application/sparql-update"}
                ),
            ]

    assert [r.status_code for r in asyncio.run(post(create_app(world.config)))] == [403, 403]


@pytest.mark.parametrize(
    ("host", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("127.0.0.1", {"x-forwarded-for": "203.0.113.9"}, 401),
        ("127.0.0.1", {"forwarded": "for=203.0.113.9"}, 401),
        ("127.0.0.1", {"origin": "https://elsewhere.example"}, 401),
        ("127.0.0.1", {"origin": "null"}, 401),
        ("127.0.0.1", {"origin": "http://localhost:3000"}, 200),
        ("127.0.0.1", {"host": "rebound.elsewhere.example:8080"}, 401),
        ("127.0.0.1", {"host": "127.0.0.1.elsewhere.example"}, 401),
        ("127.0.0.1", {"host": "127.0.0.1:8080"}, 200),
        ("127.0.0.1", {"host": "[::1]:8080"}, 200),
        ("127.0.0.1", {"host": "LOCALHOST"}, 200),
        ("0.0.0.0", {}, 401),
    ],
)
def test_on_this_machine_alone_admin_pages_need_no_key(tmp_path, host, headers, status):
    """Not where other machines can connect, nor for what a proxy here passes on, nor for a page that a browser here shows, be
    it under a name that was given our address afterwards (DNS rebinding)."""
    assert World(tmp_path, host=host).ask(("GET", "/-/metrics", headers))[0].status_code == status


@pytest.mark.parametrize(
    ("host", "headers", "status"),
    [
        ("127.0.0.1", {}, 204),
        ("127.0.0.1", {"origin": "http://127.0.0.1:3000"}, 204),
        ("127.0.0.1", {"origin": "https://elsewhere.example"}, 401),
        ("127.0.0.1", {"origin": "null"}, 401),
        ("127.0.0.1", {"host": "rebound.elsewhere.example"}, 401),
        ("127.0.0.1", {"origin": "https://our.example", "x-forwarded-for": "203.0.113.9"}, 204),  # the front decides
        ("0.0.0.0", {"origin": "https://elsewhere.example"}, 204),  # so does whoever opens it to others
    ],
)
def test_no_page_of_another_site_writes_here(tmp_path, host, headers, status):
    """A form is sent by a browser without asking, so any page could empty a store that only this machine reaches."""
    world = World(tmp_path, host=host)

    async def post(app):
        await app.startup()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            found = await client.post("/update", data={"update": "DELETE DATA { <a:x> <a:y> <a:z> }"}, headers=headers)
            read = await client.get(QUERY, headers=headers)
        await app.shutdown()
        return found.status_code, read.status_code

    assert asyncio.run(post(create_app(world.config))) == (status, 200)


def test_probes_need_no_key(tmp_path):
    """The machine that runs us has none to show."""
    world = World(tmp_path, host="0.0.0.0", anonymous="[]")
    paths = ("/-/live", "/-/ready", QUERY)
    assert [r.status_code for r in world.ask(*[("GET", path, {}) for path in paths])] == [200, 200, 401]


def test_a_key_made_or_revoked_while_serving_counts_within_a_second(tmp_path, monkeypatch):
    """No restart, no reload."""
    world = World(tmp_path, anonymous="[]")
    token = world.key("old", "query")
    monkeypatch.setattr(access, "REREAD_S", -1.0)
    new = []
    answers = world.ask(
        ("GET", QUERY, bearer(token)),
        ("GET", QUERY, bearer(token), lambda: commands.revoke_key(world.config, "old")),
        ("GET", "/-/live", {}, lambda: new.append(world.key("new", "query"))),
    )
    assert [r.status_code for r in answers] == [200, 401, 200]
    assert world.ask(("GET", QUERY, bearer(new[0])))[0].status_code == 200


def test_limits_of_a_key_are_its_own(tmp_path):
    """One that has used up its requests waits; the others do not."""
    world = World(tmp_path)
    few, many = world.key("few", "query", requests_per_minute=2), world.key("many", "query")
    answers = world.ask(*[("GET", QUERY, bearer(few))] * 3, ("GET", QUERY, bearer(many)))
    assert [r.status_code for r in answers] == [200, 200, 429, 200]


def test_keys_that_are_not_ours_pass_to_the_backend(tmp_path):
    """A credential of the backend is not a wrong key of ours; ours do not reach it."""
    world = World(tmp_path)
    token = world.key("k", "query")
    seen = []
    app = create_app(world.config)
    send = app.datasets[0].backend.send

    async def watched(request, *args, **kwargs):
        seen.append(request.headers)
        return await send(request, *args, **kwargs)

    app.datasets[0].backend.send = watched

    async def run():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            twice = {"x-api-key": token} | basic(token)
            both = [("authorization", v["authorization"]) for v in (basic("secret"), bearer(token), basic(token))]
            for headers in (
                bearer("eyJhbGciOi.J9.x"), basic("secret"), bearer(token), basic(token), {"x-api-key": token}, twice, both
            ):  # fmt: skip
                assert (await client.get(QUERY, headers=headers)).status_code == 200

    asyncio.run(run())
    sent = [[value for name, value in h if name in (b"authorization", b"x-api-key")] for h in seen]
    secret = basic("secret")["authorization"].encode()
    assert sent == [[b"Bearer eyJhbGciOi.J9.x"], [secret], [], [], [], [], [secret]]
