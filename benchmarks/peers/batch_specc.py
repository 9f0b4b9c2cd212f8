"""specc's own runtime with several requests at once, decoding autoregressively."""

from __future__ import annotations

import json
import sys

from specc.runtime import GenerationParams, Session


def main() -> None:
    """Read the task, print tokens a second by number of requests."""
    task = json.load(sys.stdin)
    params = GenerationParams(max_new_tokens=task["max_tokens"], temperature=0.0, ignore_eos=True, mode="ar")
    speeds = {}
    with Session.load(task["bundle"], threads=task["threads"]) as session:
        for rows in task["rows"]:
            prompts = [list(range(100 + row, 228 + row)) for row in range(rows)]
            session.generate(prompts, params)
            done = session.generate(prompts, params)
            # Requests start together: the longest spans the decoding of all.
            seconds = max(one.decode_s for one in done)
            speeds[rows] = sum(len(one.token_ids) - 1 for one in done) / seconds
    print(f"\n{json.dumps({'speeds': speeds})}")


if __name__ == "__main__":
    main()
