"""Which requests speculate at all."""

from __future__ import annotations

from dataclasses import dataclass

from specc.bundle.policies import RoutingSpec
from specc.runtime.request import Request


@dataclass(frozen=True)
class Route:
    """Whether a request speculates; `reason` where mode `auto` decided that it does not, None otherwise."""

    speculates: bool
    reason: str | None


def route_from_request(request: Request, routing: RoutingSpec, *, has_drafter: bool) -> Route:
    """Return the route of a request in a bundle with or without a drafter."""
    if request.mode == "ar" or not has_drafter:
        return Route(speculates=False, reason=None)
    if request.mode == "spec" or request.speculative is True:
        return Route(speculates=True, reason=None)
    if request.speculative is False:
        return Route(speculates=False, reason="routing: the request says speculative false")
    least = routing.min_new_tokens
    if request.max_new_tokens < least:
        return Route(speculates=False, reason=f"routing: max_new_tokens {request.max_new_tokens} is below {least}")
    return Route(speculates=True, reason=None)
