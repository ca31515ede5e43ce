"""The small convolutional network."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from raycipe.framework.registry import make


@pytest.mark.parametrize("shape", [[1, 8, 8], [3, 32, 17], [2, 40], [1, 1, 1]])
def test_images_and_signals_of_any_size_give_one_row_each(shape: list[int]) -> None:
    model = make("models/small_cnn", input_shape=shape, num_outputs=5, channels=[4, 8, 8, 8, 8])
    assert model(torch.zeros(2, *shape)).shape == (2, 5)


def test_pooling_stops_where_a_side_would_vanish() -> None:
    model = make("models/small_cnn", input_shape=[1, 8, 8], num_outputs=2, channels=[4] * 5)
    assert sum(isinstance(layer, nn.MaxPool2d) for layer in model.features) == 3


def test_a_shift_by_the_pooling_factor_does_not_change_the_output_inside() -> None:
    torch.manual_seed(0)
    model = make("models/small_cnn", input_shape=[1, 64], num_outputs=3, channels=[4, 4]).eval()
    x = torch.zeros(1, 1, 64)
    x[..., 20:24] = 1.0
    torch.testing.assert_close(model(x), model(x.roll(4, dims=2)), rtol=1e-5, atol=1e-6)


def test_unusable_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"^kernel: must be odd, not 4"):
        make("models/small_cnn", input_shape=[1, 8, 8], num_outputs=2, kernel=4)
    with pytest.raises(ValueError, match=r"^input_shape: needs \(channels, length\)"):
        make("models/small_cnn", input_shape=[30], num_outputs=2)
