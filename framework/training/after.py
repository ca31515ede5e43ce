"""The measures of a run, on rank 0: at its end, and between its steps where the recipe says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import nn

from raycipe.framework.contracts import Trained
from raycipe.framework.files import read_rows
from raycipe.framework.measuring import in_training, run_measures
from raycipe.framework.training.evaluate import agreed_buffers
from raycipe.framework.training.saved import read
from raycipe.framework.training.state import fill_buffers, load_weights, unsaved_buffers

if TYPE_CHECKING:
    from raycipe.framework.training.session import Session


def measure(session: Session) -> None:
    """Run the recipe's measures on the final weights and add what they found to the summary; all ranks call it."""
    if not session.plan.recipe.get("measures"):
        return
    model = final_model(session)
    if session.comm.rank != 0:
        return
    findings = run_measures(trained(session, model), session.plan.recipe, session.run_dir, _logger(session))
    session.summary.skipped, session.summary.artifacts = findings.skipped, findings.artifacts
    session.summary.final.update(findings.values)
    if findings.values:
        session.row(findings.values)


def measure_between(session: Session) -> None:
    """A row with the measures of the weights of this step; their figures and tables come at the end. All ranks call it.

    The model's copy, and the optimizer whose common weights it takes, are as they were before.
    """
    model = final_model(session)
    if session.comm.rank != 0:
        return
    recipe = {**session.plan.recipe, "measures": in_training(session.plan.recipe["measures"])}
    findings = run_measures(trained(session, model), recipe, None, _logger(session))
    if findings.values:
        session.row(findings.values)


def _logger(session: Session) -> Callable[[str], None]:
    def log(text: str) -> None:
        with (session.run_dir / "log.txt").open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    return log


def final_model(session: Session) -> nn.Module:
    """The evaluated weights in a model of their own: whole, not compiled, in eval mode."""
    average = session.average
    source = average.model if average is not None and session.settings.evaluate_weights == "ema" else session.model
    final = session.initial_model()
    with session.optimizer.consensus(), agreed_buffers(source, session.comm):
        if session.sharded:
            from raycipe.framework.training.sharded import tied, whole_model

            tensors = whole_model(source)
            if session.comm.rank == 0:
                load_weights(final, tensors, tied(source), "the trained model")
        else:
            final.load_state_dict(source.state_dict())
        fill_buffers(final, unsaved_buffers(source))
    return final.eval()


def trained(session: Session, model: nn.Module) -> Trained:
    """What measures and editors get to see."""
    return Trained(
        recipe=session.plan.recipe,
        splits=session.splits,
        facts=session.data.facts,
        model=model,
        initial_model=session.initial_model,
        task=session.task,
        checkpoints=[(step, _loader(session, step)) for step in session.store.steps()],
        device=session.device,
        seed=session.seed,
        step=session.step,
        rows=list(read_rows(session.run_dir / "metrics.jsonl")),
    )


def _loader(session: Session, step: int) -> Callable[[], nn.Module]:
    def load() -> nn.Module:
        checkpoint = read(session.store.folder / f"step-{step:08d}")
        model = session.initial_model()
        load_weights(model, checkpoint.model(), checkpoint.manifest["tied"], str(checkpoint.path))
        return model.eval()

    return load
