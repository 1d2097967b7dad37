"""The smallest count of people that may be published."""

from __future__ import annotations

#: The smallest count, other than 0, that may be told: statistical offices suppress cells of 1 to 10 people or visits.
SMALLEST_COUNT = 11
#: The counts that may not be told, for sentences.
SMALL_COUNTS = f"1 to {SMALLEST_COUNT - 1}"


def told(n: int, smallest: int = SMALLEST_COUNT) -> str:
    """A count of people or of what they hold, as it may be published.

    >>> told(1234), told(3), told(0), told(15, smallest=22)
    ('1,234', 'fewer than 11', '0', 'fewer than 22')
    """
    return f"{n:,}" if n == 0 or n >= smallest else f"fewer than {smallest}"
