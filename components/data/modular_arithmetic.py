"""All sums, differences, products or quotients modulo a number."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from raycipe.framework.arguments import Fraction, Range, Seed
from raycipe.framework.contracts import Data, Split, TensorSplit
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator


@register
class ModularArithmetic(Data):
    """Every pair (a, b) of numbers below p, with y = a op b mod p: the data on which networks grok.

    A random share of all pairs is for training, the others are held out: some as `val`, whose curve shows when a
    network has understood, the rest as `test`. x is (2,) int64, the two numbers; with `tokens` (3,), the sign = (the
    number p) behind them; with `onehot` (2 p,) float, a 1 at a and one at p + b.

    Args:
        p: the modulus; for div a prime
        op: what is done with a and b; div takes b > 0 only and y = a / b, the number with y b = a mod p
        train: share of all pairs to train on
        val: share of the held-out pairs that are `val`
        encoding: how x tells the pair
        split_seed: draws the splits; null takes the recipe's seed, a number keeps them while the seed varies

    Reference:
        A. Power, Y. Burda, H. Edwards, I. Babuschkin, V. Misra, Grokking, 2022.

    Recipe:
        data: {type: modular_arithmetic, p: 11}
        model: {type: modular_mlp, width: 32}
        task: classification
        optimizer: {type: adamw, lr: 1e-2}
    """

    def __init__(
        self,
        p: Annotated[int, Range(ge=3, le=1000)] = 47,
        op: Literal["add", "sub", "mul", "div"] = "add",
        train: Annotated[float, Range(gt=0, lt=1)] = 0.5,
        val: Fraction = 0.5,
        encoding: Literal["pair", "tokens", "onehot"] = "pair",
        split_seed: Seed | None = None,
    ) -> None:
        if op == "div" and any(p % k == 0 for k in range(2, int(p**0.5) + 1)):
            raise ValueError(f"p: division needs a prime, not {p}")
        self.p = p
        self.op = op
        self.train = train
        self.val = val
        self.encoding = encoding
        self.split_seed = split_seed

    def load(self, seed: int) -> dict[str, Split]:
        a, b, y = table(self.p, self.op)
        x = encode(a, b, self.p, self.encoding)
        self.facts = self._facts(x)
        n = len(y)
        order = numpy_generator(seed if self.split_seed is None else self.split_seed, "split").permutation(n)
        num_train = min(n - 2, max(1, round(self.train * n)))
        num_val = min(n - num_train - 1, round(self.val * (n - num_train)))
        parts = np.split(order, [num_train, num_train + num_val])
        rows = {
            name: torch.from_numpy(np.sort(part)) for name, part in zip(("train", "val", "test"), parts, strict=True)
        }
        return {name: TensorSplit({"x": x[there], "y": y[there]}) for name, there in rows.items() if len(there)}

    def _facts(self, x: Tensor) -> dict[str, Any]:
        return {
            "input_shape": list(x.shape[1:]),
            "num_features": x.shape[1],
            "num_outputs": self.p,
            "num_classes": self.p,
            "class_names": [str(number) for number in range(self.p)],
            "vocab_size": self.p + (self.encoding == "tokens"),
            "context_length": 3 if self.encoding == "tokens" else 2,
        }


def table(p: int, op: str) -> tuple[Tensor, Tensor, Tensor]:
    """All a and b, and a op b mod p, (n,) int64 each."""
    a, b = torch.cartesian_prod(torch.arange(p), torch.arange(p)).T
    if op == "div":
        a, b = a[b > 0], b[b > 0]
        inverse = torch.tensor([pow(int(number), -1, p) for number in b])
        return a, b, a * inverse % p
    return a, b, {"add": a + b, "sub": a - b, "mul": a * b}[op] % p


def encode(a: Tensor, b: Tensor, p: int, encoding: str) -> Tensor:
    if encoding == "onehot":
        return torch.cat([F.one_hot(a, p), F.one_hot(b, p)], dim=1).float()
    columns = [a, b] if encoding == "pair" else [a, b, torch.full_like(a, p)]
    return torch.stack(columns, dim=1)
