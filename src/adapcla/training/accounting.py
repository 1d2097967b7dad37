"""Privacy accounting: the noise that a requested ε needs, and the ε that added noise gives.

Opacus does the arithmetic. Counting and training are two mechanisms on the same patients: their ε and their δ add up.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from adapcla.errors import UsageError
from adapcla.training.budget import Budget, Privacy

#: Gap between the ε asked for and the one spent, at most.
_TOLERANCE = 0.01
Way = Literal["rdp", "prv"]


@dataclass(frozen=True)
class Spent:
    """One mechanism: Gaussian noise of `noise` times the bound on a patient, `steps` times, on a share of patients."""

    noise: float
    rate: float
    steps: int
    delta: float
    way: Way = "rdp"

    @property
    def epsilon(self) -> float:
        """The ε that Opacus gives for it."""
        return epsilon_of(self.noise, self.rate, self.steps, self.delta, self.way)


@dataclass(frozen=True)
class Account:
    """Everything that a private fit spends."""

    n_patients: int
    #: What counting codes and attributes spends; None where the prior is public and there is nothing else to count.
    counting: Spent | None
    training: Spent

    @property
    def epsilon(self) -> float:
        """ε of everything."""
        return self.training.epsilon + (self.counting.epsilon if self.counting else 0.0)

    @property
    def delta(self) -> float:
        """δ of everything."""
        return self.training.delta + (self.counting.delta if self.counting else 0.0)

    def statement(self) -> dict[str, Any]:
        """The parts and the whole, for cards."""
        parts = {"training": self.training} | ({"counting": self.counting} if self.counting else {})
        return {
            "epsilon": _up(self.epsilon),
            "delta": self.delta,
            "parts": {
                name: {
                    "epsilon": _up(part.epsilon),
                    "delta": part.delta,
                    "noise multiplier": round(part.noise, 6),
                    "sampling rate": round(part.rate, 8),
                    "steps": part.steps,
                }
                for name, part in sorted(parts.items())
            },
            "accountant": f"{self.training.way} of opacus {_opacus_version()}",
        }


def account_for(privacy: Privacy, budget: Budget, n_patients: int, counts: bool) -> Account:
    """The noise that keeps ε and δ over a whole budget; with `counts` a share of both is for counting."""
    rate, steps = sampling_rate(budget, n_patients), budget.steps(n_patients)
    delta, way = privacy.delta_of(n_patients), privacy.accountant
    if not counts:
        return Account(
            n_patients, None, Spent(noise_for(privacy.epsilon, delta, rate, steps, way), rate, steps, delta, way)
        )
    share = privacy.prior_share
    counting = Spent(noise_for(share * privacy.epsilon, delta / 2, 1.0, 1, way), 1.0, 1, delta / 2, way)
    left = privacy.epsilon - counting.epsilon
    return Account(
        n_patients, counting, Spent(noise_for(left, delta / 2, rate, steps, way), rate, steps, delta / 2, way)
    )


def sampling_rate(budget: Budget, n_patients: int) -> float:
    """The chance of each patient to be in a step.

    >>> sampling_rate(Budget(batch_size=50), 200)
    0.25
    """
    return min(1.0, budget.batch_size / n_patients)


@cache
def noise_for(epsilon: float, delta: float, rate: float, steps: int, way: Way = "rdp") -> float:
    """The smallest noise, as a multiple of the bound on a patient, that keeps ε."""
    _demand_opacus()
    from opacus.accountants.utils import get_noise_multiplier

    with warnings.catch_warnings():
        # The search begins with huge noise, where Opacus says that its orders end.
        warnings.simplefilter("ignore")
        try:
            multiplier = get_noise_multiplier(
                target_epsilon=epsilon,
                target_delta=delta,
                sample_rate=rate,
                steps=steps,
                accountant=way,
                epsilon_tolerance=min(_TOLERANCE, epsilon / 100),
            )
        except ValueError:
            raise UsageError(
                f"no amount of noise keeps ε = {epsilon:g} at δ = {delta:g}\n"
                "to do: ask for a larger ε or δ, or fewer passes"
            ) from None
    return float(multiplier)


@cache
def epsilon_of(noise: float, rate: float, steps: int, delta: float, way: Way = "rdp") -> float:
    """The ε of so many steps with this noise on a random share of the patients."""
    _demand_opacus()
    from opacus.accountants import create_accountant

    accountant = create_accountant(mechanism=way)
    accountant.history = [(noise, rate, steps)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(accountant.get_epsilon(delta=delta))


def _up(value: float) -> float:
    """A number rounded up, so that a card never says less than is spent.

    >>> _up(7.99991)
    8.0
    """
    return -(-value * 1e4 // 1) / 1e4


def _opacus_version() -> str:
    from importlib.metadata import version

    return version("opacus")


def _demand_opacus() -> None:
    from importlib.util import find_spec

    if find_spec("opacus") is None:
        raise UsageError("differential privacy needs Opacus\nto do: pip install 'adapcla[dp]' -c constraints.txt")
