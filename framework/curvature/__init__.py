"""Second derivatives of a model's loss over a data set: products with vectors, spectra and traces.

    operator = Curvature(model, task.loss, batches)
    operator.product(v)                                   # H v
    krylov = lanczos(operator.product, start, steps=60)   # Ritz values with residuals

Plain torch: no recipe, no Ray.
"""

from __future__ import annotations

from raycipe.framework.curvature.examples import example_gradients as example_gradients
from raycipe.framework.curvature.examples import mean_square_gradient as mean_square_gradient
from raycipe.framework.curvature.operator import Curvature as Curvature
from raycipe.framework.curvature.spectra import Krylov as Krylov
from raycipe.framework.curvature.spectra import extremes as extremes
from raycipe.framework.curvature.spectra import hutchinson as hutchinson
from raycipe.framework.curvature.spectra import hutchpp as hutchpp
from raycipe.framework.curvature.spectra import lanczos as lanczos
from raycipe.framework.curvature.spectra import probe as probe
