"""Two-sample tests turned into scores: Kolmogorov–Smirnov, and a classifier trained to separate p̂ from p."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fbar.arrays import FloatArray, IntArray
from fbar.checks import choice, positive_integer
from fbar.errors import InputError, MissingExtra
from fbar.scores.approximation import Approximation
from fbar.scores.arrays import (
    is_finite,
    marginals,
    merged,
    samples,
    true_samples,
    two_samples,
)
from fbar.scores.base import Better, Needs, Scene, Score, register
from fbar.scores.metrics import kolmogorov
from fbar.weights import effective_size, systematic

CLASSIFIERS = ("mlp", "logistic")


def ks_p_value(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    x_weights: npt.ArrayLike | None = None,
    y_weights: npt.ArrayLike | None = None,
) -> float:
    """The two-sample Kolmogorov–Smirnov p-value, with (Σw)²/Σw² over distinct points for the sample sizes.

    As scipy.stats.ks_2samp(method="asymp"): the exact one-sample distribution at size nm/(n+m).
    """
    from scipy.stats import kstwo

    a, v, b, w = two_samples(x, y, x_weights, y_weights)
    distance = kolmogorov(a, b, v, w)
    n, m = effective_size(merged(a, v)[1]), effective_size(merged(b, w)[1])
    return float(np.clip(kstwo.sf(distance, max(1, round(n * m / (n + m)))), 0.0, 1.0))


def classifier(kind: str, dimension: int, seed: int) -> Any:
    """A scikit-learn classifier: sbibm's network, or a logistic regression on θ_j and θ_j²."""
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.neural_network import MLPClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer
    except ImportError:
        raise MissingExtra("scikit-learn", "scores") from None
    if choice(kind, CLASSIFIERS, "classifier") == "logistic":
        return make_pipeline(FunctionTransformer(_with_squares), LogisticRegression(max_iter=1000))
    return MLPClassifier(
        activation="relu",
        hidden_layer_sizes=(10 * dimension, 10 * dimension),
        max_iter=1000,
        solver="adam",
        random_state=seed,
    )


def _with_squares(x: FloatArray) -> FloatArray:
    return np.column_stack([x, x**2])


def folds_without_copies(source: IntArray, folds: int, rng: np.random.Generator) -> IntArray:
    """A fold for each row; copies of a point share one, or the classifier would be tested on what it learned."""
    _, which = np.unique(source, return_inverse=True)
    order = rng.permutation(int(which.max()) + 1)
    return np.asarray(order[which.reshape(-1)] % folds)


def c2st(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    x_weights: npt.ArrayLike | None = None,
    *,
    kind: str = "mlp",
    folds: int = 5,
    seed: int = 1,
    size: int | None = None,
) -> float:
    """How often a cross-validated classifier tells samples from true ones: ½ if it cannot, 1 if it always can.

    The convention of sbibm (Lueckmann et al. 2021; after Lopez-Paz & Oquab 2017): both z-scored by the truth, as many
    of one as of the other, a network of two layers of 10·d. Weighted samples are resampled (systematically) to the
    number of their distinct points, or of true ones, or ``size``, whichever is least.
    """
    a, v, b, _ = two_samples(x, y, x_weights, None)
    a, v = merged(a, v)
    n = min(len(a), len(b), len(a) if size is None else positive_integer(size, "size"))
    if positive_integer(folds, "folds") < 2 or n < 2 * folds:
        raise InputError(f"a classifier test with {folds} folds needs at least {2 * folds} distinct points; got {n}")
    rng = np.random.default_rng([seed, 3])
    rows = systematic(v, n, rng) if n < len(a) or np.ptp(v) > 1e-12 / n else np.arange(n)
    b = b[:n]
    centre, scale = b.mean(axis=0), b.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    data = np.concatenate([(a[rows] - centre) / scale, (b - centre) / scale])
    label = np.repeat([0, 1], n)
    copies = np.unique(b, axis=0, return_inverse=True)[1].reshape(-1)
    fold = np.concatenate([folds_without_copies(rows, folds, rng), folds_without_copies(copies, folds, rng)])
    order = rng.permutation(2 * n)  # networks learn from rows in their order
    data, label, fold = data[order], label[order], fold[order]
    accuracy = []
    for k in range(folds):
        model, test = classifier(kind, data.shape[1], seed), fold == k
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a network that has not converged in 1000 passes is used as it is
            model.fit(data[~test], label[~test])
        accuracy.append(float((model.predict(data[test]) == label[test]).mean()))
    return float(np.mean(accuracy))


# ---------------------------------------------------------------- scores


@register
@dataclass(frozen=True)
class KolmogorovSmirnovTest(Score):
    """The p-value of the two-sample test, of every marginal."""

    name: ClassVar[str] = "ks-test"
    title: ClassVar[str] = "p-value of the two-sample Kolmogorov–Smirnov test of each marginal"
    formula: ClassVar[str] = "P(D ≥ observed | p̂ = p), at sizes (Σw)²/Σw²"
    range: ClassVar[str] = "[0, 1]"
    better: ClassVar[Better] = "higher"
    needs: ClassVar[Needs] = "samples"
    blind_spot: ClassVar[str] = (
        "depends on the sample sizes, which can be chosen freely: any approximation is rejected with enough points and "
        "passes with few; a significance test says whether there is an error, never how large"
    )

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        if is_finite(scene):
            raise InputError("the Kolmogorov–Smirnov test is for continuous parameters; this prior is finite")
        return {name: ks_p_value(x, y, w, v) for name, x, w, y, v in marginals(approximation, scene)}


@register
@dataclass(frozen=True)
class ClassifierTest(Score):
    """C2ST: the accuracy of a classifier that separates the approximation from the truth."""

    name: ClassVar[str] = "c2st"
    title: ClassVar[str] = "classifier two-sample test: accuracy of a neural network"
    formula: ClassVar[str] = "share of held-out points that it classifies correctly, 5 folds"
    range: ClassVar[str] = "[0, 1]; ½ is the best"
    better: ClassVar[Better] = "nominal"
    needs: ClassVar[Needs] = "samples"
    nominal: ClassVar[float | None] = 0.5
    blind_spot: ClassVar[str] = (
        "bounded by ½ + ½ tv for any classifier, and lower if the classifier learns badly: an error that matters to "
        "one target among many dimensions hardly changes it; does not say which expectation is wrong"
    )

    kind: str = "mlp"
    folds: int = 5
    size: int | None = None

    def compute(self, approximation: Approximation, scene: Scene) -> Mapping[str, float]:
        if is_finite(scene):
            raise InputError("the classifier test is for continuous parameters; tv is exact on a finite prior")
        x, w = samples(approximation, scene)
        y, _ = true_samples(scene)
        return {"": c2st(x, y, w, kind=self.kind, folds=self.folds, size=self.size, seed=scene.seed + 1)}


@register
@dataclass(frozen=True)
class LogisticClassifierTest(ClassifierTest):
    """C2ST with a logistic regression on θ_j and θ_j²: seconds where the network takes minutes."""

    name: ClassVar[str] = "c2st-logistic"
    title: ClassVar[str] = "classifier two-sample test: accuracy of a logistic regression on θ and θ²"
    blind_spot: ClassVar[str] = "as c2st, and any difference beyond each parameter's mean and variance"

    kind: str = "logistic"
