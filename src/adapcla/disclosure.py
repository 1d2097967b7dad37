"""The smallest count of people that may be published."""

from __future__ import annotations

#: The smallest count, other than 0, that may be published: statistical offices suppress cells of 1 to 10 people.
MIN_COUNT = 11
#: The counts that may not be published, for sentences.
SMALL_COUNTS = f"1 to {MIN_COUNT - 1}"


def format_count(n: int, smallest: int = MIN_COUNT) -> str:
    """A count of people or of what they hold, as it may be published.

    >>> format_count(1234), format_count(3), format_count(0), format_count(15, smallest=22)
    ('1,234', 'fewer than 11', '0', 'fewer than 22')
    """
    return f"{n:,}" if n == 0 or n >= smallest else f"fewer than {smallest}"
