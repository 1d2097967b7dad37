"""Patients and their codes.

Lives here: the vocabulary of codes, the cohort of patients, its origin, split, prevalence, strata and folder on disk.
May not: read anybody's file format, know a network, a metric or a figure.
May import: numpy, scipy and the ground floor.
"""

from adapcla.data.attributes import Attribute
from adapcla.data.code_systems import Hierarchy
from adapcla.data.cohort import Cohort
from adapcla.data.labels import LabelRule
from adapcla.data.prevalence import Prevalence, Strata
from adapcla.data.provenance import Kind, Origin
from adapcla.data.vocabulary import Code, Vocabulary

__all__ = [
    "Attribute",
    "Code",
    "Cohort",
    "Hierarchy",
    "Kind",
    "LabelRule",
    "Origin",
    "Prevalence",
    "Strata",
    "Vocabulary",
]
