"""Shared by the data that lie in an installed package: its folder, which is read as files and never imported."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from raycipe.framework.errors import RunError

if TYPE_CHECKING:
    import pandas as pd


def package_file(package: str, path: str, install: str) -> Path:
    """Raises RunError, with what to install, if the package or the file is missing."""
    found = find_spec(package)
    for folder in (found.submodule_search_locations or []) if found else []:
        file = Path(folder) / path
        if file.is_file():
            return file
    lacks = f"{package} has no file {path}" if found else f"the package {package} is not installed"
    raise RunError("data", f"{lacks}, in which these data are", f"pip install {install}", "data")


def standardized(frame: pd.DataFrame) -> tuple[np.ndarray, list[str]]:
    """Columns of numbers with mean 0 and deviation 1, and their names; words and categories as one column each."""
    import pandas as pd

    whole = pd.get_dummies(frame, dtype=float).astype(float)
    values = whole.to_numpy()
    spread = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0), [str(name) for name in whole.columns]
