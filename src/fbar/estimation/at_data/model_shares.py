"""How probable each model of a choice is at the data: a local logistic regression of the model on the summaries.

With X = (1, u, …), which is (1, 0, …) at the data, the weights ω of the local regression and one model as reference,
the coefficients B maximise

    Σ_i ω_i log P_i(m_i) − ½ Σ_a B_aᵀ R B_a,    P_i(a) ∝ exp(X_i B_a),

R a small ridge that leaves the first coefficients free. The probabilities at the data are P ∝ exp(e₁ᵀB). A probability
is between 0 and 1 and, between models of an exponential family, its log odds are linear in the sufficient statistics,
however fast the probability itself changes: a linear regression of the indicators would be biased there (Fan, Heckman &
Wand 1995, JASA 90, 141).

B̂ is a solution of Σ ω x (y − P) = R B, y the indicators. So to first order simulation i moves B̂ by
H⁻¹ ω_i x_i (y_i − P_i), H being the matrix of second derivatives, and P by the derivatives of the softmax; as in linear
regressions, the residual is divided by 1 − leverage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fbar.arrays import FloatArray, IntArray

TIMES, CLOSE = 50, 1e-8
"""Newton's steps at most, and the largest change of a coefficient that ends them."""

HALVED = 20
"""How often a step is halved until it rises."""

MOST_LEVERAGE = 0.8

LEAST_LEFT = 0.5
"""The share of a model's absolute weights that their sum must be."""

TRACE = 1e-13
"""Of ridge for the first coefficients, so that second derivatives have an inverse."""


@dataclass(frozen=True, eq=False)
class ModelShares:
    """``model`` counts the models of the rows from 0; ``value`` (M,) are the probabilities at the data, and
    ``influence`` (n, M) what each row adds to their errors.
    """

    model: IntArray
    value: FloatArray
    influence: FloatArray

    def given(self, weights: FloatArray, positive: FloatArray) -> FloatArray:
        """Weights that sum to these probabilities within the models.

        ``positive`` ones take their place in a model where they largely cancel: such a sum is mostly noise.
        """
        size = self.value.size
        sums, sizes = (np.bincount(self.model, w, minlength=size) for w in (weights, np.abs(weights)))
        weights = np.where((sums > LEAST_LEFT * sizes)[self.model], weights, positive)
        sums = np.bincount(self.model, weights, minlength=size)
        return np.asarray(weights * (self.value / sums)[self.model])

    def means(self, weights: FloatArray, psi: FloatArray) -> FloatArray:
        """The mean of ψ (n, m) within each model, (M, m), for weights that `given` made."""
        own = weights * (self.model == np.arange(self.value.size)[:, None])
        total = own.sum(axis=1, keepdims=True)
        return np.asarray(own @ psi / np.where(total > 0, total, np.inf))


def model_shares(x: FloatArray, omega: FloatArray, ridge: FloatArray, model: IntArray) -> ModelShares | None:
    """The probabilities at the data, from rows x (n, p) of weights that sum to 1, with a penalty for each column.

    None where all rows are of one model, or the maximum was not found.
    """
    labels, model = np.unique(model, return_inverse=True)
    others = labels.size - 1
    if others == 0:
        return None
    p = x.shape[1]
    y = (model[:, None] == np.arange(1, labels.size)).astype(np.float64)
    weighted = omega[:, None] * x
    b = np.zeros((p, others))
    shares = omega @ y
    b[0] = np.log(np.maximum(shares, 1e-12) / max(1 - float(shares.sum()), 1e-12))
    best, probability = _objective(x, omega, ridge, y, b)
    for _ in range(TIMES):
        gradient = weighted.T @ (y - probability) - ridge[:, None] * b
        try:
            inverse = np.linalg.inv(_hessian(x, weighted, ridge, probability))
        except np.linalg.LinAlgError:  # models so far apart that no row shows how probable the other is
            return None
        step = (inverse @ gradient.T.reshape(-1)).reshape(others, p).T
        for _ in range(HALVED):
            new, there = _objective(x, omega, ridge, y, b + step)
            if new >= best - 1e-12:
                break
            step = step / 2
        else:
            return None
        b, best, probability = b + step, new, there
        if np.abs(step).max() < CLOSE:
            break
    else:
        return None
    blocks = np.asarray(inverse, dtype=np.float64).reshape(others, p, others, p)  # at B but for a last small step
    left = (y - probability) / (1 - np.minimum(_leverage(x, omega, blocks, probability), MOST_LEVERAGE))[:, None]
    moved = np.einsum("apb,ip,ib->ia", blocks[:, 0].transpose(0, 2, 1), weighted, left)
    odds = np.exp(np.concatenate([[0.0], b[0]]) - max(float(b[0].max()), 0.0))
    value = odds / odds.sum()
    own = moved * value[1:]
    of_others = own - own.sum(axis=1, keepdims=True) * value[1:]
    return ModelShares(model, value, np.column_stack([-of_others.sum(axis=1), of_others]))


def _objective(
    x: FloatArray, omega: FloatArray, ridge: FloatArray, y: FloatArray, b: FloatArray
) -> tuple[float, FloatArray]:
    """What B maximises, and P of all models but the first, whose score is 0."""
    scores = x @ b
    largest = np.maximum(scores.max(axis=1), 0.0)
    total = largest + np.log(np.exp(-largest) + np.exp(scores - largest[:, None]).sum(axis=1))
    value = omega @ ((scores * y).sum(axis=1) - total) - (ridge @ b**2).sum() / 2
    return float(value), np.exp(scores - total[:, None])


def _hessian(x: FloatArray, weighted: FloatArray, ridge: FloatArray, probability: FloatArray) -> FloatArray:
    """Minus the second derivatives."""
    p, others = x.shape[1], probability.shape[1]
    penalty = np.diag(np.maximum(ridge, TRACE))
    found = np.empty((others, p, others, p))
    for a in range(others):
        for c in range(a + 1):
            v = probability[:, a] * ((a == c) - probability[:, c])
            found[a, :, c] = (weighted * v[:, None]).T @ x + (penalty if a == c else 0.0)
            found[c, :, a] = found[a, :, c]  # which is symmetric
    return found.reshape(others * p, others * p)


def _leverage(x: FloatArray, omega: FloatArray, inverse: FloatArray, probability: FloatArray) -> FloatArray:
    """The mean share that a row has in its own fit."""
    others = probability.shape[1]
    found = np.zeros(len(x))
    for a in range(others):
        for c in range(others):
            v = probability[:, a] * ((a == c) - probability[:, c])
            found += omega * v * ((x @ inverse[a, :, c]) * x).sum(axis=1) / others
    return found
