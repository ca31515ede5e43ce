"""The end of an agent's training: its measures, the curve of returns, a picture of an episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raycipe.framework.contracts import Trained
from raycipe.framework.files import read_rows, write_atomic
from raycipe.framework.measuring import run_measures
from raycipe.framework.results.curves import COLORS, Series, series, smoothed, to_svg
from raycipe.launchers.rllib_video import record

if TYPE_CHECKING:
    from raycipe.launchers.rllib_session import Session


def finish(session: Session) -> None:
    """Add to the summary what measures find, and pictures."""
    policy = session.agent.policy(session.algorithm)
    trained = Trained(
        recipe=session.recipe,
        facts=session.facts,
        model=policy.module,
        agent=policy,
        env=session.env,
        seed=session.seed,
    )
    findings = run_measures(trained, session.recipe, session.run_dir, print)
    session.summary.skipped += findings.skipped
    session.summary.artifacts += findings.artifacts
    session.summary.final.update(findings.values)
    if findings.values:
        session.row(findings.values)
    session.summary.artifacts += [_curve(session), *_episode(session, policy)]


def _curve(session: Session) -> dict[str, str]:
    found = series(read_rows(session.run_dir / "metrics.jsonl"))
    picture = '<?xml version="1.0" encoding="utf-8"?>\n' + to_svg(draw_returns(found, len(session.episodes)))
    folder = session.run_dir / "artifacts"
    folder.mkdir(exist_ok=True)
    write_atomic(folder / "returns.svg", picture)
    return {"path": "artifacts/returns.svg", "kind": "plot", "title": "return over environment steps"}


def draw_returns(found: Mapping[str, Series], episodes: int) -> Any:
    """The curve of returns: training as a line, evaluation with the 95 % band of its mean."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    axes = figure.subplots()
    if training := found.get("rl/episode_return"):
        steps, values = _columns(training)
        axes.plot(steps, smoothed(values), color="0.55", linewidth=1.2, label="training, last 100 episodes")
    if evaluated := found.get("rl/eval_return"):
        steps, values = _columns(evaluated)
        low, high = (_columns(found[f"rl/eval_return_{end}"])[1] for end in ("low", "high"))
        axes.fill_between(steps, low, high, color=COLORS[0], alpha=0.2, linewidth=0)
        label = f"evaluation, mean of {episodes} episodes with 95 % band"
        axes.plot(steps, values, color=COLORS[0], linewidth=1.6, marker="o", markersize=3, label=label)
    axes.set(xlabel="environment steps", ylabel="return")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _columns(points: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [step for step, _ in points], [value for _, value in points]


def _episode(session: Session, policy: Any) -> list[dict[str, str]]:
    """The evaluation's first episode as a moving picture, or a line that tells why there is none."""
    first = session.episodes[0]
    made = record(policy, session.recipe["env"], session.roots, first.seed, first.length)
    if isinstance(made, str):
        session.warn(f"no picture of an episode: {made}")
        return []
    write_atomic(session.run_dir / "artifacts" / "episode.gif", made)
    title = f"the evaluation episode with seed {first.seed}: return {first.episode_return:.1f}"
    return [{"path": "artifacts/episode.gif", "kind": "video", "title": title}]
