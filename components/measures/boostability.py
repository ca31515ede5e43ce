"""Whether a promise can be boosted."""

from __future__ import annotations

from typing import ClassVar

from raycipe.components.z_sets import _geometry as geometry
from raycipe.components.z_sets import _plane as plane
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained, ZSet
from raycipe.framework.registry import register


@register
class Boostability(Measure):
    """The exact test whether weak learners that promise (FP, FN) in a set Z can be boosted, with its certificate.

    gamma = sup over label masses p of the least |z1 / (1 - p) + z2 / p - 1| over Z. gamma > 0: it can, at p_star.
    gamma = 0: for every p there is a point of Z that a coin reaches which knows p alone; the table lists these coins.
    It needs no data.

    Args:
        z: the set

    Reference:
        M. Bressan et al., Of Dice and Games: A Theory of Generalized Boosting, COLT 2025.

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, rounds: 20}
        measures: [{type: boostability, z: {type: box, fp: 0.1, fn: 0.3}}]
    """

    needs: ClassVar[tuple[str, ...]] = ()
    reports: ClassVar[tuple[str, ...]] = ("boostable", "boundary", "gamma", "p_star", "allowed_mass", "infeasible_mass")

    def __init__(self, z: ZSet) -> None:
        self.z = z

    def measure(self, trained: Trained) -> Measured:
        pieces = self.z.pieces()
        try:
            found = geometry.boostability(pieces)
        except ValueError as error:
            raise Skipped(f"z {error}") from error
        values = {
            "boostable": float(found.is_boostable),
            "boundary": float(found.is_boundary),
            "gamma": found.gamma,
            "p_star": found.p_star,
            "allowed_mass": float(sum(b - a for a, b in found.allowed)),
            "infeasible_mass": float(sum(b - a for a, b in found.infeasible)),
        }
        rows = [{"p": p, "fp": fp, "fn": fn} for p, fp, fn in found.coin]
        return Measured(
            values=values,
            text={"verdict": verdict(found)},
            tables={"coins": rows} if rows else {},
            figures={"plane": lambda: plane.draw(pieces, found)},
        )


def verdict(found: geometry.Boostability) -> str:
    """The verdict in sentences."""
    lines = [f"The promise is {found.verdict}."]
    if found.is_boostable:
        lines.append(
            f"Ask at label mass {found.p_star:.6g}: every hypothesis has |tpr - fpr| >= {found.gamma:.6g} there."
        )
        lines.append(f"Training labels are separated after at most 2 ln(m+ m-) / {found.gamma**2:.6g} rounds.")
    else:
        lines.append("At every label mass a coin that knows nothing else keeps it.")
    lines.append(f"Label masses at which no coin keeps it: {words(found.allowed)}.")
    if found.infeasible:
        lines.append(f"Nobody can keep it for label mass in {words(found.infeasible)}.")
    killed = [f"piece {k}: {words(each)}" for k, each in enumerate(found.killed_by)]
    lines.append(f"A coin keeps it on {'; '.join(killed)}.")
    return "\n".join(lines) + "\n"


def words(intervals: list[tuple[float, float]]) -> str:
    return ", ".join(f"({a:.6g}, {b:.6g})" for a, b in intervals) or "none"
