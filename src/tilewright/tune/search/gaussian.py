"""A Gaussian process: what is known of times elsewhere, and how sure that is, from a few dozen measured points.

A Matérn kernel with a length for each column: of order 5/2, smooth, or of order 1/2, which believes less of what lies
between two points (times of tiles and stages jump as often as they slope). Lengths, scale and noise are those of the greatest posterior
density under broad priors: with a dozen points in ten columns, the likelihood alone would follow the noise.
(C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, 2006, chapters 2, 4 and 5.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tilewright.tune.search.encoding import Matrix

# Priors of the logarithms: of a length, as a share of a column's range; of the noise's variance, as a share of all.
LENGTH, LENGTH_SPREAD = 0.0, 1.0
SCALE_SPREAD = 1.0
NOISE, NOISE_SPREAD = -4.0, 1.5
JITTER = 1e-6
ROOT5 = math.sqrt(5.0)


@dataclass(frozen=True)
class Prediction:
    """Mean and standard deviation of each row's value."""

    mean: Matrix
    deviation: Matrix


class Gaussian:
    """Fitted to rows and their values; predicts others.

    ``parameters`` of an earlier fit are where the next begins; with no ``steps`` they are kept.
    """

    def __init__(
        self,
        rows: Matrix,
        values: Matrix,
        parameters: Matrix | None = None,
        *,
        smooth: bool = True,
        steps: int = 40,
    ) -> None:
        self._rows, self._kernel = rows, _smooth if smooth else _rough
        self._middle, self._spread = float(values.mean()), float(values.std()) or 1.0
        self._values = (values - self._middle) / self._spread
        columns = rows.shape[1]
        self._prior = np.array([LENGTH] * columns + [0.0, NOISE])
        self._broad = np.array([LENGTH_SPREAD] * columns + [SCALE_SPREAD, NOISE_SPREAD])
        self._apart = (rows[:, None, :] - rows[None, :, :]) ** 2
        start = self._prior if parameters is None or parameters.shape != self._prior.shape else parameters
        self.parameters = self._climbed(start, steps) if steps else start
        self._factor, self._weights = self._solved()

    def predict(self, rows: Matrix) -> Prediction:
        """What the values of other rows are, noise left out."""
        lengths, scale, _ = self._unpacked(self.parameters)
        left, right = rows / lengths, self._rows / lengths
        squared = (left**2).sum(1)[:, None] + (right**2).sum(1) - 2 * left @ right.T
        between = scale * self._kernel(np.sqrt(np.maximum(squared, 0.0)))[0]
        mean = between @ self._weights
        explained = np.linalg.solve(self._factor, between.T)
        variance = np.maximum(scale - (explained**2).sum(axis=0), 1e-9)
        return Prediction(self._middle + self._spread * mean, self._spread * np.sqrt(variance))

    def left_out(self) -> Matrix:
        """How far off each value is from what the others predict of it, in standard deviations of that prediction
        (Rasmussen and Williams, equations 5.10 to 5.12)."""
        inverse = np.linalg.inv(self._factor)
        inverse = inverse.T @ inverse
        off: Matrix = self._weights / np.sqrt(np.diag(inverse))
        return off

    @property
    def noise(self) -> float:
        """The standard deviation of what no row explains."""
        return self._spread * math.sqrt(self._unpacked(self.parameters)[2])

    def _unpacked(self, parameters: Matrix) -> tuple[Matrix, float, float]:
        return np.exp(parameters[:-2]), float(np.exp(parameters[-2])), float(np.exp(parameters[-1])) + JITTER

    def _solved(self) -> tuple[Matrix, Matrix]:
        lengths, scale, noise = self._unpacked(self.parameters)
        distance = np.sqrt((self._apart / lengths**2).sum(axis=-1))
        factor = np.linalg.cholesky(scale * self._kernel(distance)[0] + noise * np.eye(len(self._values)))
        return factor, np.linalg.solve(factor.T, np.linalg.solve(factor, self._values))

    def _climbed(self, parameters: Matrix, steps: int) -> Matrix:
        """Towards the greatest density, each parameter with a step of its own that grows while its slope keeps its
        sign (Rprop: M. Riedmiller, H. Braun, 1993), which no scale of the slopes can upset."""
        step, last = np.full_like(parameters, 0.2), np.zeros_like(parameters)
        best, least = parameters, math.inf
        for _ in range(steps):
            loss, slope = self._loss(parameters)
            if loss < least:
                best, least = parameters, loss
            turned = np.sign(slope * last)
            step = np.clip(step * np.where(turned > 0, 1.3, np.where(turned < 0, 0.5, 1.0)), 1e-3, 1.0)
            last = np.where(turned < 0, 0.0, slope)
            parameters = np.clip(parameters - step * np.sign(last), self._prior - 8, self._prior + 8)
            if step.max() < 5e-3:
                break
        return best

    def _loss(self, parameters: Matrix) -> tuple[float, Matrix]:
        """The negative logarithm of the posterior density, and its slope."""
        lengths, scale, noise = self._unpacked(parameters)
        distance = np.sqrt((self._apart / lengths**2).sum(axis=-1))
        similarity, steepness = self._kernel(distance)
        kernel = scale * similarity
        factor = np.linalg.cholesky(kernel + noise * np.eye(len(self._values)))
        inverse = np.linalg.inv(factor)
        inverse = inverse.T @ inverse
        weights = inverse @ self._values
        away = (parameters - self._prior) / self._broad
        loss = 0.5 * self._values @ weights + np.log(np.diag(factor)).sum() + 0.5 * (away**2).sum()
        pull = 0.5 * (inverse - np.outer(weights, weights))
        by_length = (pull * (scale * steepness)).ravel()
        slope = np.empty_like(parameters)
        slope[:-2] = by_length @ self._apart.reshape(-1, self._apart.shape[-1]) / lengths**2
        slope[-2], slope[-1] = (pull * kernel).sum(), np.trace(pull) * noise
        return float(loss), slope + away / self._broad


def _smooth(distance: Matrix) -> tuple[Matrix, Matrix]:
    """Similarity at a distance, and how fast it grows with the logarithm of a length, over that column's share."""
    decay = np.exp(-ROOT5 * distance)
    return (1 + ROOT5 * distance + 5 / 3 * distance**2) * decay, 5 / 3 * (1 + ROOT5 * distance) * decay


def _rough(distance: Matrix) -> tuple[Matrix, Matrix]:
    decay = np.exp(-distance)
    return decay, decay / np.maximum(distance, 1e-6)
