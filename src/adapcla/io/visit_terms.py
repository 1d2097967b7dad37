"""What sources call kinds of visits and endings, and which kind or ending of a cohort each word is.

Words are compared in lower case. An empty meaning says that the word tells nothing; a word that is not listed is
`other`, and counted.
"""

from __future__ import annotations

from adapcla.data.vocabulary import DISCHARGES, VISIT_KINDS

_NOTHING = dict.fromkeys(("", "?", "unk", "unknown", "null", "none", "na", "n/a", "0", "not available"), "")
_FACILITY = "facility"
#: The names that a cohort has itself, and the same as tokens, for formats in which they stand beside other words.
OWN_KINDS = {**_NOTHING, **{name: name for name in VISIT_KINDS}}
OWN_ENDS = {**_NOTHING, **{name: name for name in DISCHARGES}}
KIND_TOKENS = {f"kind/{name}": name for name in VISIT_KINDS}
END_TOKENS = {f"end/{name}": name for name in DISCHARGES}
MIMIC_KINDS = {
    **_NOTHING,
    "emergency": "emergency-inpatient",
    "ew emer.": "emergency-inpatient",
    "direct emer.": "emergency-inpatient",
    "urgent": "inpatient",
    "newborn": "inpatient",
    "elective": "elective",
    "surgical same day admission": "elective",
    "ambulatory observation": "observation",
    "direct observation": "observation",
    "eu observation": "observation",
    "observation admit": "observation",
}
MIMIC_ENDS = {
    **_NOTHING,
    "home": "home",
    "home health care": "home-care",
    "home with home iv providr": "home-care",
    "died": "died",
    "dead/expired": "died",
    "against advice": "against-advice",
    "left against medical advi": "against-advice",
    **dict.fromkeys(("hospice", "hospice-home", "hospice-medical facility"), "hospice"),
    **dict.fromkeys(
        (
            *(
                "snf",
                "snf-medicaid only certif",
                "skilled nursing facility",
                "icf",
                "rehab",
                "rehab/distinct part hosp",
            ),
            *("long term care hospital", "chronic/long term acute care", "acute hospital", "short term hospital"),
            *("psych facility", "disch-tran to psych hosp", "disc-tran cancer/chldrn h", "disc-tran to federal hc"),
            *("assisted living", "healthcare facility", "other facility"),
        ),
        _FACILITY,
    ),
}
#: Where the stay in hospital began, in eICU; every one of its stays is an inpatient stay.
EICU_KINDS = {
    **_NOTHING,
    "emergency department": "emergency-inpatient",
    **dict.fromkeys(
        (
            *("direct admit", "floor", "operating room", "recovery room", "other hospital", "other icu", "pacu"),
            *("step-down unit (sdu)", "acute care/floor", "chest pain center", "icu", "icu to sdu", "observation"),
        ),
        "inpatient",
    ),
}
EICU_ENDS = {
    **_NOTHING,
    "home": "home",
    "death": "died",
    "expired": "died",
    **dict.fromkeys(
        ("skilled nursing facility", "rehabilitation", "other hospital", "nursing home", "other external"), _FACILITY
    ),
}
#: Concepts of OMOP, by number.
OMOP_KINDS = {
    **_NOTHING,
    "9201": "inpatient",
    "8717": "inpatient",
    "9202": "outpatient",
    "581477": "outpatient",
    "8756": "outpatient",
    "32036": "outpatient",
    "9203": "emergency",
    "262": "emergency-inpatient",
    "581385": "observation",
    "581476": "home",
    "5083": "home",
}
OMOP_ENDS = {
    **_NOTHING,
    "8536": "home",
    "581476": "home",
    "38004519": "home-care",
    "8546": "hospice",
    "4021968": "against-advice",
    "4216643": "died",
    **dict.fromkeys(("8863", "8717", "8676", "8920", "8970", "8971", "8615", "38004285", "9201"), _FACILITY),
}
#: Classes of encounters and discharge dispositions of FHIR.
FHIR_KINDS = {
    **_NOTHING,
    **dict.fromkeys(("imp", "acute", "nonac"), "inpatient"),
    "emer": "emergency",
    "amb": "outpatient",
    **dict.fromkeys(("obsenc", "ss"), "observation"),
    **dict.fromkeys(("hh", "vr"), "home"),
}
FHIR_ENDS = {
    **_NOTHING,
    **dict.fromkeys(("home", "alt-home"), "home"),
    "hosp": "hospice",
    "aadvice": "against-advice",
    "exp": "died",
    "oth": "other",
    **dict.fromkeys(("other-hcf", "long", "psy", "rehab", "snf"), _FACILITY),
}
#: Words of hospitals in other languages and of claims.
_KIND_WORDS = {
    **dict.fromkeys(
        ("notfall", "notfallaufnahme", "urgence", "urgencias", "emergency admission"), "emergency-inpatient"
    ),
    **dict.fromkeys(("stationär", "vollstationär", "normalfall", "hospitalisation", "hospitalización"), "inpatient"),
    **dict.fromkeys(("geplant", "elektiv", "planned", "programmé", "programada"), "elective"),
    **dict.fromkeys(("ambulant", "ambulatoire", "consultation", "consulta", "clinic"), "outpatient"),
}
_END_WORDS = {
    **dict.fromkeys(("verstorben", "tod", "exitus", "died in hospital", "deceased", "décès", "fallecido"), "died"),
    **dict.fromkeys(
        ("nach hause", "entlassung nach hause", "regulär", "domicile", "domicilio", "usual residence"), "home"
    ),
    **dict.fromkeys(
        ("verlegung", "verlegt", "pflegeheim", "reha", "rehabilitation", "transfert", "traslado"), _FACILITY
    ),
    **dict.fromkeys(("gegen ärztlichen rat", "self-discharge", "contre avis médical"), "against-advice"),
}
#: Any table: the names of a cohort, then the words that are met most.
TABLE_KINDS = {**_KIND_WORDS, **MIMIC_KINDS, **FHIR_KINDS, **OMOP_KINDS, **OWN_KINDS}
TABLE_ENDS = {**_END_WORDS, **EICU_ENDS, **MIMIC_ENDS, **FHIR_ENDS, **OMOP_ENDS, **OWN_ENDS}
#: Classes of encounters of Synthea.
SYNTHEA_KINDS = {
    **_NOTHING,
    **dict.fromkeys(("ambulatory", "outpatient", "wellness", "urgentcare", "snf"), "outpatient"),
    **dict.fromkeys(("home", "virtual"), "home"),
    "hospice": "other",
    "inpatient": "inpatient",
    "emergency": "emergency",
}
