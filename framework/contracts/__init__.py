"""What every kind of component promises.

A component is one class in one file: `components/<kind>/<type>.py`, marked with `@register`. Its constructor's
annotations and docstring declare its arguments; the constructor only stores them (a model builds its layers).
Constructor parameters named in `given` come from the framework and are no part of the recipe.

Batches are dicts of tensors whose first dimension counts examples: `x`, `y` and `id` (int64, the example's stable
position in its split) always mean the same; a data component may add more. Tabular roles use the names
`x`, `y`, `treatment`, `instrument`, `weights`, `groups`, and `truth` where simulated data know it.
"""

from __future__ import annotations

from raycipe.framework.contracts.boosting import Fit as Fit
from raycipe.framework.contracts.boosting import Hypothesis as Hypothesis
from raycipe.framework.contracts.boosting import Vote as Vote
from raycipe.framework.contracts.boosting import WeakLearner as WeakLearner
from raycipe.framework.contracts.boosting import ZSet as ZSet
from raycipe.framework.contracts.causal import Calibrated as Calibrated
from raycipe.framework.contracts.causal import Calibration as Calibration
from raycipe.framework.contracts.causal import CausalLoss as CausalLoss
from raycipe.framework.contracts.causal import Density as Density
from raycipe.framework.contracts.causal import Estimand as Estimand
from raycipe.framework.contracts.causal import Evidence as Evidence
from raycipe.framework.contracts.causal import GeneralizedPosterior as GeneralizedPosterior
from raycipe.framework.contracts.causal import Nuisance as Nuisance
from raycipe.framework.contracts.causal import Nuisances as Nuisances
from raycipe.framework.contracts.causal import Posterior as Posterior
from raycipe.framework.contracts.causal import Prior as Prior
from raycipe.framework.contracts.causal import RowLoss as RowLoss
from raycipe.framework.contracts.causal import Sample as Sample
from raycipe.framework.contracts.causal import Solution as Solution
from raycipe.framework.contracts.communication import HEADER_BYTES as HEADER_BYTES
from raycipe.framework.contracts.communication import Compressor as Compressor
from raycipe.framework.contracts.communication import Draw as Draw
from raycipe.framework.contracts.communication import Link as Link
from raycipe.framework.contracts.communication import Plan as Plan
from raycipe.framework.contracts.communication import State as State
from raycipe.framework.contracts.component import Component as Component
from raycipe.framework.contracts.estimators import Estimator as Estimator
from raycipe.framework.contracts.reinforcement import Agent as Agent
from raycipe.framework.contracts.reinforcement import Env as Env
from raycipe.framework.contracts.reinforcement import Policy as Policy
from raycipe.framework.contracts.saddle import Estimate as Estimate
from raycipe.framework.contracts.saddle import GradientEstimator as GradientEstimator
from raycipe.framework.contracts.saddle import Point as Point
from raycipe.framework.contracts.saddle import Problem as Problem
from raycipe.framework.contracts.saddle import Saddle as Saddle
from raycipe.framework.contracts.saddle import SaddleTask as SaddleTask
from raycipe.framework.contracts.solving import Dense as Dense
from raycipe.framework.contracts.solving import InverseHVP as InverseHVP
from raycipe.framework.contracts.solving import Landscape as Landscape
from raycipe.framework.contracts.solving import Layers as Layers
from raycipe.framework.contracts.solving import Solved as Solved
from raycipe.framework.contracts.solving import Subspace as Subspace
from raycipe.framework.contracts.solving import System as System
from raycipe.framework.contracts.trained import Editor as Editor
from raycipe.framework.contracts.trained import Ended as Ended
from raycipe.framework.contracts.trained import Forget as Forget
from raycipe.framework.contracts.trained import Measure as Measure
from raycipe.framework.contracts.trained import Measured as Measured
from raycipe.framework.contracts.trained import Skipped as Skipped
from raycipe.framework.contracts.trained import Study as Study
from raycipe.framework.contracts.trained import Trained as Trained
from raycipe.framework.contracts.trained import Variation as Variation
from raycipe.framework.contracts.training import Data as Data
from raycipe.framework.contracts.training import Loss as Loss
from raycipe.framework.contracts.training import Model as Model
from raycipe.framework.contracts.training import Optimizer as Optimizer
from raycipe.framework.contracts.training import OptimizerRun as OptimizerRun
from raycipe.framework.contracts.training import Schedule as Schedule
from raycipe.framework.contracts.training import Task as Task
from raycipe.framework.splits import Batch as Batch
from raycipe.framework.splits import MapSplit as MapSplit
from raycipe.framework.splits import Split as Split
from raycipe.framework.splits import StreamSplit as StreamSplit
from raycipe.framework.splits import TensorSplit as TensorSplit

KINDS: dict[str, type] = {
    "data": Data,
    "models": Model,
    "tasks": Task,
    "optimizers": Optimizer,
    "schedules": Schedule,
    "compressors": Compressor,
    "links": Link,
    "gradients": GradientEstimator,
    "measures": Measure,
    "editors": Editor,
    "forget": Forget,
    "ihvp": InverseHVP,
    "subspaces": Subspace,
    "studies": Study,
    "estimators": Estimator,
    "estimands": Estimand,
    "losses": CausalLoss,
    "nuisances": Nuisance,
    "priors": Prior,
    "posteriors": Posterior,
    "calibrations": Calibration,
    "z_sets": ZSet,
    "weak_learners": WeakLearner,
    "votes": Vote,
    "envs": Env,
    "agents": Agent,
}
