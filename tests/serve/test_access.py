"""Who may send requests to the explorer."""

import pytest

fastapi = pytest.importorskip("fastapi")

from starlette.testclient import TestClient  # noqa: E402

from explorers import small_explorer  # noqa: E402
from regard.serve.access import host_names  # noqa: E402
from regard.serve.app import make_app  # noqa: E402

TOKEN = "a-token"
LOCAL = "http://localhost:7007"


@pytest.fixture
def client():
    with TestClient(make_app(small_explorer(), token=TOKEN), LOCAL, follow_redirects=False) as client:
        yield client


def test_without_a_token_only_health_is_answered(client) -> None:
    for path in ("/", "/static/app.js", "/nowhere", "/?token=another", "/?token=", "/?token=%ff"):
        response = client.get(path)
        assert response.status_code == 401
        assert response.json()["error"].startswith("the token is missing or wrong; open the address that")
        assert "default-src 'self'" in response.headers["content-security-policy"]
    assert client.post("/api/model", json={}).status_code == 401
    assert client.post("/api/model", json={}, headers={"cookie": "regard-7007=another"}).status_code == 401
    assert client.get("/health").status_code == 200


def test_the_token_in_the_url_becomes_a_cookie_that_other_sites_cannot_use(client) -> None:
    response = client.get(f"/?token={TOKEN}")
    assert response.status_code == 303
    assert "token" not in response.headers["location"]
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert client.get("/").status_code == 200
    assert client.get("/static/app.js").status_code == 200
    assert client.post("/api/model", json={}).status_code == 200


def test_a_script_gives_the_token_with_each_request(client) -> None:
    assert client.post(f"/api/model?token={TOKEN}", json={}).json()["name"] == "mine"
    assert "set-cookie" not in client.post(f"/api/model?token={TOKEN}", json={}).headers


def test_the_refusal_of_a_host_name_says_how_to_allow_it() -> None:
    with TestClient(make_app(small_explorer()), LOCAL) as client:
        response = client.get("/", headers={"host": "models.example:7007"})
        assert response.status_code == 400
        assert response.json()["error"] == (
            "'models.example:7007' is not a name of this server; to accept it, add: --allowed-host models.example"
        )


def test_allowed_names_and_the_address_of_the_connection_are_accepted() -> None:
    app = make_app(small_explorer(), hosts=[*host_names("0.0.0.0"), "Models.example"])
    with TestClient(app, "http://192.0.2.7:7007") as client:
        for host in ("192.0.2.7:7007", "192.0.2.7", "models.example", "MODELS.example:443", "localhost:7007"):
            assert client.get("/health", headers={"host": host}).status_code == 200
        for host in ("192.0.2.8", "models.example.evil.example", "evil.example"):
            assert client.get("/health", headers={"host": host}).status_code == 400


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_cannot_embed_or_ask_but_may_link(site) -> None:
    link = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    with TestClient(make_app(small_explorer()), LOCAL) as client:
        assert client.get("/", headers=link).status_code == 200
        assert client.get("/", headers={**link, "sec-fetch-dest": "iframe"}).status_code == 400
        assert client.post("/api/model", headers=link, json={}).status_code == 400
        for headers in ({"sec-fetch-site": site}, {**link, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}):
            response = client.get("/static/app.js", headers=headers)
            assert response.status_code == 400
            assert response.json() == {"error": "requests from other sites are not allowed"}
        for own in ("same-origin", "none"):
            assert client.post("/api/model", headers={"sec-fetch-site": own}, json={}).status_code == 200
