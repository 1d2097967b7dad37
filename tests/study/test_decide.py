from __future__ import annotations

import numpy as np
import pytest

from adapcla.errors import UsageError
from adapcla.files import read_json
from adapcla.pipeline.spec import spec_from
from adapcla.study import decide
from adapcla.study.claims import Claim
from adapcla.study.decide import decided_now, error_of_look, more_seeds, run_until_decided, spent
from adapcla.study.ruling import CANNOT_TELL, ERROR, HELD, over_fits, rulings
from adapcla.study.verdicts import Examined

SMALL = {
    "name": "small",
    "data": {"planted": {"patients": 60, "codes": 60}},
    "fit": {
        "methods": ["adapcla", "adapcla-no-scaffold"],
        "settings": {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 64},
    },
    "split": {"vary": True},
    "evaluate": {"suites": ["tail"], "quick": True},
    "decide": {"claims": [["adapcla", "adapcla-no-scaffold", "tail_pair_seen"]], "most": 8, "step": 1},
}


def claim(number, gains):
    return Examined("text", "paper", "–", "", over_fits(gains), of=Claim("text", f"row{number}", "other", "metric"))


def wrong_verdicts(numbers, looks_at, most):
    """Whether any of several claims without a gain is decided at any look, by the spending rule and without it."""
    looks, careless = [], False
    for n in looks_at:
        claims = [claim(number, gains[:n]) for number, gains in enumerate(numbers)]
        looks.append(decided_now(claims, looks, n, most))
        careless = careless or any(word != CANNOT_TELL for word in rulings([one.assessed for one in claims]))
    return any(look["decided"] for look in looks), careless


def test_looking_often_keeps_the_error_of_the_page_and_would_not_without_paying():
    """Nine looks at three claims without a gain: at most 5 % of pages have a wrong verdict; unpaid for, many more."""
    rng = np.random.default_rng(5)
    looks_at, trials = range(4, 21, 2), 400
    found = np.array([wrong_verdicts(rng.normal(size=(3, 20)), looks_at, 20) for _ in range(trials)])
    paid, careless = found.mean(axis=0)
    # Three binomial errors above 5 % for 400 pages.
    assert paid <= ERROR + 3 * (ERROR * (1 - ERROR) / trials) ** 0.5
    assert careless > 0.1


def test_a_gain_that_is_there_is_found_before_the_last_look():
    rng = np.random.default_rng(6)
    gains, looks = 0.1 + 0.02 * rng.normal(size=20), []
    for n in (4, 6, 8):
        looks.append(decided_now([claim(1, gains[:n])], looks, n, 20))
    assert [word for look in looks for word in look["decided"].values()] == [HELD]


def test_the_parts_of_all_looks_are_the_error_at_most():
    parts = [error_of_look(n, before, 20) for before, n in ((0, 4), (4, 7), (7, 8), (8, 20), (20, 24))]
    assert sum(parts) == pytest.approx(ERROR) and parts[-1] == 0 and spent(0.5) < ERROR


def test_what_an_earlier_look_decided_stays_decided():
    looks = [{"fits": 4, "error": 0.01, "decided": {claim(1, [0.0] * 4).key: HELD}}]
    now = decided_now([claim(1, [0.0, 0.1, -0.1, 0.05, 0.0])], looks, 5, 20)
    assert now["decided"] == {}


def test_seeds_grow_without_touching_those_that_are_there():
    assert more_seeds((3, 1), 4) == (3, 1, 4, 5) and more_seeds((1, 2), 2) == (1, 2)


def test_fits_are_added_on_new_splits_until_the_time_is_spent_and_a_second_run_spends_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(decide, "rulings", lambda claims, error: [CANNOT_TELL] * len(claims))
    monkeypatch.setattr("adapcla.study.plan.Plan.run", lambda self: self.folder.report)
    plan, _ = run_until_decided(spec_from(SMALL), tmp_path, minutes=0)
    root = plan.folder.root
    looks = read_json(root / decide.LOOKS)["looks"]
    # One seed was asked for: the fewest that decide anything are there, each with a split of its own.
    assert plan.spec.fit.seeds == (1, 2, 3, 4) and [look["fits"] for look in looks] == [4]
    splits = {plan.parts_of(seed)["train"].fingerprint for seed in plan.spec.fit.seeds}
    assert len(splits) == 4
    again, _ = run_until_decided(spec_from(SMALL), tmp_path, minutes=0)
    assert read_json(root / decide.LOOKS)["looks"] == looks and list(again.looks) == looks
    # Fits that are asked for by hand are one more look, and what was spent stays spent.
    assert decide._design_key(spec_from(SMALL, {"fit.seeds": [1, 2]})) == decide._design_key(spec_from(SMALL))
    more, _ = run_until_decided(spec_from(SMALL), tmp_path, minutes=9, clock=iter([0.0, 0.0, 1e6]).__next__)
    assert more.spec.fit.seeds == (1, 2, 3, 4, 5)
    assert sum(look["error"] for look in more.looks) == pytest.approx(spent(5 / 8))


def test_a_claim_that_the_run_cannot_speak_to_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("adapcla.study.plan.Plan.work", lambda self: None)
    monkeypatch.setattr("adapcla.study.plan.Plan.write_index", lambda self: None)
    monkeypatch.setattr(decide.Study, "open", classmethod(lambda cls, root: None))
    monkeypatch.setattr(decide, "all_examined", lambda study: [])
    with pytest.raises(UsageError, match="adapcla over adapcla-no-scaffold on tail_pair_seen"):
        run_until_decided(spec_from(SMALL), tmp_path, minutes=0)
