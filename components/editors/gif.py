"""Generalized influence functions: an edit of few parameters, solved for without damping."""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from raycipe.components.editors import _evidence as evidence
from raycipe.components.editors._case import BATCH, Case
from raycipe.components.editors._objective import Objective, Terrain, moved
from raycipe.components.editors._request import Change, Operation, RightSide, change_of, right_side
from raycipe.components.editors._strength import Chosen, Search, search_strength, target_of
from raycipe.framework.arguments import Count, InputFile, NonNegative, Positive, Range, default
from raycipe.framework.contracts import Editor, Forget, InverseHVP, Measured, Solved, Subspace, Trained
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register

Rows = Literal["selected", "all", "project"]
NOTHING = 1e-12  # times sqrt(p): a right-hand side below it asks for no edit


@register
class Gif(Editor):
    """Generalized influence functions: the step that retraining would take, restricted to a subspace of the parameters.

    w' = w + s P_S x with H x = v: H is the curvature of the loss on the examples that stay (with the training's weight
    decay), v = (n_F/n_R)(g_F + wd w) the gradient that is missing once the others are gone. Only the selected
    parameters S move; all others keep their bits. The strength s is the smallest that forgets enough.

    Args:
        forget: the examples that are concerned
        subspace: which parameters may move
        ihvp: how H x = v is solved
        rows: selected solves H[S, S] x = v[S], with the other parameters' equations left out; all solves
            H[:, S] x = v by least squares; project solves with all parameters and keeps x[S]
        operation: forget the examples, give them another weight, or give them other labels
        weight: of the examples in the new loss, for reweight (1 leaves everything as it is)
        labels: for relabel, a file of lines `id label`; null takes the data's `clean_y`
        rhs: v as above, which trusts that the training has converged, or minus the gradient of the new loss
        curvature: the Hessian, or the Gauss-Newton matrix, which has no negative eigenvalues
        strength: s, or how it is searched for
        steps: parts in which the way is gone, each with the curvature and v where it begins
        reselect: choose the parameters anew at each of them
        weight_decay: that of the loss; null takes the training's
        examples: how many of the examples the curvature is taken of; null for all
        samples: how many of them the scores of the subspace are taken of
        spectrum: products for an estimate of the restricted curvature's extreme eigenvalues; 0 for none
        dtype: of the products

    Reference:
        H. Lyu, J. Jang, S. Ryu, H. J. Yang, Deeper Understanding of Black-box Predictions via Generalized Influence
        Functions, 2023; P. W. Koh, P. Liang, Understanding Black-box Predictions via Influence Functions, ICML 2017.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [32], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9, weight_decay: 1e-4}
        editor: {type: gif, forget: {type: one_class, label: 3}}
    """

    reports: ClassVar[tuple[str, ...]] = ()  # beside its own, the task's figures

    def __init__(
        self,
        forget: Forget,
        subspace: Subspace = default("topk"),
        ihvp: InverseHVP = default("p_lissa"),
        rows: Rows = "selected",
        operation: Operation = "remove",
        weight: NonNegative = 0.0,
        labels: Annotated[str, InputFile((".txt", ".csv"))] | None = None,
        rhs: RightSide = "influence",
        curvature: Literal["hessian", "ggn"] = "hessian",
        strength: Positive | Search = {"target": 0.0},  # noqa: B006 (never changed)
        steps: Annotated[int, Range(ge=1, le=100)] = 1,
        reselect: bool = False,
        weight_decay: NonNegative | None = None,
        examples: Count | None = None,
        samples: Count = 2000,
        spectrum: Annotated[int, Range(ge=0, le=1000)] = 30,
        dtype: Literal["float32", "float64"] = "float32",
    ) -> None:
        if rows == "project" and steps > 1:
            raise ValueError("rows: project is a baseline of one step")
        self.forget = forget
        self.subspace = subspace
        self.ihvp = ihvp
        self.rows: Rows = rows
        self.operation: Operation = operation
        self.weight = weight
        self.labels = labels
        self.rhs: RightSide = rhs
        self.curvature: Literal["hessian", "ggn"] = curvature
        self.strength = strength
        self.steps = steps
        self.reselect = reselect
        self.weight_decay = weight_decay
        self.examples = examples
        self.samples = samples
        self.spectrum = spectrum
        self.dtype = dtype

    def edit(self, trained: Trained) -> tuple[nn.Module, Measured]:
        began = time.monotonic()
        case = Case.of(trained, self.forget, self.weight_decay)
        change = change_of(case, self.operation, self.weight, None if self.labels is None else read_labels(self.labels))
        search: Search | None = None if isinstance(self.strength, (int, float)) else self.strength
        target = None if search is None else target_of(case, search, change.goal)

        found = self._direction(case, change, case.model, self.rhs, None)
        chosen = self._strength(case, found, search, target)
        edited, last = self._walk(case, change, found, chosen, search)

        seconds = time.monotonic() - began
        return edited, evidence.of(case, found, last, chosen, edited, seconds, self.spectrum)

    def _direction(
        self, case: Case, change: Change, model: nn.Module, rhs: RightSide, index: Tensor | None
    ) -> evidence.Direction:
        """One linearisation: v, the subspace (`index` keeps one), the system, its solution."""
        objective = Objective(
            case, model, change.goal, self.curvature, getattr(torch, self.dtype), self.examples, BATCH
        )
        v = right_side(case, change, objective, rhs)
        terrain = Terrain(case, objective, v, self.samples)
        if float(v.norm()) < NOTHING * len(v) ** 0.5:
            case.notes.append("the request asks for no change: its gradient is zero")
            empty = torch.zeros(0, dtype=torch.int64)
            return evidence.Direction(empty, v, None, None, Solved(torch.zeros(0), reason="zero gradient"), terrain)
        index = self.subspace.select(terrain).to(v.device) if index is None else index
        everything = torch.arange(len(v), device=v.device)
        system = objective.system(everything if self.rows == "project" else index, _rows(self.rows))
        b = system.right_side(v).to(objective.dtype)
        solved = self.ihvp.solve(system, b)
        if solved.reason == "no curvature":
            message = "the selected parameters have no curvature, so nothing can be solved for"
            raise RunError("recipe", message, "another `score`, or a larger `ratio`", "editor.subspace")
        if not bool(torch.isfinite(solved.x).all()):
            raise RunError("nonfinite", f"the solver's solution is not finite ({solved.reason})", where="editor.ihvp")
        x = solved.x[index] if self.rows == "project" else solved.x
        return evidence.Direction(index, v, system, b, solved, terrain, x)

    def _strength(self, case: Case, found: evidence.Direction, search: Search | None, target: float | None) -> Chosen:
        if search is None or target is None:
            assert isinstance(self.strength, (int, float))  # the other case
            return Chosen(float(self.strength), True, float("nan"))
        return search_strength(case, lambda strength: stepped(case.model, found, strength), search, target)

    def _walk(
        self, case: Case, change: Change, first: evidence.Direction, chosen: Chosen, search: Search | None
    ) -> tuple[nn.Module, evidence.Direction]:
        """The edited model: one step, or several with a direction of their own that end where the target is reached."""
        model, found = stepped(case.model, first, chosen.strength / self.steps), first
        for _ in range(1, self.steps):
            if search is not None:
                wanted = chosen.target + search.get("tolerance", 0.01)
                if case.scores(model, case.goes)["accuracy"] <= wanted:
                    break
            found = self._direction(case, change, model, "newton", None if self.reselect else first.index)
            model = stepped(model, found, chosen.strength / self.steps)
        return model, found


def _rows(rows: Rows) -> Literal["selected", "all"]:
    return "all" if rows == "all" else "selected"


def stepped(model: nn.Module, found: evidence.Direction, strength: float) -> nn.Module:
    """A copy of the model, `strength` times the direction further."""
    edited = copy.deepcopy(model)
    moved(edited, found.index, strength * found.step)
    return edited


def read_labels(path: str) -> dict[int, int]:
    """id -> label. Raises RunError naming the line that is no pair of whole numbers."""
    found: dict[int, int] = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) != 2 or not all(word.isdecimal() for word in words):
            hint = "a line holds an id and a label: 17 3"
            raise RunError("data", f"{path}:{number}: `{line.strip()[:40]}` is no id and label", hint, "editor.labels")
        found[int(words[0])] = int(words[1])
    return found
