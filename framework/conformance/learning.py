"""Promises of data, models and tasks."""

from __future__ import annotations

import math

import torch
from safetensors.torch import load, save
from torch import Tensor

from raycipe.framework.conformance.example import Example, cast
from raycipe.framework.contracts import Batch, Saddle, SaddleTask, Split, TensorSplit
from raycipe.framework.registry import build

SPLITS = {"train", "val", "test"}
MAX_SHARED = 0.1  # share of examples that may occur in two splits: real data repeat themselves, texts most of all

# ---------------------------------------------------------------------------------------------- data


def same_seed_gives_the_same_splits(example: Example) -> None:
    """Bit for bit, without touching the global random state."""
    state = torch.get_rng_state()
    first, second = (build(example.recipe["data"], "data", "data") for _ in range(2))
    one, two = first.load(5), second.load(5)
    assert torch.equal(state, torch.get_rng_state()), "load draws from the global random state"
    assert list(one) == list(two) and "train" in one and set(one) <= SPLITS, f"splits are {list(one)} and {list(two)}"
    for name in one:
        a, b = _content(one[name]), _content(two[name])
        assert len(one[name]) == len(two[name]) == len(a["x"]) > 0, f"{name} has no or another number of examples"
        assert all(torch.equal(a[key], b[key]) for key in a), f"{name} differs between two loads with one seed"
    assert first.facts == second.facts, "facts differ between two loads with one seed"


def splits_share_no_example(example: Example) -> None:
    """Up to a small share of examples that are equal by chance."""
    seen: set[bytes] = set()
    for name, split in example.splits.items():
        prints = _fingerprints(_content(split))
        shared = sum(fingerprint in seen for fingerprint in prints)
        assert shared <= MAX_SHARED * len(prints), f"{shared} examples of {name} also occur in another split"
        seen.update(prints)


def facts_are_true(example: Example) -> None:
    """Shapes, classes and vocabulary as announced; floats are float32 and finite, whole numbers int64."""
    facts = example.facts
    for name, split in example.splits.items():
        content = _content(split)
        for key, values in content.items():
            wanted = torch.float32 if values.is_floating_point() else torch.int64
            assert values.dtype == wanted, f"{name}: {key} is {values.dtype}"
            assert bool(torch.isfinite(values).all()), f"{name}: {key} is not finite"
        x, y = content["x"], content["y"]
        assert list(x.shape[1:]) == facts["input_shape"], f"{name}: examples have shape {list(x.shape[1:])}"
        if "num_features" in facts:
            assert facts["num_features"] == math.prod(facts["input_shape"])
        if "num_classes" in facts:
            assert facts["num_outputs"] == facts["num_classes"] == len(facts["class_names"])
            assert int(y.min()) >= 0 and int(y.max()) < facts["num_classes"], f"{name}: labels leave 0 .. num_classes-1"
        elif "vocab_size" in facts:
            assert max(int(x.max()), int(y.max())) < facts["vocab_size"] and x.shape[1] == facts["context_length"]
        else:
            assert y.shape[1:] == (facts["num_outputs"],), f"{name}: targets have shape {tuple(y.shape[1:])}"


def _content(split: Split) -> Batch:
    if isinstance(split, TensorSplit):
        return split.tensors
    from raycipe.framework.training.feed import in_order

    batches = list(in_order(split, 256, torch.device("cpu")))
    return {key: torch.cat([batch[key] for batch in batches]) for key in batches[0] if key != "id"}


def _fingerprints(content: Batch) -> list[bytes]:
    return [row.numpy().tobytes() for row in content["x"].contiguous()]


# ---------------------------------------------------------------------------------------------- models


def builds_on_the_meta_device(example: Example) -> None:
    with torch.device("meta"):
        planned = example.model()
    real = example.model()
    shapes = {name: p.shape for name, p in real.state_dict().items()}
    assert {name: p.shape for name, p in planned.state_dict().items()} == shapes, "meta and real shapes differ"


def same_seed_gives_the_same_weights(example: Example) -> None:
    one, two, other = (list(example.model(seed).parameters()) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True)), "weights differ with one seed"
    assert len(one) == len(other)


def every_parameter_gets_a_gradient(example: Example) -> None:
    """In float32 and in float64: a parameter without one breaks data-parallel training."""
    for dtype in (torch.float32, torch.float64):
        model = example.trained_model().to(dtype)
        batch = cast(example.batch(), dtype)
        loss = example.task().loss(model, batch)
        assert loss.value.dim() == 0 and bool(torch.isfinite(loss.value)), f"the loss is {loss.value}"
        loss.value.backward()  # type: ignore[no-untyped-call]
        without = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
        assert not without, f"no gradient for {', '.join(without)}"


def evaluation_treats_examples_alone(example: Example) -> None:
    """One row per example, which does not depend on the rest of the batch, on a repetition, or on random numbers."""
    model = example.model().double().eval()
    x = cast(example.batch(), torch.float64)["x"]
    state = torch.get_rng_state()
    with torch.no_grad():
        together, again = model(x), model(x)
        alone = torch.cat([model(x[i : i + 1]) for i in range(len(x))])
    assert torch.equal(state, torch.get_rng_state()), "evaluation draws random numbers"
    assert len(together) == len(x) and torch.equal(together, again), "two evaluations of one batch differ"
    torch.testing.assert_close(alone, together, rtol=1e-9, atol=1e-9)


def weights_survive_safetensors(example: Example) -> None:
    model, other = example.model(1), example.model(2)
    tensors = {name: tensor.contiguous().clone() for name, tensor in model.state_dict().items()}
    other.load_state_dict(load(save(tensors)))
    x = example.batch()["x"]
    with torch.no_grad():
        assert torch.equal(model.eval()(x), other.eval()(x)), "a restored model differs"


# ---------------------------------------------------------------------------------------------- tasks


def loss_and_scores_add_up_over_batches(example: Example) -> None:
    """A mean and sums over units: two halves together give the whole, so that workers may share a batch."""
    task, model = example.task(), example.trained_model().double().eval()
    batch = cast(example.batch(), torch.float64)
    cut = len(batch["x"]) // 3
    halves = [{key: v[:cut] for key, v in batch.items()}, {key: v[cut:] for key, v in batch.items()}]
    before = {key: values.clone() for key, values in batch.items()}
    with torch.no_grad():
        whole, parts = task.loss(model, batch), [task.loss(model, half) for half in halves]
        weights = [_weight(part.weight, half) for part, half in zip(parts, halves, strict=True)]
        mean = sum(float(part.value) * w for part, w in zip(parts, weights, strict=True)) / sum(weights)
        assert math.isclose(mean, float(whole.value), rel_tol=1e-6), "the loss is no mean over units"
        scores = task.scores(whole.outputs, batch)
        pieces = [task.scores(part.outputs, half) for part, half in zip(parts, halves, strict=True)]
    for name, value in scores.items():
        assert value.dim() == 0 and not value.requires_grad and value.dtype in (torch.float64, torch.int64), name
        assert math.isclose(sum(float(piece[name]) for piece in pieces), float(value), rel_tol=1e-9), name
    assert all(torch.equal(before[key], batch[key]) for key in before), "the task changes its batch"


def reported_names_are_declared(example: Example) -> None:
    """Fresh metrics at each call, without own synchronization; the final names stand in `reports`."""
    task, model, batch = example.task(), example.trained_model().eval(), example.batch()
    with torch.no_grad():
        loss = task.loss(model, batch)
        metrics, others = task.metrics(), task.metrics()
        assert all(metrics[name] is not others[name] for name in metrics), "metrics are shared between evaluations"
        assert not any(getattr(metric, "sync_on_compute", False) for metric in metrics.values()), "metrics synchronize"
        task.update(metrics, loss.outputs, batch)
        units = _weight(loss.weight, batch)
        means = {name: float(value) / units for name, value in task.scores(loss.outputs, batch).items()}
    final = {**task.finish({"loss": float(loss.value), **means}), **{k: float(m.compute()) for k, m in metrics.items()}}
    assert all(math.isfinite(value) for value in final.values()), f"not finite: {final}"
    reports = getattr(type(task), "reports", ())
    assert not reports or set(final) <= set(reports), (
        f"reports {sorted(set(final) - set(reports))} without declaring it"
    )


def own_data_pass_the_task_check(example: Example) -> None:
    example.task().check(example.facts, example.splits)


def saddle_tasks_value_each_example_alone(example: Example) -> None:
    """(batch,) values that do not depend on the rest of the batch; to project twice is to project once."""
    task, saddle = example.task(), example.trained_model()
    if not isinstance(task, SaddleTask):
        return
    assert isinstance(saddle, Saddle), "`variables` must give a Saddle"
    batch = example.batch()
    together, _ = task.evaluate(saddle, batch)
    alone = [task.evaluate(saddle, {key: v[i : i + 1] for key, v in batch.items()})[0] for i in range(len(batch["id"]))]
    assert together.shape == (len(batch["id"]),), f"`evaluate` gives {tuple(together.shape)}, not a value an example"
    torch.testing.assert_close(torch.cat(alone), together, rtol=1e-6, atol=1e-9)
    w, v = (torch.cat([p.detach().reshape(-1) for _, p in saddle.role(role)]) for role in ("min", "max"))
    far = task.project(saddle, w + 100.0, v + 100.0)
    for once, twice in zip(far, task.project(saddle, *far), strict=True):
        torch.testing.assert_close(twice, once, rtol=1e-9, atol=1e-12)


def _weight(weight: Tensor | None, batch: Batch) -> float:
    return float(len(batch["x"])) if weight is None else float(weight)


DATA = (same_seed_gives_the_same_splits, splits_share_no_example, facts_are_true)
MODELS = (
    builds_on_the_meta_device,
    same_seed_gives_the_same_weights,
    every_parameter_gets_a_gradient,
    evaluation_treats_examples_alone,
    weights_survive_safetensors,
)
TASKS = (
    loss_and_scores_add_up_over_batches,
    reported_names_are_declared,
    own_data_pass_the_task_check,
    saddle_tasks_value_each_example_alone,
)
