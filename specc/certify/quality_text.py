"""The text on which a quantized target is held against its reference: prose, dialogue, arithmetic and code."""

from __future__ import annotations

from typing import Final

QUALITY_TEXT: Final = """\
The old lighthouse keeper climbed the stairs every evening at six. He counted them, although he knew the number: there
were one hundred and twelve, and the last three were made of wood. At the top he cleaned the glass, trimmed the wick and
wrote the date into a heavy book. Some nights a ship answered with its horn. On most nights nothing answered, and he sat
by the window and read what he had already read many times.

"Why do you stay?" his sister asked him once, when she came to visit in the spring.

"Because the light has to be on before the first boat needs it," he said. "Nobody thanks a lamp that was on in time, and
everybody remembers the one that was not."

A train leaves the station at 9:15 and travels 120 kilometres in two hours. Its average speed is therefore 60 kilometres
per hour. If it waits for ten minutes at each of the three stops, the journey takes two and a half hours in all.

def mean(values):
    if not values:
        raise ValueError("the mean of nothing is not defined")
    return sum(values) / len(values)

Water boils at 100 degrees Celsius at sea level, and at a lower temperature in the mountains, because the pressure of
the air is lower there. Cooks who live in high villages know this well: their potatoes need more time.
"""
