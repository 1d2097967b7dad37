"""The smallest count of people that may be published."""

from __future__ import annotations

#: The smallest count, other than 0, that may be told: statistical offices suppress cells of 1 to 10 people or visits.
SMALLEST_COUNT = 11
#: The counts that may not be told, for sentences.
SMALL_COUNTS = f"1 to {SMALLEST_COUNT - 1}"
