"""The user's own table, as parquet."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from torch import Tensor

from raycipe.components.data._splits import check_shares
from raycipe.components.data._table import Table
from raycipe.framework.arguments import Fraction, InputFile, Length, Positive
from raycipe.framework.contracts import Data, Split
from raycipe.framework.registry import register


@register
class Parquet(Data):
    """Your own table as parquet: one example a row.

    x is (features,) float32, y a class number (int64) or (targets,) float32. Above memory_limit_mb the files are
    streamed, and val and test are whole files.

    Args:
        path: the file, or a folder of .parquet files with equal columns; relative to the recipe
        target: the column to predict, or several for regression
        features: the columns of x, in this order; null takes all but the target
        drop: columns to leave out of x, such as ids and dates
        target_type: whether the target is a class or a number; auto takes text, booleans and whole numbers as classes,
            but no more of them than 50 or than a tenth of the rows
        one_hot: turn a text column of x into one feature a word (1 where it holds); otherwise text is an error,
            and so are more different words than 50 and than a tenth of the rows
        missing: an empty value is an error that names row and column, or `drop` leaves such rows out
        standardize: shift and scale each number of x to mean 0 and deviation 1 over the training rows
        val: share of the rows held out for choosing, or a file or folder of its own; 0 for no such split
        test: share of the rows held out for the final figure, or a file or folder of its own; 0 for no such split
        split_seed: draws the splits; null takes the recipe's seed, a number keeps them while the seed varies
        memory_limit_mb: larger files (megabytes on disk) are streamed instead of held in memory

    Recipe:
        data: {type: parquet, path: flowers.parquet, target: species}
        model: linear
        task: classification
        optimizer: {type: adam, lr: 0.01}
    """

    def __init__(
        self,
        path: Annotated[str, InputFile((".parquet",), folder=True)],
        target: str | Annotated[list[str], Length(1, 1000)],
        features: Annotated[list[str], Length(1, 100000)] | None = None,
        drop: list[str] = [],  # noqa: B006 (never changed)
        target_type: Literal["auto", "class", "number"] = "auto",
        one_hot: bool = False,
        missing: Literal["error", "drop"] = "error",
        standardize: bool = True,
        val: Fraction | Annotated[str, InputFile((".parquet",), folder=True)] = 0.1,
        test: Fraction | Annotated[str, InputFile((".parquet",), folder=True)] = 0.2,
        split_seed: int | None = None,
        memory_limit_mb: Positive = 1000.0,
    ) -> None:
        check_shares(*(0.0 if isinstance(part, str) else part for part in (val, test)))
        if target_type == "class" and not isinstance(target, str) and len(target) > 1:
            raise ValueError(f"target: classes come from one column, not {len(target)}")
        self.path = path
        self.target = target
        self.features = features
        self.drop = drop
        self.target_type = target_type
        self.one_hot = one_hot
        self.missing = missing
        self.standardize = standardize
        self.val = val
        self.test = test
        self.split_seed = split_seed
        self.memory_limit_mb = memory_limit_mb

    def load(self, seed: int) -> dict[str, Split]:
        targets = [self.target] if isinstance(self.target, str) else self.target
        arguments = {name: value for name, value in vars(self).items() if name not in ("target", "facts", "encoder")}
        splits, self.facts, self.encoder = Table(format="parquet", target=targets, **arguments).load(seed)
        return splits

    @property
    def table_columns(self) -> list[str]:
        return self.encoder.features

    def features_of(self, table: Any) -> Tensor:
        return self.encoder.of_table(table)
