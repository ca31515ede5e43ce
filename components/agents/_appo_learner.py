"""APPO's learner, made to tell when its thread fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ray.rllib.algorithms.appo.torch.appo_torch_learner import APPOTorchLearner


class TellingLearner(APPOTorchLearner):  # type: ignore[misc]
    """RLlib updates in a thread, and `update` waits for its signal: for ever, once an error has ended the thread. Here
    the error is kept, the signal given, and `update` raises it."""

    def build(self) -> None:
        self._failure: Exception | None = None
        super().build()
        # the thread has started and waits for a first batch, which only `update` brings
        self._learner_thread._update_method = self._keeping_failures(self._learner_thread._update_method)

    def _keeping_failures(self, update: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(**arguments: Any) -> Any:
            try:
                return update(**arguments)
            except Exception as error:
                self._failure = error
                self._agg_event.set()
                raise

        return guarded

    def update(self, *arguments: Any, **named: Any) -> Any:
        """As RLlib's, but raises what ended the learner's thread."""
        if self._failure is None:
            found = super().update(*arguments, **named)
        if self._failure is not None:
            raise self._failure
        return found
