"""Promises of compressors."""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

import torch
from torch import Tensor

from raycipe.framework.conformance.example import Example
from raycipe.framework.contracts import HEADER_BYTES, Compressor, Draw

SIZES = (1, 7, 300, 4095, 4097, 9000)
DRAWS = 200  # whose mean is looked at
DTYPES = (torch.float32, torch.float64)


def _vector(numel: int, dtype: torch.dtype, kind: str = "normal") -> Tensor:
    if kind == "zeros":
        return torch.zeros(numel, dtype=dtype)
    if kind == "ones":
        return torch.ones(numel, dtype=dtype)
    values = torch.randn(numel, generator=torch.Generator().manual_seed(numel), dtype=torch.float64)
    return (values * 1e-3 if kind == "small" else values**3).to(dtype)


def _shapes(numel: int) -> list[tuple[int, ...]]:
    """A matrix and a vector of together `numel` entries."""
    rows = int(math.sqrt(numel / 2))
    rest = numel - rows * rows
    return [shape for shape in ((rows, rows), (rest,)) if math.prod(shape)]


def _sent(compressor: Compressor, vector: Tensor, draw: Draw, state: Any = None) -> tuple[Tensor, Tensor]:
    """(payload, residual)."""
    residual = vector.clone()
    with warnings.catch_warnings(action="ignore"):
        plan = compressor.plan(vector.numel(), _shapes(vector.numel()))
    return compressor.compress_(residual, plan, draw, state), residual


def _read(compressor: Compressor, payload: Tensor, like: Tensor, weight: float = 1.0) -> Tensor:
    with warnings.catch_warnings(action="ignore"):
        plan = compressor.plan(like.numel(), _shapes(like.numel()))
    out = torch.zeros_like(like)
    compressor.add_decoded_(payload, plan, out, weight)
    return out


def what_is_decoded_and_what_is_left_make_the_whole(example: Example) -> None:
    """C(p) + residual = p, of what a receiver really decodes, for awkward sizes, zeros, ones and steep values."""
    compressor = example.make()
    for numel in SIZES:
        for dtype in DTYPES:
            for kind in ("normal", "zeros", "ones", "small"):
                vector = _vector(numel, dtype, kind)
                payload, residual = _sent(compressor, vector, Draw(1, 0, 2, 0))
                error = (_read(compressor, payload, vector) + residual - vector).abs().max()
                bound = 8 * torch.finfo(dtype).eps * float(vector.abs().max() + residual.abs().max())
                assert float(error) <= bound, f"{numel} {kind} {dtype}: C(p) + residual misses p by {float(error)}"


def payload_has_the_planned_size(example: Example) -> None:
    """One contiguous uint8 tensor of exactly the plan's bytes, whatever the values; or nothing, on all workers."""
    compressor = example.make()
    for numel in SIZES:
        for step in range(5):
            payload, _ = _sent(compressor, _vector(numel, torch.float32), Draw(1, 3, step, 1))
            other, _ = _sent(compressor, _vector(numel, torch.float32, "zeros"), Draw(1, 8, step, 1))
            with warnings.catch_warnings(action="ignore"):
                plan = compressor.plan(numel, _shapes(numel))
            wanted = plan.payload_bytes if compressor.sends(Draw(1, 3, step, 1)) else 0
            assert payload.dtype == torch.uint8 and payload.is_contiguous() and payload.dim() == 1
            assert payload.numel() == other.numel() == wanted, f"{payload.numel()} and {other.numel()}, not {wanted}"
            assert 0 < compressor.expected_bytes(plan) <= plan.payload_bytes and plan.payload_bytes > HEADER_BYTES


def same_draw_gives_the_same_bits(example: Example) -> None:
    """Without touching the global random state, and whatever else the compressor did."""
    compressor, vector = example.make(), _vector(4097, torch.float32)
    state = torch.get_rng_state()
    first, left = _sent(compressor, vector, Draw(5, 1, 7, 2))
    _sent(compressor, vector, Draw(5, 1, 8, 2))
    second, other = _sent(copy.deepcopy(compressor), vector, Draw(5, 1, 7, 2))
    assert torch.equal(state, torch.get_rng_state()), "draws from the global random state"
    assert torch.equal(first, second) and torch.equal(left, other), "two compressions with one draw differ"


def contraction_holds(example: Example) -> None:
    """The mean of |C(v) - v|² / |v|² is at most 1 - alpha (biased) or omega (unbiased), within three errors."""
    compressor = example.make()
    for kind in ("normal", "ones"):
        vector = _vector(300, torch.float64, kind)
        with warnings.catch_warnings(action="ignore"):
            plan = compressor.plan(300, _shapes(300))
        alpha, omega = compressor.alpha(plan), compressor.omega(plan)
        errors = []
        for step in range(DRAWS):
            _, residual = _sent(compressor, vector, Draw(9, 0, step, 0))
            errors.append(float(residual.square().sum() / vector.square().sum()))
        mean = sum(errors) / DRAWS
        spread = math.sqrt(sum((error - mean) ** 2 for error in errors) / DRAWS / (DRAWS - 1))
        bound = omega if omega is not None else None if alpha is None else 1 - alpha
        assert bound is None or mean <= bound + 3 * spread + 1e-5, f"{kind}: {mean} > {bound}"


def decoding_adds_a_weighted_part(example: Example) -> None:
    compressor, vector = example.make(), _vector(4097, torch.float64)
    payload, _ = _sent(compressor, vector, Draw(2, 0, 0, 0))
    whole, part = _read(compressor, payload, vector), _read(compressor, payload, vector, 0.25)
    torch.testing.assert_close(part, whole / 4, rtol=1e-12, atol=1e-15)


def sums_equal_gathered_payloads(example: Example) -> None:
    """A reducible compressor gives one mean and one residual whether payloads or sums travel."""
    compressor = example.make()
    if not compressor.reducible or compressor.passes > 1:
        return
    vectors = [_vector(4097, torch.float64), _vector(4097, torch.float64, "ones")]
    draws = [Draw(4, rank, 0, 0) for rank in range(2)]
    with warnings.catch_warnings(action="ignore"):
        plan = compressor.plan(4097, _shapes(4097))
    summed = [vector.clone() for vector in vectors]
    parts = [compressor.summand(p, plan, draw, {}, 0) for p, draw in zip(summed, draws, strict=True)]
    mean = (parts[0].double() + parts[1].double()) / 2
    for rank, draw in enumerate(draws):
        out = torch.zeros(4097, dtype=torch.float64)
        compressor.absorb_(mean, summed[rank], plan, draw, {}, out, 0)
        gathered = [_sent(compressor, vector, draw) for vector, draw in zip(vectors, draws, strict=True)]
        wanted = sum(_read(compressor, payload, vectors[0], 0.5) for payload, _ in gathered)
        torch.testing.assert_close(out, wanted, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(summed[rank], gathered[rank][1], rtol=1e-12, atol=1e-12)


def rows_are_compressed_as_each_alone(example: Example) -> None:
    """`of_rows` gives what every row's payload decodes to, under one draw; nothing where a draw sends nothing."""
    compressor = example.make()
    if compressor.passes > 1:  # keeps a state
        return
    for numel in (7, 300, 4097):
        with warnings.catch_warnings(action="ignore"):
            plan = compressor.plan(numel, _shapes(numel))
        rows = torch.stack([_vector(numel, torch.float32, kind) for kind in ("normal", "small", "zeros")])
        for step in range(4):
            draw = Draw(1, 0, step, 0)
            found = compressor.of_rows(rows, plan, draw)
            wanted = Compressor.of_rows(compressor, rows, plan, draw)
            assert torch.equal(found, wanted), f"{numel} entries, draw {step}: rows differ from payloads"


COMPRESSORS = (
    what_is_decoded_and_what_is_left_make_the_whole,
    payload_has_the_planned_size,
    same_draw_gives_the_same_bits,
    contraction_holds,
    decoding_adds_a_weighted_part,
    sums_equal_gathered_payloads,
    rows_are_compressed_as_each_alone,
)


# ---------------------------------------------------------------------------------------------- links


def more_takes_longer(example: Example) -> None:
    """Seconds are finite, never negative, and grow with the bytes, the messages and the chance."""
    link = example.make()
    sizes, hops = (0, 1, 10**3, 10**9), (1, 2, 14)
    for chance in (0.0, 0.5):
        for count in hops:
            times = [link.seconds(size, count, chance) for size in sizes]
            assert all(math.isfinite(time) and time >= 0 for time in times), times
            assert times == sorted(times), f"more bytes take less time: {times}"
        by_hops = [link.seconds(10**6, count, chance) for count in hops]
        assert by_hops == sorted(by_hops), f"more messages take less time: {by_hops}"
        assert link.seconds(10**6, 2, chance) >= link.seconds(10**6, 2), "a chance shortens the way"


LINKS = (more_takes_longer,)
