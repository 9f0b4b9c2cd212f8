"""Types of the recipe's fields that are names of catalog rows: an unknown name lists the known ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from specc.catalog.capabilities import ACCEPTANCE_MODES, BACKEND_NAMES, FEATURES
from specc.catalog.dtypes import DTYPES
from specc.catalog.gpus import COMPUTE_CAPABILITIES, GPUS
from specc.catalog.schemes import SCHEMES
from specc.catalog.workloads import WORKLOADS

UNKNOWN_NAME: Final = "unknown_name"


@dataclass(frozen=True)
class KnownName:
    """Metadata of a text field whose values are the keys of a registry.

    Attributes:
        what: what is named, for messages.
        names: the known names, in the registry's order.
        numeric: they may be written as numbers, without quotes.
    """

    what: str
    names: tuple[str, ...]
    numeric: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401
        named = core_schema.no_info_after_validator_function(self._checked, handler(source))
        return named if self.numeric else core_schema.no_info_before_validator_function(self._no_number, named)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        numbers = [float(name) for name in self.names] if self.numeric else []
        return {**handler(schema), "enum": [*self.names, *numbers]}

    def _no_number(self, value: Any) -> Any:  # noqa: ANN401 - an unchecked YAML value
        """A number is no name; that it is no text is beside the point."""
        if isinstance(value, int | float):
            raise unknown_name(self.what, str(value).lower(), self.names)
        return value

    def _checked(self, name: str) -> str:
        if name not in self.names:
            raise unknown_name(self.what, name, self.names)
        return name


def unknown_name(what: str, name: str, known: tuple[str, ...], field: str = "") -> PydanticCustomError:
    """Return the error of a name that no row has; `field` is where it stands below the value that is validated."""
    context = {"what": what, "value": name, "known": ", ".join(known), "field": field}
    return PydanticCustomError(UNKNOWN_NAME, "unknown {what}", context)


def _text_from_number(value: Any) -> Any:  # noqa: ANN401 - an unchecked YAML value
    """Return `8.9` for 8.9 and `9.0` for 9: people do not quote compute capabilities."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(float(value))
    return value


SchemeName: TypeAlias = Annotated[str, KnownName("scheme", tuple(SCHEMES))]
GpuName: TypeAlias = Annotated[str, KnownName("GPU", tuple(GPUS))]
BackendChoiceName: TypeAlias = Annotated[str, KnownName("back end", BACKEND_NAMES)]
AcceptanceName: TypeAlias = Annotated[str, KnownName("acceptance mode", ACCEPTANCE_MODES)]
FeatureChoiceName: TypeAlias = Annotated[str, KnownName("feature", FEATURES)]
WorkloadName: TypeAlias = Annotated[str, KnownName("workload", WORKLOADS)]
CacheDtypeName: TypeAlias = Annotated[str, KnownName("cache dtype", tuple(DTYPES))]
ComputeCapability: TypeAlias = Annotated[
    str,
    BeforeValidator(_text_from_number, json_schema_input_type=str | float),
    KnownName("compute capability", COMPUTE_CAPABILITIES, numeric=True),
]
