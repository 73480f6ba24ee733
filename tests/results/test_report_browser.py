"""Reports in a real browser, Debian's Chromium: skipped where there is none."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from scipy import stats

import fbar

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]

PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
LONG = "a_parameter_with_a_name_that_is_far_too_long_for_any_telephone_there_is"


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def counts(theta, rng):
    failed = rng.random(theta.rows) < 0.02
    x = rng.poisson(theta["rate"][:, None] * theta[LONG][:, None], (theta.rows, 12)).astype(float)
    return np.where(failed[:, None], np.nan, x)


@pytest.fixture(scope="module")
def run_page(tmp_path_factory):
    problem = fbar.Problem(
        fbar.Prior(rate=stats.uniform(1, 9), **{LONG: stats.uniform(0.5, 1)}),
        counts,
        observed=[4, 6, 5, 7, 4, 3, 6, 5, 5, 8, 4, 5],
        derived={"<b>product</b>": lambda t: t["rate"] * t[LONG]},
    )
    targets = [fbar.mean("rate"), fbar.probability("rate > 5"), fbar.mean("<b>product</b>")]
    result = fbar.infer(problem, targets, tolerance=8, budget=8000, seed=1)
    return result.report(tmp_path_factory.mktemp("run") / "report.html")


def switching(theta, rng):
    """Messengers of a gene that switches on and off, in 30 cells."""
    on = rng.beta(theta["kon"][:, None] + 0.1, theta["koff"][:, None] + 0.1, (theta.rows, 30))
    return np.log1p(theta["kr"][:, None] / theta["d"][:, None] * on)


@pytest.fixture(scope="module")
def nine_page(tmp_path_factory):
    """Nine targets of four log-uniform parameters."""
    names = ("kon", "koff", "kr", "d")
    problem = fbar.Problem(
        fbar.Prior({name: stats.loguniform(0.1, 100) for name in names}),
        switching,
        np.linspace(0.1, 3, 30),
        summary=lambda x: {"mean": x.mean(axis=1), "spread": x.std(axis=1), "largest": x.max(axis=1)},
        derived={"burst": lambda t: t["kr"] / t["koff"]},
    )
    targets = [*(fbar.mean(name) for name in (*names, "burst")), fbar.quantile("kr", 0.025), fbar.quantile("kr", 0.975)]
    targets += [fbar.probability("burst > 10"), fbar.probability("kon > koff")]
    result = fbar.infer(problem, targets, tolerance=0.4, budget=8000, seed=1)
    return result.report(tmp_path_factory.mktemp("nine") / "report.html")


@pytest.fixture(scope="module")
def study_page(tmp_path_factory):
    study = fbar.Study(["ramp", "two-moons"], ["rejection", "smc"], [300, 1000], 4, ["mse", "ess"], seed=1)
    return study.run(workers=1, progress=False).report(tmp_path_factory.mktemp("study") / "report.html")


class Visit:
    """A page in the browser, with all that it complained of and asked for."""

    def __init__(self, browser, path, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.url = path.resolve().as_uri()
        self.page.goto(self.url)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


def pages(request):
    return request.getfixturevalue("run_page"), request.getfixturevalue("study_page")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("which", ["run_page", "study_page"])
def test_it_opens_without_a_complaint_and_asks_for_nothing(browser, request, which, theme, size):
    with Visit(browser, request.getfixturevalue(which), color_scheme=theme, viewport=size) as visit:
        assert visit.said == []
        assert [url for url in visit.asked if not url.startswith("data:")] == [visit.url]
        sections = visit.page.locator("section")
        assert sections.count() >= 5
        for place in range(sections.count()):
            section = sections.nth(place)
            assert section.is_visible()
            assert section.bounding_box()["height"] > 30, section.get_attribute("id")
        # Tables and wide pictures scroll by themselves; the page never does.
        root = "document.documentElement"
        assert visit.page.evaluate(f"{root}.scrollWidth") <= visit.page.evaluate(f"{root}.clientWidth")
        for link in visit.page.locator("nav a").all():
            assert visit.page.locator(link.get_attribute("href")).count() == 1


def brightness(page, element, what):
    """The mean of red, green and blue of a computed colour, from 0 to 255."""
    script = f"e => getComputedStyle(e).{what}.match(/[0-9.]+/g).slice(0, 3).map(Number)"
    return np.mean(page.locator(element).first.evaluate(script))


def test_dark_and_light(browser, run_page):
    for theme, dark in (("light", False), ("dark", True)):
        with Visit(browser, run_page, color_scheme=theme) as visit:
            paper, ink = (brightness(visit.page, "body", what) for what in ("backgroundColor", "color"))
            assert (paper < 60) == dark
            assert abs(paper - ink) > 150
            # The text of a picture has the page's ink.
            fills = visit.page.evaluate(
                """() => [...document.querySelectorAll('svg text')]
                    .map(e => getComputedStyle(e).fill.match(/[0-9.]+/g)).filter(c => c)
                    .map(c => (+c[0] + +c[1] + +c[2]) / 3)"""
            )
            assert len(fills) > 20
            assert np.mean(np.abs(np.array(fills) - paper) > 100) > 0.95


def test_on_paper(browser, run_page, tmp_path):
    with Visit(browser, run_page, color_scheme="dark") as visit:
        visit.page.emulate_media(media="print", color_scheme="dark")
        assert not visit.page.locator("nav").is_visible()
        assert brightness(visit.page, "body", "backgroundColor") > 250
        data = visit.page.pdf(path=tmp_path / "report.pdf", format="A4")
        assert data.startswith(b"%PDF")
        assert len(data) > 50_000


def test_nine_targets_take_three_screens_until_they_are_unfolded(browser, nine_page):
    """The answer takes one; what is folded can be unfolded, which needs no script."""
    with Visit(browser, nine_page, viewport=DESK, java_script_enabled=False) as visit:
        assert visit.page.locator("footer").bounding_box()["y"] < 3 * DESK["height"]
        answer = visit.page.locator("#answer").bounding_box()
        assert answer["y"] + answer["height"] < DESK["height"]
        tables = visit.page.locator("#rounds table")
        assert not tables.first.is_visible()
        visit.page.locator("#rounds summary").first.click()
        assert tables.first.is_visible()


def test_labels_are_not_markup(browser, run_page):
    with Visit(browser, run_page) as visit:
        assert visit.page.locator("main b").count() == 0
        assert "<b>product</b>" in visit.page.locator("#answer").inner_text()


def test_a_browser_may_load_nothing(browser, run_page, tmp_path):
    """The page's own policy forbids what a mistake might add."""
    text = run_page.read_text(encoding="utf-8")
    wrong = tmp_path / "wrong.html"
    wrong.write_text(
        text.replace("<main>", '<main><img src="http://127.0.0.1:9/x.png"><script>document.title="x"</script>')
    )
    with Visit(browser, wrong) as visit:
        assert visit.page.title() != "x"
        assert len(visit.said) >= 2
