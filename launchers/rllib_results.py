"""The end of an agent's training: its measures, the curve of returns, a picture of an episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raycipe.framework.contracts import Trained
from raycipe.framework.measuring import run_measures

if TYPE_CHECKING:
    from raycipe.launchers.rllib_session import Session


def finish(session: Session) -> None:
    """Add to the summary what measures find."""
    policy = session.agent.policy(session.algorithm)
    trained = Trained(
        recipe=session.recipe, facts=session.facts, model=policy.module, agent=policy, env=session.env, seed=session.seed
    )
    findings = run_measures(trained, session.recipe, session.run_dir, print)
    session.summary.skipped += findings.skipped
    session.summary.artifacts += findings.artifacts
    session.summary.final.update(findings.values)
    if findings.values:
        session.row(findings.values)
