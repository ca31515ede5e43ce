"""The plane of false positives and false negatives as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from raycipe.components.z_sets import _geometry as geometry


def draw(
    pieces: Sequence[np.ndarray] = (),
    found: geometry.Boostability | None = None,
    queries: np.ndarray | None = None,
    points: dict[str, tuple[float, float]] | None = None,
) -> Any:
    """The set, the curve sqrt(FP) + sqrt(FN) = 1, the segment S_p* or the fooling coin, pairs seen, named points.

    `queries` (n, 3) are FP, FN and label mass.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 5.0), layout="constrained")
    axes = figure.subplots()
    for piece in pieces:
        if len(piece) > 2:
            axes.fill(*piece.T, color="#4c78a8", alpha=0.3, linewidth=0)
        axes.plot(*np.vstack([piece, piece[:1]]).T, "o-" if len(piece) < 3 else "-", color="#4c78a8", markersize=4)
    t = np.linspace(0, 1, 200)
    axes.plot(t**2, (1 - t) ** 2, color="black", linewidth=1, label="sqrt(FP) + sqrt(FN) = 1")
    if found is not None and found.is_boostable:
        p = found.p_star
        label = f"coin at label mass {p:.3g}; gamma {found.gamma:.3g}"
        axes.plot([1 - p, 0], [0, p], "--", color="#e45756", label=label)
    if found is not None and found.coin:
        coin = np.array(found.coin)
        axes.plot(coin[:, 1], coin[:, 2], ".", color="#e45756", label="coins that keep the promise")
    if queries is not None and len(queries):
        seen = axes.scatter(queries[:, 0], queries[:, 1], c=queries[:, 2], s=14, cmap="viridis", vmin=0, vmax=1)
        figure.colorbar(seen, label="label mass asked at")
    for name, (fp, fn) in (points or {}).items():
        axes.plot([fp], [fn], "*", markersize=12, label=name)
    axes.set(xlabel="false positives (mass)", ylabel="false negatives (mass)", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    axes.legend(loc="upper right", fontsize=8)
    return figure
