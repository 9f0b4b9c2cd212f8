"""Codes SPC8nn: the certify stage."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow, ExitStatus

CERTIFY: Final[dict[str, CodeRow]] = {
    "SPC801": CodeRow(
        "speculation changed the text",
        "A bundle must give the same token ids with and without speculation for the same seed. Ids may differ only "
        "where the autoregressive step was near a tie, its two best values closer than the stated epsilon, because "
        "rounding differs between calls of one token and of several; such cases are counted. Here they differ "
        "elsewhere, so the bundle is not published.",
        ExitStatus.GATE,
    ),
    "SPC802": CodeRow(
        "nothing to certify with",
        "A certificate compares generations. The list of prompts that was given is empty: nothing would be compared.",
    ),
}
