"""Shapes along a line."""

from __future__ import annotations

import numpy as np
import torch

from raycipe.components.data.mnist1d import read, smooth, templates
from raycipe.framework.registry import make


def test_strokes_are_ten_different_shapes_of_unit_deviation() -> None:
    shapes = templates()
    assert shapes.shape == (10, 12)
    np.testing.assert_allclose(shapes.mean(1), 0, atol=1e-12)
    np.testing.assert_allclose(shapes.std(1), 1, rtol=1e-12)
    correlation = np.abs(np.corrcoef(shapes)[np.triu_indices(10, 1)])
    assert correlation.max() < 0.95


def test_reading_interpolates_and_is_zero_beyond_the_stroke() -> None:
    glyph = np.arange(1.0, 13.0)[None]
    at = np.array([[-5.0, -0.5, 0.0, 2.25, 11.0, 11.5, 12.0, 50.0]])
    np.testing.assert_allclose(read(glyph, at), [[0, 0.5, 1, 3.25, 12, 6, 0, 0]])


def test_smooth_noise_keeps_its_deviation_and_correlates_neighbours() -> None:
    noise = smooth(np.random.default_rng(0).normal(size=(4000, 40)))
    assert abs(noise.std() - 1) < 0.02
    neighbours = (noise[:, 1:] * noise[:, :-1]).mean()
    assert abs(neighbours - np.exp(-1 / 16)) < 0.03  # a Gaussian of width 2: exp(-1 / (4 · 2²))


def test_without_disturbance_every_example_of_a_class_is_the_stroke_up_to_its_length() -> None:
    data = make("data/mnist1d", examples=200, max_translation=0, scale=0, shear=0, noise=0)
    x = data.draw(np.full(200, 3), np.random.default_rng(0))
    assert np.abs(x[:, 0] - templates()[3, 0]).max() < 0.1  # the independent noise alone
    assert np.abs(x[:, -5:]).max() < 0.1


def test_classes_are_balanced_and_shuffling_permutes_points_alike() -> None:
    plain = make("data/mnist1d", examples=500).load(3)["train"].tensors
    assert plain["x"].shape == (350, 1, 40) and abs(float(plain["x"].std(correction=0)) - 1) < 1e-4
    shuffled = make("data/mnist1d", examples=500, shuffled=True).load(3)["train"].tensors
    order = [int((shuffled["x"][:, 0] == plain["x"][:, 0, j, None]).all(0).nonzero()) for j in range(40)]
    assert sorted(order) == list(range(40)) and order != list(range(40))
    assert torch.equal(plain["y"], shuffled["y"])
