"""digits, breast_cancer and the synthetic sets: values that the method fixes."""

from __future__ import annotations

import pytest
import torch

from raycipe.framework.errors import RunError
from raycipe.framework.registry import make


def test_digits_are_1797_images_between_0_and_1() -> None:
    splits = make("data/digits").load(0)
    assert {name: len(split) for name, split in splits.items()} == {"train": 1258, "val": 180, "test": 359}
    x = torch.cat([split.tensors["x"] for split in splits.values()])
    assert x.shape == (1797, 1, 8, 8) and float(x.min()) == 0 and float(x.max()) == 1


def test_breast_cancer_is_standardized_by_its_training_rows() -> None:
    train = make("data/breast_cancer").load(0)["train"].tensors["x"]
    torch.testing.assert_close(train.mean(0), torch.zeros(30), rtol=0, atol=1e-5)
    raw = make("data/breast_cancer", standardize=False).load(0)["train"].tensors["x"]
    assert float(raw.max()) > 1000


@pytest.mark.parametrize("name", ["digits", "breast_cancer"])
def test_split_seed_fixes_the_splits(name: str) -> None:
    first, second, moving = (
        make(f"data/{name}", split_seed=split_seed).load(seed)["test"].tensors["x"]
        for seed, split_seed in ((0, 7), (1, 7), (1, None))
    )
    assert torch.equal(first, second) and not torch.equal(first, moving)


def test_least_squares_reaches_the_noise_of_synthetic_regression() -> None:
    train = make("data/synthetic_regression", examples=20000, features=5, noise=0.3).load(0)["train"].tensors
    x, y = train["x"].double(), train["y"].double()
    residual = y - x @ torch.linalg.lstsq(x, y).solution
    assert abs(float(residual.square().mean()) - 0.09) < 0.004  # 3 standard errors: 3 · 0.09 · sqrt(2 / 14000)


def test_nearest_centre_of_synthetic_classification_is_as_good_as_theory() -> None:
    data = make("data/synthetic_classification", examples=20000, features=2, classes=2, separation=2.0)
    train = data.load(1)["train"].tensors
    centres = torch.stack([train["x"][train["y"] == label].mean(0) for label in (0, 1)])
    right = (torch.cdist(train["x"], centres).argmin(1) == train["y"]).float().mean()
    half = float((centres[0] - centres[1]).norm()) / 2
    assert abs(float(right) - float(torch.distributions.Normal(0, 1).cdf(torch.tensor(half)))) < 0.011


def test_label_noise_redraws_that_share_of_labels() -> None:
    clean = make("data/synthetic_classification", examples=20000, classes=4).load(0)["train"].tensors
    noisy = make("data/synthetic_classification", examples=20000, classes=4, label_noise=0.4).load(0)["train"].tensors
    assert torch.equal(clean["x"], noisy["x"])
    assert abs(float((clean["y"] != noisy["y"]).float().mean()) - 0.3) < 0.012  # 0.4 · 3/4


def test_too_few_examples_for_the_shares_are_told() -> None:
    with pytest.raises(RunError, match=r"2 examples are too few for val: 0\.1 and test: 0\.2"):
        make("data/synthetic_regression", examples=2).load(0)
