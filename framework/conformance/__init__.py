"""What every component must pass, whoever wrote it. A plugin's tests run it in five lines:

    import pytest
    from raycipe.framework import conformance

    @pytest.mark.parametrize("case", conformance.cases("my_plugin"), ids=str)
    def test_conformance(case, tmp_path):
        case(tmp_path)

or, for one component, `conformance.check_component("models/gated_mlp")`.

Each component is tried with the recipe in its own docstring, which makes that recipe a tested one. Files that such a
recipe names must lie in the folder that the case is called with. A failed check raises AssertionError in words.
"""

from raycipe.framework.conformance.battery import Case, cases, check_component
from raycipe.framework.conformance.example import Example

__all__ = ["Case", "Example", "cases", "check_component"]
