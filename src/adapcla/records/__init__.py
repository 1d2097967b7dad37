"""Patients and their codes.

Lives here: the vocabulary of codes, the cohort of patients, its origin, split, prevalence, strata and folder on disk.
May not: read anybody's file format, know a network, a metric or a figure.
May import: numpy, scipy and the ground floor.
"""

from adapcla.records.attribute import Attribute
from adapcla.records.cohort import Cohort
from adapcla.records.hierarchy import Hierarchy
from adapcla.records.labels import LabelRule
from adapcla.records.origin import Kind, Origin
from adapcla.records.prevalence import Prevalence
from adapcla.records.strata import Strata
from adapcla.records.vocabulary import Code, Vocabulary

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
