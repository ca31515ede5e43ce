"""Compressors against the obvious ways to write them: `python benchmarks/compressors.py`.

CPU time of one thread on 10 million float32 entries, least of several runs that alternate: look at the ratios.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from raycipe.components.compressors._bits import pack, pack_flags, packed_bytes
from raycipe.components.compressors._random import below
from raycipe.components.compressors._select import largest
from raycipe.framework.contracts import Draw
from raycipe.framework.registry import build

NUMEL = 10_000_000
CODECS = {
    "identity, bf16": {"type": "identity", "dtype": "bf16"},
    "topk 1 %": {"type": "topk"},
    "topk 1 %, whole fragment": {"type": "topk", "scope": "global"},
    "randk 1 %": {"type": "randk"},
    "qsgd, 4 bits": {"type": "qsgd"},
    "signnorm": {"type": "signnorm"},
    "powersgd, rank 4": {"type": "powersgd"},
}
Work = Callable[[], object]


def best(works: dict[str, Work], rounds: int) -> dict[str, float]:
    """Least CPU milliseconds of each, measured in turns."""
    least = dict.fromkeys(works, float("inf"))
    for work in works.values():
        work()
    for _ in range(rounds):
        for name, work in works.items():
            started = time.process_time()
            work()
            least[name] = min(least[name], 1e3 * (time.process_time() - started))
    return least


def kernels(vector: Tensor, rounds: int) -> list[tuple[str, str, float, float, str]]:
    """(what, naive form, its ms, ours ms, bound on the ratio)."""
    numel, k = vector.numel(), vector.numel() // 100
    rows = vector[: numel // 4096 * 4096].view(-1, 4096)
    codes = torch.randint(0, 15, (numel,), dtype=torch.uint8)
    whole, half = (
        torch.empty(packed_bytes(numel, 1), dtype=torch.uint8),
        torch.empty(packed_bytes(numel, 4), dtype=torch.uint8),
    )
    powers = 2 ** torch.arange(8, dtype=torch.uint8)
    flags = vector >= 0
    pairs: list[tuple[str, str, Work, Work, str]] = [
        (
            "top 1 %, whole fragment",
            "torch.topk",
            lambda: torch.topk(vector.abs(), k),
            lambda: largest(vector.view(1, -1), k),
            "0.5",
        ),
        ("top 1 %, chunks of 4096", "torch.topk", lambda: torch.topk(rows.abs(), 41), lambda: largest(rows, 41), "-"),
        (
            "1 % at random",
            "torch.randperm",
            lambda: torch.randperm(numel)[:k],
            lambda: below(1, 100, k, vector.device),
            "0.002",
        ),
        (
            "signs to bits",
            "multiply and sum",
            lambda: (flags.view(-1, 8) * powers).sum(1, dtype=torch.uint8),
            lambda: pack_flags(flags, whole),
            "0.18",
        ),
        (
            "4-bit codes to bytes",
            "strided",
            lambda: codes[::2] | (codes[1::2] << 4),
            lambda: pack(codes, 4, half),
            "-",
        ),
    ]
    found = []
    for what, naive_name, naive, ours, bound in pairs:
        least = best({"naive": naive, "ours": ours}, rounds)
        found.append((what, naive_name, least["naive"], least["ours"], bound))
    return [*found, _rounding(vector, rounds)]


def _rounding(vector: Tensor, rounds: int) -> tuple[str, str, float, float, str]:
    """QSGD with fresh uniform numbers against the component, encoding and residual in both."""
    blocks = vector[: vector.numel() // 512 * 512].view(-1, 512)
    compressor = build({"type": "qsgd", "scaled": False}, "compressors")
    plan = compressor.plan(blocks.numel())
    tensor, body = blocks.reshape(-1).clone(), torch.empty(plan.body_bytes, dtype=torch.uint8)

    def naive() -> Tensor:
        norm = blocks.norm(dim=1, keepdim=True)
        level = blocks.abs() / norm * 7
        low = level.floor()
        xi = low + (torch.rand_like(level) < level - low)
        codes = (torch.sign(blocks) * xi + 7).to(torch.uint8)
        half = codes[:, ::2] | (codes[:, 1::2] << 4)
        residual = blocks - torch.sign(blocks) * xi * norm / 7
        return half.sum(dtype=torch.int64) + residual[0, 0]

    least = best({"naive": naive, "ours": lambda: compressor.encode_(tensor, plan, Draw(0), {}, body)}, rounds)
    return ("qsgd, 4 bits, with residual", "torch.rand", least["naive"], least["ours"], "0.5")


def codecs(vector: Tensor, rounds: int) -> list[tuple[str, int, float, float]]:
    """(name, payload bytes, ms to compress with residual, ms to decode and add)."""
    rows, found = vector.numel() // 2500, []
    out = torch.zeros_like(vector)
    for name, recipe in CODECS.items():
        compressor = build(recipe, "compressors")
        plan, state = compressor.plan(vector.numel(), [(rows, 2500)]), {}
        tensor = vector.clone()
        payload = compressor.compress_(tensor, plan, Draw(0), state)

        def compress(c=compressor, p=plan, s=state, t=tensor) -> None:
            t.copy_(vector)
            c.compress_(t, p, Draw(0), s)

        works: dict[str, Work] = {
            "compress": compress,
            "add": lambda c=compressor, p=plan, x=payload: c.add_decoded_(x, p, out, 0.5),
            "copy": lambda t=tensor: t.copy_(vector),
        }
        least = best(works, rounds)
        found.append((name, payload.numel(), least["compress"] - least["copy"], least["add"]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numel", type=int, default=NUMEL)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    vector = torch.from_numpy(np.random.default_rng(0).standard_normal(args.numel, dtype=np.float32))
    pass_ms = best({"copy": lambda: vector.clone()}, args.rounds)["copy"]
    print(f"{args.numel:,} float32 entries, one thread, CPU ms; a copy of them takes {pass_ms:.1f}\n")
    print("| kernel | against | theirs | ours | ratio | bound |\n|---|---|---|---|---|---|")
    for what, naive, theirs, ours, bound in kernels(vector, args.rounds):
        print(f"| {what} | {naive} | {theirs:.1f} | {ours:.2f} | {ours / theirs:.4f} | {bound} |")
    print("\n| compressor | bytes | of fp32 | compress, residual | decode, add |\n|---|---|---|---|---|")
    for name, size, compress, add in codecs(vector, args.rounds):
        print(f"| {name} | {size:,} | 1/{4 * args.numel / size:.1f} | {compress:.1f} | {add:.1f} |")


if __name__ == "__main__":
    main()
