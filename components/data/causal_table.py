"""The user's own study, as a table."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from torch import Tensor

from raycipe.components.data._causal import causal_facts
from raycipe.components.data._table import Table
from raycipe.framework.arguments import InputFile, Length
from raycipe.framework.contracts import Data, Split, TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register

MAX_MEGABYTES = 1000.0


@register
class CausalTable(Data):
    """Your own study as CSV or parquet: one unit a row, with columns for the outcome and the treatment.

    x is (covariates,) float32, y (1,), and the roles stand beside them. All rows are estimated from: no split is held
    out. Treatments are numbers: 0 and 1, levels, or doses.

    Args:
        path: the file, or a folder of such files with equal columns; relative to the recipe
        outcome: the column of outcomes
        treatment: the column of treatments
        instrument: the column of a binary instrument
        weights: the column of survey weights
        groups: the column of clusters, as numbers: whole ones are held out
        covariates: the columns of x, in this order; null takes all that have no role
        drop: columns to leave out of x, such as ids and what came after the treatment
        one_hot: turn a text column of x into one covariate a word; otherwise text is an error
        missing: an empty value is an error that names row and column, or `drop` leaves such rows out
        standardize: shift and scale each number of x to mean 0 and deviation 1

    Recipe:
        data: {type: causal_table, path: trial.csv, outcome: weight, treatment: drug}
        estimator: gbayes_causal
    """

    def __init__(
        self,
        path: Annotated[str, InputFile((".csv", ".parquet"), folder=True)],
        outcome: str,
        treatment: str,
        instrument: str | None = None,
        weights: str | None = None,
        groups: str | None = None,
        covariates: Annotated[list[str], Length(1, 100000)] | None = None,
        drop: list[str] = [],  # noqa: B006 (never changed)
        one_hot: bool = False,
        missing: Literal["error", "drop"] = "error",
        standardize: bool = True,
    ) -> None:
        self.path = path
        self.outcome = outcome
        self.treatment = treatment
        self.instrument = instrument
        self.weights = weights
        self.groups = groups
        self.covariates = covariates
        self.drop = drop
        self.one_hot = one_hot
        self.missing = missing
        self.standardize = standardize

    def load(self, seed: int) -> dict[str, Split]:
        roles = {
            name: getattr(self, name)
            for name in ("outcome", "treatment", "instrument", "weights", "groups")
            if getattr(self, name) is not None
        }
        columns = list(roles.values())
        if len(set(columns)) < len(columns):
            raise RunError("data", "one column has two roles", "name each column once", "data")
        format = "parquet" if self.path.endswith(".parquet") or _holds_parquet(self.path) else "csv"
        table = Table(
            format=format,  # type: ignore[arg-type]  # one of the two
            path=self.path,
            target=columns,
            features=self.covariates,
            drop=self.drop,
            target_type="number",
            one_hot=self.one_hot,
            missing=self.missing,
            standardize=self.standardize,
            val=0.0,
            test=0.0,
            split_seed=0,
            memory_limit_mb=MAX_MEGABYTES,
        )
        splits, facts, self.encoder = table.load(seed)
        whole = splits["train"]
        if not isinstance(whole, TensorSplit):
            raise RunError(
                "data", f"{self.path} is larger than {MAX_MEGABYTES:g} MB", "draw a sample of it", "data.path"
            )
        tensors = {"x": whole.tensors["x"], "y": whole.tensors["y"][:, :1]}
        for number, name in enumerate(list(roles)[1:], 1):
            tensors[name] = _whole(whole.tensors["y"][:, number])
        self.facts = causal_facts(tensors["x"].shape[1], facts["feature_names"])
        self.facts["note"] = facts["note"]
        return {"train": TensorSplit(tensors)}

    @property
    def table_columns(self) -> list[str]:
        return self.encoder.features

    def features_of(self, table: Any) -> Tensor:
        return self.encoder.of_table(table)


def _whole(values: Tensor) -> Tensor:
    return values.long() if bool((values == values.round()).all()) else values


def _holds_parquet(path: str) -> bool:
    from pathlib import Path

    return Path(path).is_dir() and any(Path(path).glob("*.parquet"))
