"""OMOP CDM 5.4 as far as exports fill it: the columns of its tables, and the concepts that need no vocabulary.

Columns by OHDSI, CommonDataModel, DDL of version 5.4; concepts by OHDSI, Standardized Vocabularies.
"""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

_CODED = "provider_id visit_occurrence_id visit_detail_id"
_COLUMNS = {
    "person": """person_id gender_concept_id year_of_birth month_of_birth day_of_birth birth_datetime race_concept_id
        ethnicity_concept_id location_id provider_id care_site_id person_source_value gender_source_value
        gender_source_concept_id race_source_value race_source_concept_id ethnicity_source_value
        ethnicity_source_concept_id""",
    "observation_period": """observation_period_id person_id observation_period_start_date
        observation_period_end_date period_type_concept_id""",
    "visit_occurrence": """visit_occurrence_id person_id visit_concept_id visit_start_date visit_start_datetime
        visit_end_date visit_end_datetime visit_type_concept_id provider_id care_site_id visit_source_value
        visit_source_concept_id admitted_from_concept_id admitted_from_source_value discharged_to_concept_id
        discharged_to_source_value preceding_visit_occurrence_id""",
    "condition_occurrence": f"""condition_occurrence_id person_id condition_concept_id condition_start_date
        condition_start_datetime condition_end_date condition_end_datetime condition_type_concept_id
        condition_status_concept_id stop_reason {_CODED} condition_source_value condition_source_concept_id
        condition_status_source_value""",
    "procedure_occurrence": f"""procedure_occurrence_id person_id procedure_concept_id procedure_date procedure_datetime
        procedure_end_date procedure_end_datetime procedure_type_concept_id modifier_concept_id quantity {_CODED}
        procedure_source_value procedure_source_concept_id modifier_source_value""",
    "drug_exposure": f"""drug_exposure_id person_id drug_concept_id drug_exposure_start_date
        drug_exposure_start_datetime drug_exposure_end_date drug_exposure_end_datetime verbatim_end_date
        drug_type_concept_id stop_reason refills quantity days_supply sig route_concept_id lot_number {_CODED}
        drug_source_value drug_source_concept_id route_source_value dose_unit_source_value""",
    "device_exposure": f"""device_exposure_id person_id device_concept_id device_exposure_start_date
        device_exposure_start_datetime device_exposure_end_date device_exposure_end_datetime device_type_concept_id
        unique_device_id production_id quantity {_CODED} device_source_value device_source_concept_id unit_concept_id
        unit_source_value unit_source_concept_id""",
    "measurement": f"""measurement_id person_id measurement_concept_id measurement_date measurement_datetime
        measurement_time measurement_type_concept_id operator_concept_id value_as_number value_as_concept_id
        unit_concept_id range_low range_high {_CODED} measurement_source_value measurement_source_concept_id
        unit_source_value unit_source_concept_id value_source_value measurement_event_id meas_event_field_concept_id""",
    "observation": f"""observation_id person_id observation_concept_id observation_date observation_datetime
        observation_type_concept_id value_as_number value_as_string value_as_concept_id qualifier_concept_id
        unit_concept_id {_CODED} observation_source_value observation_source_concept_id unit_source_value
        qualifier_source_value value_source_value observation_event_id obs_event_field_concept_id""",
    "death": """person_id death_date death_datetime death_type_concept_id cause_concept_id cause_source_value
        cause_source_concept_id""",
    "condition_era": """condition_era_id person_id condition_concept_id condition_era_start_date
        condition_era_end_date condition_occurrence_count""",
    "concept": """concept_id concept_name domain_id vocabulary_id concept_class_id standard_concept concept_code
        valid_start_date valid_end_date invalid_reason""",
    "vocabulary": """vocabulary_id vocabulary_name vocabulary_reference vocabulary_version vocabulary_concept_id""",
    "domain": "domain_id domain_name domain_concept_id",
    "concept_class": "concept_class_id concept_class_name concept_class_concept_id",
    "relationship": """relationship_id relationship_name is_hierarchical defines_ancestry reverse_relationship_id
        relationship_concept_id""",
    "concept_relationship": """concept_id_1 concept_id_2 relationship_id valid_start_date valid_end_date
        invalid_reason""",
    "cdm_source": """cdm_source_name cdm_source_abbreviation cdm_holder source_description
        source_documentation_reference cdm_etl_reference source_release_date cdm_release_date cdm_version
        cdm_version_concept_id vocabulary_version""",
}
#: Table → its columns, in the order of the CDM.
COLUMNS = {table: tuple(columns.split()) for table, columns in _COLUMNS.items()}
#: The days between which a concept holds, unless a vocabulary says otherwise.
VALID_FROM, VALID_TO = date(1970, 1, 1), date(2099, 12, 31)


class Concept(NamedTuple):
    """A row of the table concept, in the order of its columns."""

    concept_id: int
    concept_name: str
    domain_id: str
    vocabulary_id: str
    concept_class_id: str
    standard_concept: str | None
    concept_code: str
    valid_start_date: date = VALID_FROM
    valid_end_date: date = VALID_TO
    invalid_reason: str | None = None


MALE, FEMALE, EHR, EHR_ENCOUNTER, CDM_54 = 8507, 8532, 32817, 32827, 756265
#: Type of visit → its concept.
VISIT_TYPES = {"inpatient": 9201, "outpatient": 9202, "emergency": 9203}
#: Kind of visit and ending of a cohort → the concept that says the same; others have none.
KINDS = {
    "inpatient": 9201,
    "elective": 9201,
    "emergency-inpatient": 262,
    "emergency": 9203,
    "outpatient": 9202,
}
#: Where a patient goes is a concept of visits; of deaths the table of deaths tells.
ENDS = {"home": 8536, "home-care": 38004519, "hospice": 8546, "against-advice": 4021968}
#: What is known without a vocabulary. No matching concept is 0.
BUILT_IN = (
    Concept(0, "No matching concept", "Metadata", "None", "Undefined", None, "No matching concept"),
    Concept(MALE, "MALE", "Gender", "Gender", "Gender", "S", "M"),
    Concept(FEMALE, "FEMALE", "Gender", "Gender", "Gender", "S", "F"),
    Concept(9201, "Inpatient Visit", "Visit", "Visit", "Visit", "S", "IP"),
    Concept(9202, "Outpatient Visit", "Visit", "Visit", "Visit", "S", "OP"),
    Concept(9203, "Emergency Room Visit", "Visit", "Visit", "Visit", "S", "ER"),
    Concept(EHR, "EHR", "Type Concept", "Type Concept", "Type Concept", "S", "OMOP4976890"),
    Concept(EHR_ENCOUNTER, "EHR encounter record", "Type Concept", "Type Concept", "Type Concept", "S", "OMOP4976900"),
    Concept(CDM_54, "OMOP CDM Version 5.4.0", "Metadata", "CDM", "CDM", "S", "CDM v5.4.0"),
)
#: What is needed beside where visits say their kind and ending.
STAY_CONCEPTS = (
    Concept(262, "Emergency Room and Inpatient Visit", "Visit", "Visit", "Visit", "S", "ERIP"),
    Concept(8536, "Home", "Visit", "CMS Place of Service", "Visit", "S", "12"),
    Concept(8546, "Hospice", "Visit", "CMS Place of Service", "Visit", "S", "34"),
    Concept(38004519, "Home Health Agency", "Visit", "Medicare Specialty", "Provider", "S", "A4"),
    Concept(
        4021968, "Patient self-discharge against medical advice", "Observation", "SNOMED", "Procedure", "S", "225928004"
    ),
)
