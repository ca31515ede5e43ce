"""What goes wrong in the training of an agent, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from raycipe.framework.environments import reported_failure
from raycipe.framework.errors import RunError
from raycipe.launchers.rllib_metrics import MODULE

if TYPE_CHECKING:
    from raycipe.launchers.rllib_session import Session

STALLED = 5  # iterations without a step
NAN_SIGNS = ("invalid values", "nan", "constraint")  # of torch's distributions
ADVICE = "try a smaller agent.lr, or an agent.grad_clip; observations of large scale want agent.normalize_observations"


class Health:
    """Looks after each iteration whether env runners failed, came back, or are gone for good."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.restarts = self.stalled = 0

    def check(self, result: Mapping[str, Any]) -> None:
        """Raise RunError if an environment failed, or if no env runner is left."""
        failure = reported_failure(str(self.session.run_dir))
        if failure is not None:
            raise failure
        loss = ((result.get("learners") or {}).get(MODULE) or {}).get("total_loss")
        if loss is not None and math.isinf(float(loss)):
            raise nonfinite("the loss became infinite", self.session.step)
        restarts = int((result.get("fault_tolerance") or {}).get("num_remote_worker_restarts") or 0)
        if restarts > self.restarts:
            self.session.warn(f"an env runner died and was started again ({restarts} so far)")
            self.restarts = restarts
        sampled = (result.get("env_runners") or {}).get("num_env_steps_sampled_lifetime")
        moved = sampled is not None and int(sampled) > self.session.step
        self.stalled = 0 if moved else self.stalled + 1
        healthy = int((result.get("fault_tolerance") or {}).get("num_healthy_workers") or 0)
        wanted = int((self.session.recipe.get("resources") or {}).get("num_env_runners") or 0)
        if self.stalled >= STALLED and wanted and not healthy:
            hint = "an env runner is ended from outside when memory runs out: see log.txt; resources.max_failures"
            raise RunError("worker", "no env runner is left: each was started again as often as allowed", hint)


def nonfinite(what: str, step: int) -> RunError:
    return RunError("nonfinite", f"{what} after {step:,} environment steps", ADVICE, "agent", step)


def check_tensors(tensors: Mapping[str, Any], step: int) -> None:
    """Raise RunError if weights are not finite: such a checkpoint would be worth nothing."""
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values() if tensor.is_floating_point()):
        raise nonfinite("the policy's weights became NaN or infinite", step)


def failure_of(error: BaseException, session: Session) -> BaseException:
    """What to raise for an error of RLlib: the RunError behind it, or what a NaN policy means; else itself."""
    reported = reported_failure(str(session.run_dir))
    chain = list(_causes(error))
    known = reported or next((cause for cause in chain if isinstance(cause, RunError)), None)
    if known is not None:
        known.step = known.step or session.step
        return known
    for cause in chain:
        text = str(cause)
        if isinstance(cause, ValueError) and all(sign in text for sign in NAN_SIGNS):
            return nonfinite("the policy's outputs became NaN", session.step)
    return error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and what lies behind it; Ray keeps a worker's exception in `cause`."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        behind = getattr(error, "cause", None)
        if isinstance(behind, BaseException):
            yield from _causes(behind)
        error = error.__cause__ or error.__context__
