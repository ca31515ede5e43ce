"""The end of an agent's training: its measures, the curve of returns, a picture of an episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raycipe.framework.contracts import Trained
from raycipe.framework.files import read_rows, write_atomic
from raycipe.framework.measuring import run_measures
from raycipe.framework.results.curves import draw_returns, series, to_svg
from raycipe.framework.results.report import RETURNS
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
    picture = '<?xml version="1.0" encoding="utf-8"?>\n' + to_svg(
        draw_returns(found, f" of {len(session.episodes)} episodes")
    )
    (session.run_dir / RETURNS).parent.mkdir(exist_ok=True)
    write_atomic(session.run_dir / RETURNS, picture)
    return {"path": RETURNS, "kind": "plot", "title": "return over environment steps"}


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
