"""What may be said of a cohort, and what may not."""

from __future__ import annotations

from typing import Any

import pytest

from adapcla.errors import UsageError
from adapcla.io.writers.options import WriteOptions


@pytest.mark.parametrize("wrong", [{"split": "test"}, {"visit_type": "ward"}, {"birth_year": 0}, {"birth_year": 2001}])
def test_wrong_words_and_years_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=str(next(iter(wrong.values())))):
        WriteOptions(**wrong)
