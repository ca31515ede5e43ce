"""Ten shapes along a line, hidden in noise."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch

from raycipe.components.data._splits import check_shares, classification_facts, shuffled_rows, tensor_splits
from raycipe.framework.arguments import Count, Fraction, NonNegative, Range
from raycipe.framework.contracts import Data, Split
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator

POINTS = 40  # of an example
GLYPH = 12  # points of a shape before it is padded
PADDING = (36, 60)  # zeros after the shape: the fewest and the most
TREMBLE = 0.02  # deviation of the independent noise

# How far the pen stands to the right, going down the digit: our own strokes, six points a digit.
STROKES = np.array(
    [
        [0.0, 3.0, 4.5, 4.5, 3.0, 0.0],  # 0: one wide bow
        [-1.5, -3.0, 3.5, 3.5, 3.5, 3.5],  # 1: a flag, then straight down
        [-1.0, 4.0, 3.0, -2.0, -4.0, 4.0],  # 2: bow, slant, foot
        [-2.0, 4.0, 0.0, 4.0, 4.0, -2.0],  # 3: two bows
        [2.0, -2.0, -4.0, 4.5, 2.0, 2.0],  # 4: slant, bar, stem
        [4.0, -4.0, -4.0, 3.0, 4.0, -3.0],  # 5: bar, neck, belly
        [3.0, -1.0, -4.0, -4.0, 3.5, -3.0],  # 6: neck, then a closed loop
        [-4.0, 4.5, 2.5, 0.5, -1.5, -3.0],  # 7: bar, then a long slant
        [3.5, -3.5, 3.5, -3.5, 3.5, 0.0],  # 8: to and fro
        [-3.0, 4.0, -3.0, 4.0, 3.5, 3.0],  # 9: loop, then a stem
    ]
)


@register
class Mnist1d(Data):
    """Ten shapes along a line, in the spirit of MNIST-1D: too hard for a linear model, seconds for a small network.

    A digit's stroke of 12 points is scaled, sheared, padded with 36 to 60 zeros, moved along the line (around its end),
    disturbed by smooth and by independent noise, and read at 40 points. x is (1, 40) with deviation 1 over the training
    examples, y the digit. The strokes are our own, so the accuracies are not comparable with the paper's.

    Args:
        examples: how many examples are made, over all splits
        max_translation: most points (of up to 72) that a shape is moved by; 0 keeps every shape at the start
        scale: amplitudes vary uniformly in 1 ± scale
        shear: largest slope that is added over a shape, in units of its deviation
        noise: deviation of the smooth noise, in units of the signal's
        shuffled: one fixed permutation of the 40 points, which destroys neighbourhood and leaves convolutions no edge
        val: share held out for choosing; 0 for no such split
        test: share held out for the final figure; 0 for no such split

    Reference:
        S. Greydanus, D. Kobak, Scaling Down Deep Learning with MNIST-1D, ICML 2024.

    Recipe:
        data: mnist1d
        model: {type: small_cnn, channels: [32, 64]}
        task: classification
        optimizer: {type: adamw, lr: 3e-3}
    """

    def __init__(
        self,
        examples: Count = 5000,
        max_translation: Annotated[int, Range(ge=0, le=72)] = 48,
        scale: Annotated[float, Range(ge=0, lt=1)] = 0.4,
        shear: NonNegative = 0.75,
        noise: NonNegative = 0.25,
        shuffled: bool = False,
        val: Fraction = 0.1,
        test: Fraction = 0.2,
    ) -> None:
        check_shares(val, test)
        self.examples = examples
        self.max_translation = max_translation
        self.scale = scale
        self.shear = shear
        self.noise = noise
        self.shuffled = shuffled
        self.val = val
        self.test = test

    def load(self, seed: int) -> dict[str, Split]:
        generator = numpy_generator(seed, "mnist1d")
        labels = np.arange(self.examples) % 10
        x = self.draw(labels, generator)
        if self.shuffled:
            x = x[:, generator.permutation(POINTS)]
        rows = shuffled_rows(self.examples, self.val, self.test, seed)
        train = x[rows["train"]]
        x = (x - train.mean()) / train.std()
        arrays = {"x": torch.from_numpy(x).float().unsqueeze(1), "y": torch.from_numpy(labels).long()}
        self.facts = classification_facts([1, POINTS], [str(digit) for digit in range(10)])
        return {**tensor_splits(arrays, rows)}

    def draw(self, labels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """One signal per label, (examples, 40) float64, each with its own scale, slope, padding, place and noise."""
        count = len(labels)
        glyphs = templates()[labels]  # (examples, 12)
        glyphs = glyphs * generator.uniform(1 - self.scale, 1 + self.scale, (count, 1))
        glyphs = glyphs + generator.uniform(-self.shear, self.shear, (count, 1)) * np.linspace(-1, 1, GLYPH)
        length = GLYPH + generator.integers(PADDING[0], PADDING[1], (count, 1), endpoint=True)
        moved = generator.integers(0, self.max_translation, (count, 1), endpoint=True)
        at = (np.linspace(0, 1, POINTS) * (length - 1) - moved) % length  # (examples, 40): where the stroke is read
        signal = read(glyphs, at)
        signal += self.noise * smooth(generator.normal(size=(count, POINTS)))
        return signal + TREMBLE * generator.normal(size=(count, POINTS))


def templates() -> np.ndarray:
    """(10, 12): the strokes at 12 points, each with mean 0 and deviation 1."""
    fine, coarse = np.linspace(0, 1, GLYPH), np.linspace(0, 1, STROKES.shape[1])
    drawn = np.stack([np.interp(fine, coarse, stroke) for stroke in STROKES])
    return (drawn - drawn.mean(axis=1, keepdims=True)) / drawn.std(axis=1, keepdims=True)


def read(glyphs: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Row i of `glyphs` (examples, 12) linearly interpolated at `at` (examples, 40), 0 beyond its ends."""
    padded = np.pad(glyphs, ((0, 0), (1, 2)))  # one zero before the stroke, two after
    place = np.clip(at + 1, 0, GLYPH + 1)
    left = place.astype(np.int64)
    low, high = np.take_along_axis(padded, left, axis=1), np.take_along_axis(padded, left + 1, axis=1)
    return low + (place - left) * (high - low)


def smooth(noise: np.ndarray, width: float = 2.0) -> np.ndarray:
    """Each row convolved with a Gaussian of `width` points (around its ends) and scaled back to its deviation."""
    offsets = np.arange(POINTS) - POINTS // 2
    kernel = np.exp(-0.5 * (offsets / width) ** 2)
    kernel /= np.sqrt((kernel**2).sum())
    spectrum = np.fft.rfft(np.roll(kernel, -(POINTS // 2)))
    return np.fft.irfft(np.fft.rfft(noise, axis=1) * spectrum, n=POINTS, axis=1)
