import pytest


@pytest.fixture(scope="module")
def browser():
    from browser import CHROMIUM, sync_api  # imported here, because other tests do not need it

    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    page = browser.new_page(viewport={"width": 1100, "height": 800})
    page.set_default_timeout(30_000)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    refused = "Failed to load resource: the server responded with a status of 400 (Bad Request)"
    yield page
    page.close()
    assert [problem for problem in problems if problem != refused] == []
