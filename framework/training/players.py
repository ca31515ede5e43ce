"""A minimax problem as the training loop holds it: the players' flat points over the module's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from raycipe.framework.contracts import Batch, Point, Problem, Saddle, SaddleTask
from raycipe.framework.contracts.saddle import Draw, Role
from raycipe.framework.streams import key
from raycipe.framework.training.feed import Step, read_ids

if TYPE_CHECKING:
    from raycipe.framework.training.session import Session


class _Evaluator(nn.Module):
    """f of a batch as a module's forward pass: what `functional_call` can evaluate at other parameters."""

    def __init__(self, task: SaddleTask, saddle: Saddle) -> None:
        super().__init__()
        self.task, self.saddle = task, saddle

    def forward(self, batch: Batch) -> Tensor:
        return self.task.evaluate(self.saddle, batch)[0]


class FlatPlayers:
    """f as a function of flat w and v, and the way from a module's parameters to them and back."""

    def __init__(self, task: SaddleTask, saddle: Saddle) -> None:
        self.task, self.saddle = task, saddle
        self.evaluator = _Evaluator(task, saddle)
        self.named = {role: list(saddle.role(role)) for role in ("min", "max")}
        self.parameters = {role: [parameter for _, parameter in named] for role, named in self.named.items()}
        self.sizes = {role: [parameter.numel() for parameter in own] for role, own in self.parameters.items()}

    def dimension(self, role: Role) -> int:
        return sum(self.sizes[role])

    def read(self) -> Point:
        w, v = (torch.cat([p.detach().reshape(-1) for p in self.parameters[role]]) for role in ("min", "max"))
        return w, v

    @torch.no_grad()
    def write(self, w: Tensor, v: Tensor) -> None:
        for role, flat in (("min", w), ("max", v)):
            own: list[Tensor] = list(self.parameters[role])
            parts = torch.split(flat, self.sizes[role])
            torch._foreach_copy_(own, [part.view_as(p) for part, p in zip(parts, own, strict=True)])

    def named_parts(self, w: Tensor, v: Tensor) -> dict[str, Tensor]:
        parts: dict[str, Tensor] = {}
        for role, flat in (("min", w), ("max", v)):
            pieces = zip(self.named[role], torch.split(flat, self.sizes[role]), strict=True)
            parts.update({f"saddle.{name}": piece.view(p.shape) for (name, p), piece in pieces})
        return parts

    def value(self, w: Tensor, v: Tensor, batch: Batch, constants: Mapping[str, Tensor] = {}) -> Tensor:
        """f of each example, (batch,), at flat w and v; `constants` replace those of the module."""
        parts = self.named_parts(w, v)
        parts.update({f"saddle.{name}": values for name, values in constants.items()})
        values: Tensor = torch.func.functional_call(self.evaluator, parts, (batch,))
        return values

    def values(self, w: Tensor, v: Tensor, batch: Batch) -> Tensor:
        """(K, batch) for w (K or 1, d_w) and v (K or 1, d_v)."""
        if len(w) == len(v) == 1:
            return self.value(w[0], v[0], batch).unsqueeze(0)
        dims = tuple(0 if len(flat) > 1 else None for flat in (w, v))
        points = [flat if len(flat) > 1 else flat[0] for flat in (w, v)]
        values: Tensor = torch.vmap(self.value, in_dims=(*dims, None), randomness="same")(points[0], points[1], batch)
        return values

    def sample_gradients(self, w: Tensor, v: Tensor, batch: Batch, constants: Mapping[str, Tensor] = {}) -> Point:
        """(batch, d_w) and (batch, d_v) at flat w and v."""

        def one(w: Tensor, v: Tensor, example: Mapping[str, Tensor]) -> Tensor:
            return self.value(w, v, {name: values.unsqueeze(0) for name, values in example.items()}, constants)[0]

        if not len(batch["id"]):
            return w.new_zeros(0, len(w)), v.new_zeros(0, len(v))
        gradient = torch.func.grad(one, argnums=(0, 1))
        found: Point = torch.vmap(gradient, in_dims=(None, None, 0), randomness="same")(w, v, batch)
        return found


class Players(Problem):
    """The problem of a running session. The loop has computed the gradient of the current batch at the current point;
    at another one it is computed again, by the same micro-batches."""

    def __init__(self, session: Session) -> None:
        assert isinstance(session.task, SaddleTask) and isinstance(session.model, Saddle)
        self.session, self.task, self.saddle = session, session.task, session.model
        self.flat = FlatPlayers(self.task, self.saddle)
        self.comm = session.optimizer_comm
        self.total_steps = session.length.total_steps
        self.num_examples = len(session.splits["train"])
        self.evaluations = 0
        self._point: Point | None = None
        self._moved_in: Step | None = None  # the batch for which the loop's gradient no longer holds
        self._calls = (-1, 0)  # of `random` in a step
        self._warned: set[str] = set()

    @property
    def step(self) -> int:  # type: ignore[override]
        return self.session.step

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.session.current.size

    def point(self) -> Point:
        self._point = self.flat.read()
        return self._point

    def move(self, w: Tensor, v: Tensor) -> None:
        self.flat.write(w, v)
        self._point, self._moved_in = (w, v), self.session.current

    def project(self, w: Tensor, v: Tensor) -> Point:
        return self.task.project(self.saddle, w, v)

    def gradients(self, w: Tensor, v: Tensor) -> Point:
        session, exchange = self.session, self.session.exchange
        self.evaluations += 1
        here = self._point is not None and w is self._point[0] and v is self._point[1]
        if not here:
            self.move(w, v)
        if self._moved_in is session.current:
            with torch.enable_grad():
                session.gradients.again(session.current)
        flat: Tensor = exchange.gradient  # type: ignore[attr-defined]  # of the exchange for optimizers that own it
        if self.comm.world_size == 1 or session.optimizer.whole_batch:
            flat = flat.clone()  # the loop's buffer is used again
        else:
            (flat,) = self.add_up(flat * (session.current.own / session.current.size))
        cut = self.flat.dimension("min")
        return flat[:cut], flat[cut:]

    def sample_gradients(self, w: Tensor, v: Tensor) -> Point:
        self.evaluations += 1
        parts = [self.flat.sample_gradients(w, v, batch) for batch in self.session.current.batches]
        if not parts:
            return w.new_zeros(0, len(w)), v.new_zeros(0, len(v))
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])

    @torch.no_grad()
    def values(self, w: Tensor, v: Tensor) -> Tensor:
        self.evaluations += max(len(w), len(v))
        batches = self.session.current.batches
        parts = [self.flat.values(w, v, batch) for batch in batches]
        if len(parts) == 1:
            return parts[0]
        return torch.cat(parts, dim=1) if parts else w.new_zeros(max(len(w), len(v)), 0)

    def draw(self) -> None:
        self.session.current = self._moved_in = self.session.feed.next()
        self.session.examples += self.session.current.size

    def random(self, name: str, draw: Draw) -> Tensor:
        step, calls = self._calls
        self._calls = (self.step, calls + 1 if step == self.step else 0)
        generator = torch.Generator(device=self.session.device)
        return draw(generator.manual_seed(key(self.session.seed, name, *self._calls)))

    def add_up(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        if self.comm.world_size == 1:
            return tensors
        whole = self.comm.all_reduce(torch.cat([tensor.reshape(-1) for tensor in tensors]))
        parts = torch.split(whole, [tensor.numel() for tensor in tensors])
        return tuple(part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True))

    def probe(self, count: int) -> Point:
        split = self.session.splits["train"]
        batch = read_ids(split, torch.arange(min(count, len(split))), self.session.device)
        return self.flat.sample_gradients(*self.flat.read(), batch)

    @property
    def noisy_layers(self) -> list[str]:
        return noisy_layers(self.saddle)

    def warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self.session.warn(text)


def noisy_layers(module: nn.Module) -> list[str]:
    """Names of the layers that drop units at random in training."""
    dropouts = nn.modules.dropout._DropoutNd
    return [name for name, child in module.named_modules() if isinstance(child, dropouts) and child.p > 0]
