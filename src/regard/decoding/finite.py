"""Outputs of models that are not numbers."""

from torch import Tensor

from regard.errors import RegardError


def finite(output: Tensor) -> Tensor:
    """The output of a model; a `RegardError` if it contains NaN or infinity."""
    if not output.isfinite().all():
        raise RegardError("the output of the model is NaN or infinite; check its weights for very large values")
    return output
