"""The recipe's gates: `require` against what the plan says."""

from __future__ import annotations

from specc.catalog.gpus import GB
from specc.catalog.sizes import size_text
from specc.errors import SpeccError
from specc.plan.prediction import Outlook, Prediction
from specc.recipe.gates import RequireChoice
from specc.recipe.schema import Recipe


def check_required(recipe: Recipe, memory_bytes: int, outlook: Outlook | None) -> None:
    """Check the recipe's gates.

    Args:
        recipe: states them.
        memory_bytes: of one GPU, all items together.
        outlook: the plan's prediction.

    Raises:
        SpeccError: SPC307, exit status 3: one of them is not met, with both numbers.
    """
    required = recipe.require
    most = None if required.max_memory_gb is None else round(required.max_memory_gb * GB)
    if most is not None and memory_bytes > most:
        raise SpeccError(
            "SPC307",
            recipe.place("require", "max_memory_gb"),
            f"the plan needs {size_text(memory_bytes)}, {size_text(memory_bytes - most)} too many",
            f"the recipe requires at most {required.max_memory_gb:g} GB",
            "lower limits.max_batch, max_input or max_output, quantize, or raise max_memory_gb",
        )
    check_speedup(required, recipe.place("require", "min_speedup"), outlook, "predicted speed-up is")


def check_speedup(required: RequireChoice, place: str, outlook: Outlook | None, what: str) -> None:
    """Check the gate on speed.

    Args:
        required: the recipe's gates.
        place: where the gate stands, for the message.
        outlook: by the cost model, or by measured step costs.
        what: words before the number.

    Raises:
        SpeccError: SPC307: it is not met, or there is no prediction.
    """
    if required.min_speedup is None:
        return
    why = f"the recipe requires {required.min_speedup:g} at batch {required.at_batch}"
    if not isinstance(outlook, Prediction):
        reason = "there is no prediction" if outlook is None else f"not predicted: {outlook.reason}"
        raise SpeccError("SPC307", place, reason, why, "give what the prediction needs, or remove min_speedup")
    line = outlook.at_batch(required.at_batch)
    if line.speedup.mid < required.min_speedup:
        raise SpeccError(
            "SPC307",
            place,
            f"the {what} {line.speedup.mid:.2f} "
            f"({line.speedup.low:.2f} to {line.speedup.high:.2f}) with gamma {line.gamma}",
            why,
            "another draft or gpu (`specc plan --compare`), a smaller at_batch, or a lower min_speedup",
        )
