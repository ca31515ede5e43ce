"""One trial after the other in a Ray actor, as Ray Tune's `Trainable` sees it.

The trial itself runs in a thread. At an evaluation it hands a report over and waits for Tune's decision, where a
scheduler makes one; else it goes on at once. Only light imports stand at the top: Ray's workers import this first.
"""

from __future__ import annotations

import json
import queue
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ray import tune

from raycipe.framework.runs import TRIALS, Run
from raycipe.launchers.trial import Base, LeftTraining, not_run, run_trial, settle
from raycipe.launchers.tune_schedulers import PAUSING, SCORE, TIME, WORST, score
from raycipe.launchers.tune_search import name_of

LOOK_S = 0.25  # between looks for a wish to stop
TELL_S = 1.0  # between reports that nobody decides on
JOIN_S = 120.0
POINTER = "trial.json"
LINEAGE = "lineage.json"


class TrialActor(tune.Trainable):  # type: ignore[misc]
    """Runs trials; its config holds `base`, `number`, `changes`, `goal` (metric, mode) and `scheduler` (type, ...)."""

    def setup(self, config: dict[str, Any]) -> None:
        self._take(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._end()
        self._take(new_config)
        return True

    def _take(self, config: Mapping[str, Any]) -> None:
        self.body: Body | None = None
        self.task = dict(config)
        self.donor: Path | None = None

    def step(self) -> dict[str, Any]:
        """The next report of the trial, which begins or is taken up again if it does not run."""
        if self.body is None or self.body.is_put_down:
            self.body = Body(self.task, self.donor)
            self.donor = None
        return self.body.next()

    def save_checkpoint(self, checkpoint_dir: str) -> str:
        """Puts the trial down: what Tune pauses or copies lies complete in its run folder."""
        self._end(put_down=True)
        run = _folder(self.task)
        home = Path(checkpoint_dir)
        newest = sorted(run.checkpoints.glob("step-*"), key=lambda path: int(path.name.partition("-")[2]))
        (home / POINTER).write_text(json.dumps({"number": self.task["number"]}), encoding="utf-8")
        if newest and self.task["scheduler"]["type"] == "pbt":  # the others continue where they are
            shutil.copytree(newest[-1], home / newest[-1].name)
        return checkpoint_dir

    def load_checkpoint(self, checkpoint: str | None) -> None:
        """If it is another trial's, that one's weights are taken over when this one begins."""
        if checkpoint is None:
            return
        home = Path(checkpoint)
        if json.loads((home / POINTER).read_text(encoding="utf-8"))["number"] != self.task["number"]:
            copy = _folder(self.task).path / ".donor"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(home, copy)
            self.donor = copy

    def cleanup(self) -> None:
        self._end()

    def _end(self, put_down: bool = False) -> None:
        if self.body is not None:
            self.body.end(None if put_down else self.task["scheduler"]["type"])


def _folder(task: Mapping[str, Any]) -> Run:
    return Run(Path(task["base"][0]) / TRIALS / name_of(task["number"]))


class Body:
    """A trial in a thread of its own."""

    def __init__(self, task: Mapping[str, Any], donor: Path | None) -> None:
        from raycipe.framework.training.signals import stop_file

        self.task, self.donor = task, donor
        self.base = Base(*task["base"])
        self.metric, self.mode = task["goal"]
        self.scheduler = task["scheduler"]
        self.decides = self.scheduler["type"] != "none"
        self.reports: queue.Queue[dict[str, Any]] = queue.Queue()
        self.orders: queue.Queue[LeftTraining | None] = queue.Queue()
        self.waits = False  # for an order
        self.is_put_down = False
        self.evaluations = 0
        self.told_at = time.monotonic()
        self.left: LeftTraining | None = None
        self.stop_all, self.stop_me = stop_file(self.base.run_dir), stop_file(_folder(task).path)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    # ------------------------------------------------------------------------------------------ Tune's side

    def next(self) -> dict[str, Any]:
        """The next report; passes a wish to stop the whole sweep on to the trial."""
        if self.waits:
            self.waits = False
            self.orders.put(None)
        while True:
            try:
                report = self.reports.get(timeout=LOOK_S)
            except queue.Empty:
                if self.stop_all.exists() and self.stop_me.parent.is_dir():
                    self.stop_me.touch()
                continue
            self.waits = bool(report.pop("waits", False))
            return report

    def end(self, stopped: str | None) -> None:
        """End the trial, if it runs: for good, by the scheduler `stopped`, or put down to be taken up again."""
        if not self.thread.is_alive():
            return
        if self.stop_all.exists():  # it saves a checkpoint before it ends
            self.is_put_down = True
            self.stop_me.touch()
            self.orders.put(None)
        else:
            self.is_put_down = stopped is None
            self.orders.put(LeftTraining(stopped))
        self.thread.join(JOIN_S)

    # ------------------------------------------------------------------------------------------ the trial's side

    def _run(self) -> None:
        try:
            report = self._result(self._whole())
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is this trial's failure and told as that
            from raycipe.launchers.outcome import describe

            result = not_run(
                self.base, name_of(self.task["number"]), self.task["changes"], describe(error, self.base.run_dir)
            )
            report = self._result(result)
        if not self.is_put_down:
            self.reports.put({TIME: self.evaluations, **report, "done": True})

    def _whole(self) -> dict[str, Any]:
        name, changes = name_of(self.task["number"]), self.task["changes"]
        if self.donor is not None:
            take_over(_folder(self.task), self.donor)
        for _ in range(int(self.task["max_failures"]) + 1):
            result = run_trial(
                self.base,
                name,
                changes,
                on_row=self._row,
                hooks=[self._hook],
                took_over=self.scheduler["type"] == "pbt",
                pauses=self.scheduler["type"] in PAUSING,
            )
            if result["status"] != "failed":
                break
        if self.left is not None and self.left.stopped and result["status"] == "interrupted":
            return settle(_folder(self.task), self.left.stopped)
        return result

    def _result(self, result: Mapping[str, Any]) -> dict[str, Any]:
        value = (result.get("final") or {}).get(self.metric)
        number = float(value) if isinstance(value, (int, float)) else None
        failed = result["status"] == "failed"
        return {"ended": result["status"], "value": number, SCORE: WORST if failed else score(number, self.mode)}

    def _hook(self, session: Any, event: str) -> None:
        """Training in this process: reports at evaluations, or at the checkpoints after them if trials are put down."""
        pauses = self.scheduler["type"] in PAUSING
        evaluates = "val" in session.splits
        every = session.length.eval_every if evaluates or pauses else session.settings.log_every
        count = session.step // every
        if event == "start":
            self.evaluations = count
        if event != ("checkpoint" if pauses else "evaluate" if evaluates else "log"):
            return
        before, self.evaluations = self.evaluations, count
        if count == before or session.step >= session.length.total_steps:
            return  # the end is a report of its own
        if pauses:
            session.store.poll(wait=True)
        interval = self.scheduler["interval"]
        self.is_put_down = self.scheduler["type"] == "pbt" and count // interval > before // interval
        self._report(session.latest.get(self.metric), wait=not self.is_put_down)
        if self.is_put_down:
            raise LeftTraining(None)

    def _row(self, row: Mapping[str, Any]) -> None:
        """Any other launcher: its rows as they come."""
        if self.metric not in row or self.left is not None:
            return
        self.evaluations = sum(1 for written in _folder(self.task).rows() if self.metric in written)
        try:
            self._report(row[self.metric], wait=True)
        except LeftTraining as left:
            self.left = left
            self.stop_me.touch()

    def _report(self, value: Any, wait: bool) -> None:
        report = {TIME: self.evaluations, SCORE: score(value, self.mode), "value": value}
        waits = wait and self.decides
        if not waits and not self.is_put_down and time.monotonic() < self.told_at + TELL_S:
            return  # nobody decides on it
        self.told_at = time.monotonic()
        self.reports.put({**report, "waits": waits})
        if waits and (order := self.orders.get()) is not None:
            raise order


def take_over(run: Run, donor: Path) -> None:
    """The checkpoint of a better trial becomes this one's only one; `lineage.json` tells where it came from."""
    taken = run.read(LINEAGE).get("taken") or []
    pointer = json.loads((donor / POINTER).read_text(encoding="utf-8"))
    for old in run.checkpoints.glob("step-*"):
        shutil.rmtree(old)
    for new in donor.glob("step-*"):
        new.rename(run.checkpoints / new.name)
        taken.append({"from": name_of(pointer["number"]), "step": int(new.name.partition("-")[2])})
    shutil.rmtree(donor)
    run.write(LINEAGE, {"format": 1, "taken": taken})
