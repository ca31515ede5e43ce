"""Magnitude against closed forms, potentials against refits, and what the measures make of a network."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from raycipe.components.measures import _magnitude as space
from raycipe.components.measures.magnitude_potential import Potentials, Space
from raycipe.framework.contracts import Skipped, TensorSplit, Trained
from raycipe.framework.registry import make


def line(*places: float) -> Tensor:
    return torch.tensor(places, dtype=torch.float64)[:, None]


def magnitude(points: Tensor, t: float = 1.0, metric: Any = "euclidean") -> float:
    return space.weighting(space.distances(points, points, metric), t).magnitude


def random_points(n: int, d: int = 3, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_magnitudes_that_are_known() -> None:
    exact = pytest.approx
    assert magnitude(line(0)) == 1
    for d, wanted in ((0.1, 1.04995837495788), (1, 1.46211715726001), (3, 1.90514825364487)):
        assert magnitude(line(0, d)) == exact(wanted, rel=1e-12)
    equidistant = torch.eye(5, dtype=torch.float64) / 2**0.5
    assert magnitude(equidistant) == exact(2.02304837595845, rel=1e-12)
    places = line(0, 0.3, 1, 2.5, 4)
    found = space.weighting(space.distances(places, places), 1.0)
    assert found.magnitude == exact(2.75555848273422, rel=1e-12)
    wanted = [0.57444252, 0.24263029, 0.48576225, 0.63514895, 0.81757448]
    assert found.weights.tolist() == exact(wanted, abs=1e-8) and found.jitter == 0
    angles = torch.arange(12, dtype=torch.float64) * (2 * math.pi / 12)
    assert magnitude(torch.stack([angles.cos(), angles.sin()], dim=1)) == exact(2.86206135298821, rel=1e-12)
    grid = torch.cartesian_prod(torch.arange(4.0), torch.arange(4.0)).double()
    assert magnitude(grid, metric="manhattan") == exact((1 + 3 * math.tanh(0.5)) ** 2, rel=1e-12)
    assert magnitude(random_points(20), 1e3) == exact(20, rel=1e-9)
    assert magnitude(random_points(20), 1e-7) == exact(1, abs=1e-5)


def test_potentials_that_are_known() -> None:
    places = line(0, 2)
    weights = space.weighting(space.distances(places, places), 1.0).weights
    found = space.potential(space.distances(line(1, 0, 3), places), 1.0, weights)
    assert found.tolist() == pytest.approx([1 / math.cosh(1), 1.0, math.exp(-1)], rel=1e-12)


def test_magnitude_keeps_under_rigid_motions_and_scales_with_t() -> None:
    points = random_points(30)
    turn, _ = torch.linalg.qr(random_points(3, 3, seed=1))
    assert magnitude(points @ turn + 5) == pytest.approx(magnitude(points), rel=1e-9)
    assert magnitude(points * 3) == pytest.approx(magnitude(points, 3.0), rel=1e-9)


def test_leaving_a_point_out_is_the_refit_without_it() -> None:
    points = random_points(25)
    between = space.distances(points, points)
    closed = space.left_out(space.weighting(between, 0.7, with_inverse=True))
    for i in range(25):
        others = torch.arange(25) != i
        weights = space.weighting(between[others][:, others], 0.7).weights
        assert float(space.potential(between[i : i + 1, others], 0.7, weights)) == pytest.approx(
            float(closed[i]), abs=1e-10
        )


def test_near_duplicates_and_collapsed_points_are_still_solved() -> None:
    points = random_points(40)
    twice = torch.cat([points, points + 1e-9])
    assert magnitude(twice) == pytest.approx(magnitude(points), rel=1e-6)
    between = space.distances(torch.cat([points, points[:3]]), torch.cat([points, points[:3]]))
    assert space.merged(between).tolist() == [*range(40), 0, 1, 2]
    singular = torch.zeros(3, 3, dtype=torch.float64)  # one point three times, not merged
    assert space.weighting(singular, 1.0, with_inverse=True).magnitude == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("rule", ["median", "mean_nn", "convergence", "fixed"])
def test_scales_do_what_they_say(rule: Any) -> None:
    points = random_points(30)
    between = space.distances(points, points)
    t = space.scale_of(between, rule, 0.8)
    if rule == "convergence":
        assert magnitude(points, t) == pytest.approx(24, rel=1e-6)
    elif rule == "fixed":
        assert t == 0.8
    else:
        assert space.scale_of(2 * between, rule, 0.8) == pytest.approx(t / 2)
    if rule == "mean_nn":
        nearest = [float(between[i][torch.arange(30) != i].min()) for i in range(30)]
        assert t == pytest.approx(0.8 / (sum(nearest) / 30))


def test_class_potentials_are_refits_on_the_class() -> None:
    points, labels = random_points(24), torch.arange(24) % 3
    between = space.distances(points, points)
    found = Space(between, labels, 0.9, 2)
    inside, other = found.among(), found.beside(between, labels)
    for i in (0, 7, 23):
        potentials = {}
        for label in range(3):
            others = ((labels == label) & (torch.arange(24) != i)).nonzero()[:, 0]
            weights = space.weighting(between[others][:, others], 0.9).weights
            potentials[label] = float(space.potential(between[i : i + 1, others], 0.9, weights))
        own = potentials.pop(int(labels[i]))
        assert float(inside.of_class[i]) == pytest.approx(own, rel=1e-9)
        assert float(inside.of_other[i]) == pytest.approx(max(potentials.values()), rel=1e-9)
    assert other.ratio.tolist() == pytest.approx([1.0] * 24, rel=1e-9)  # nobody left out
    order = torch.randperm(24, generator=torch.Generator().manual_seed(0))
    moved = Space(between[order][:, order], labels[order], 0.9, 2).among()
    torch.testing.assert_close(moved.ratio, inside.ratio[order], rtol=1e-9, atol=0)


def test_copies_and_lone_classes() -> None:
    points = torch.cat([random_points(6), random_points(1), random_points(6, seed=3)[:1]])
    points[6] = points[0]
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 0, 2])
    found: Potentials = Space(space.distances(points, points), labels, 1.0, 2).among()
    assert found.of_all[0] == 1 and found.of_class[6] == 1  # the other copy remains
    assert math.isnan(float(found.ratio[7])) and not torch.isnan(found.ratio[:7]).any()


def trained(points: Tensor, labels: Tensor, test: Tensor | None = None, **rest: Any) -> Trained:
    splits = {"train": TensorSplit({"x": points.float(), "y": labels})}
    if test is not None:
        splits["test"] = TensorSplit({"x": test.float(), "y": torch.zeros(len(test), dtype=torch.int64)})
    model = rest.pop("model", nn.Identity())
    return Trained(recipe={}, splits=splits, facts={"num_classes": 3}, model=model.eval(), **rest)


def test_separate_classes_have_ratio_one_and_a_mislabelled_point_none() -> None:
    centers = torch.tensor([[0.0, 0, 0], [20, 0, 0], [0, 20, 0]])
    labels = torch.arange(60) % 3
    points = centers[labels] + random_points(60).float()
    labels = labels.clone()
    labels[0] = 1
    given = trained(points, labels, test=points[3:6])
    found = make("measures/magnitude_potential").measure(given)
    rows = [row for row in found.tables["examples"] if row["split"] == "train"]
    assert rows[0]["ratio"] < 0.05 and rows[0]["margin"] < -0.5
    assert min(row["ratio"] for row in rows[1:]) > 0.9 and found.values["train_ratio"] > 0.95
    tests = [row["ratio"] for row in found.tables["examples"] if row["split"] == "test"]
    assert tests[0] == pytest.approx(1.0, abs=1e-6) and max(tests[1:]) < 0.05  # one stands in class 0, as it says
    assert found.values["test_undefined"] == 0 and found.values["reference"] == 60
    assert "flipped_auc" not in found.values
    split: Any = given.splits["train"]
    split.tensors["clean_y"] = torch.arange(60) % 3
    assert make("measures/magnitude_potential").measure(given).values["flipped_auc"] == 1.0
    fewer = make("measures/magnitude_potential", max_reference=30).measure(given)
    assert fewer.values["reference"] == 30 and len([r for r in fewer.tables["examples"] if r["split"] == "train"]) == 60


def test_magnitude_and_its_function_of_a_layer() -> None:
    given = trained(line(0, 0.3, 1, 2.5, 4, 4).repeat(1, 3), torch.arange(6) % 3, model=nn.Linear(3, 3))
    found = make("measures/magnitude", layer="input", scale="fixed", factor=1 / 3**0.5).measure(given)
    assert found.values["magnitude"] == pytest.approx(2.75555848273422, rel=1e-6)  # inputs are float32
    assert found.values["merged"] == 1 and len(found.tables["weights"]) == 5
    scales = [0.1, 1.0, 10.0, 100.0]
    curve = make("measures/magnitude_function", layer="input", scales=scales).measure(given)
    assert [row["magnitude"] for row in curve.tables["curve"]] == pytest.approx(
        [magnitude(line(0, 0.3, 1, 2.5, 4) * 3**0.5, t) for t in scales], rel=1e-6
    )
    plane = trained(random_points(400, 2), torch.arange(400) % 3)
    dimension = make("measures/magnitude_function", layer="input").measure(plane).values["dimension"]
    assert 0.6 < dimension < 2


def test_what_cannot_be_measured_is_told() -> None:
    points, labels = random_points(12), torch.arange(12) % 3
    potential = make("measures/magnitude_potential")
    with pytest.raises(Skipped, match="at least two classes"):
        potential.measure(trained(points, labels * 0))
    with pytest.raises(Skipped, match="the ratio of 12 of 12 examples of `train` is undefined"):
        make("measures/magnitude_potential", min_class=9).measure(trained(points, labels))
    bad = points.clone()
    bad[2:4] = float("nan")
    with pytest.raises(Skipped, match="`logits` is not finite for 2 of 12 examples of `train`"):
        potential.measure(trained(bad, labels))
    with pytest.raises(Skipped, match="the layer `logits` is the same for all examples"):
        make("measures/magnitude").measure(trained(points * 0, labels))
    with pytest.raises(Skipped, match="needs two points"):
        make("measures/magnitude").measure(trained(points[:1], labels[:1]))
    model = nn.Sequential(nn.Linear(3, 3))
    with pytest.raises(Skipped, match="no layer `1`; near are 0, "):
        make("measures/magnitude", layer="1").measure(trained(points, labels, model=model))
    with pytest.raises(Skipped, match="no linear layer"):
        make("measures/magnitude", layer="penultimate").measure(trained(points, labels))
    with pytest.raises(ValueError, match="factor: with scale convergence"):
        make("measures/magnitude", scale="convergence", factor=2.0)


def test_layers_by_name() -> None:
    from raycipe.components.measures._activations import activations, head_of

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    x = torch.randn(4, 3)
    hidden = model[1](model[0](x))
    for layer, wanted in (
        ("penultimate", hidden),
        ("1", hidden),
        ("0", model[0](x)),
        ("logits", model(x)),
        ("input", x),
    ):
        values, outputs = activations(model, x, layer)
        assert torch.equal(values, wanted) and torch.equal(outputs, model(x))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert head_of(model, x) is model[2] and head_of(nn.Sequential(model[0], nn.ReLU()), x) is None


def test_a_stratified_choice_keeps_the_shares() -> None:
    from raycipe.components.measures._activations import stratified

    labels = torch.tensor([0] * 60 + [1] * 30 + [2] * 10)
    chosen = stratified(labels, 50, torch.Generator().manual_seed(0))
    assert labels[chosen].bincount().tolist() == [30, 15, 5] and len(chosen.unique()) == 50
    assert torch.equal(stratified(labels, 100, torch.Generator()), torch.arange(100))
