"""The paper's idea: a rarity bias, its weight over training, and the shift towards another population.

Lives here: `Scaffold`, `Schedule`, `shift` and the closed loop that corrects it. Numbers only.
May not: know a network or a file.
May import: data and the ground floor.
"""

from adapcla.scaffold.bias import Scaffold
from adapcla.scaffold.schedule import Ramp, Schedule, schedule
from adapcla.scaffold.steering import Steering, shift

__all__ = ["Ramp", "Scaffold", "Schedule", "Steering", "schedule", "shift"]
