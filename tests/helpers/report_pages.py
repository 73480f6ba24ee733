"""Reports as a reader sees them, and the problem that most are about."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
from scipy import stats

import fbar

VOID = {"wbr", "meta", "link", "br", "hr", "img"}


class Page(HTMLParser):
    """A page's tags, ids and text; every tag that is opened must be closed, in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.tags, self.links, self.text = [], [], [], [], []
        self.attributes, self.said = set(), []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        given = dict(attributes)
        self.attributes |= set(given)
        self.said += [given["aria-label"]] if "aria-label" in given else []
        self.ids += [given["id"]] if "id" in given else []
        self.links += [value for key, value in attributes if key in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    @property
    def words(self):
        return " ".join("".join(self.text).split())


def read(result, tmp_path, **options):
    path = result.report(tmp_path / "report.html", **options)
    text = path.read_text(encoding="utf-8")
    found = Page(text)
    assert not {"script", "iframe", "object", "img"} & set(found.tags)
    assert all(link.startswith(("#", "data:")) for link in found.links)
    assert len(set(found.ids)) == len(found.ids)
    return found


def normal(theta, rng):
    return theta["mu"] + rng.standard_normal(theta.rows)


NORMAL = fbar.Problem(fbar.Prior(mu=stats.norm(0, 1)), normal, 1.0, derived={"double": lambda t: 2 * t["mu"]})
"""The posterior of mu is N(1/2, 1/2), that of new data N(1/2, 3/2)."""
TARGETS = [fbar.mean("mu"), fbar.probability("double > 1")]


def flaky(theta, rng):
    """Fails above mu = 0, half of the time."""
    x = theta["mu"] + rng.standard_normal(theta.rows)
    return np.where((theta["mu"] > 0) & (rng.random(theta.rows) < 0.5), np.nan, x)


def poisson(theta, rng):
    return rng.poisson(theta["rate"])


CASES = {
    "targeted": lambda: fbar.infer(NORMAL, TARGETS, tolerance=0.3, budget=6000, seed=1),
    "rejection": lambda: fbar.infer(NORMAL, TARGETS, method="rejection", tolerance=0.3, budget=3000, seed=1),
    "smc": lambda: fbar.infer(NORMAL, TARGETS, method="smc", tolerance=0.3, seed=1),
    "precision": lambda: fbar.infer(NORMAL, TARGETS, tolerance=0.3, precision={"mu": 0.05}, seed=1),
    "missed": lambda: fbar.infer(NORMAL, TARGETS, tolerance=0.3, precision={"mu": 1e-4}, budget=3000, seed=1),
    "finite": lambda: fbar.infer(
        fbar.Problem(fbar.Finite(rate=[1, 2, 3]), poisson, 2),
        [fbar.mean("rate"), fbar.probabilities({"rate": [1, 2, 3]})],
        budget=900,
        seed=1,
    ),
    "tabulated": lambda: fbar.infer(
        fbar.Problem.tabulated(fbar.Finite(theta=[1, 2, 3]), [0.3, 0.05, 0.2]), fbar.mean("theta"), budget=900, seed=1
    ),
    "models": lambda: fbar.infer(
        fbar.Problem.models(
            {
                "poisson": fbar.Model(poisson, fbar.Prior(rate=stats.expon())),
                "geometric": fbar.Model(
                    lambda t, rng: rng.geometric(t["p"]) - 1, fbar.Prior(p=stats.uniform(0.1, 0.8))
                ),
            },
            observed=2,
        ),
        [fbar.model_probability("poisson"), fbar.mean("rate")],
        budget=4000,
        tolerance=0,
        seed=1,
    ),
    "labels": lambda: fbar.infer(
        fbar.Problem(
            fbar.Prior(p=stats.uniform(0, 1)), lambda t, rng: np.where(rng.random(t.rows) < t["p"], "yes", "no"), "yes"
        ),
        fbar.mean("p"),
        method="rejection",
        budget=800,
        seed=1,
    ),
    "flaky": lambda: fbar.infer(
        fbar.Problem(fbar.Prior(mu=stats.norm(0, 1)), flaky, 1.0), fbar.mean("mu"), tolerance=0.3, budget=4000, seed=1
    ),
}
