"""How many tokens each prompt of a certificate gets: all the same, and all that were asked for."""

from __future__ import annotations

from collections.abc import Sequence

from specc.bundle.manifest import Manifest
from specc.certify.parity import Ids
from specc.certify.request import CertifyRequest
from specc.errors import SpeccError
from specc.runtime.params import GenerationParams
from specc.runtime.request import max_new_tokens_from_params


def check_new_tokens(manifest: Manifest, request: CertifyRequest) -> None:
    """Let a request pass that the bundle's limits allow, before anything is loaded.

    Raises:
        SpeccError: SPC701 or SPC702 it asks for fewer than one token, or for more than limits.max_output.
    """
    max_new_tokens_from_params(GenerationParams(max_new_tokens=request.max_new_tokens), manifest)


def new_tokens_after(prompts: Sequence[Ids], manifest: Manifest, request: CertifyRequest) -> int:
    """Return how many tokens each prompt gets: what was asked, else what its scope has where there is room for it.

    Args:
        prompts: token ids, none of them empty.
        manifest: of the bundle.
        request: that `check_new_tokens` lets pass.

    Raises:
        SpeccError: SPC702 so many were asked for that they do not fit behind the longest prompt.
    """
    limits, longest = manifest.limits, max(len(prompt) for prompt in prompts)
    room = min(limits.max_output, limits.max_length - longest)
    if request.max_new_tokens is None:
        return min(request.extent.new_tokens, room)
    if request.max_new_tokens > room:
        raise SpeccError(
            "SPC702",
            "max_new_tokens",
            f"{request.max_new_tokens} tokens after a prompt of {longest}; {limits.max_length} fit together",
            "every prompt gets the same number, and a text ends where its cache does",
            f"ask for at most {room}, or give shorter prompts",
        )
    return request.max_new_tokens
