"""Random small cohorts with everything that a cohort can carry."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from adapcla.data import Attribute, Code, Cohort, Vocabulary
from adapcla.data.vocabulary import (
    DISCHARGES,
    LENGTH_OF_STAY,
    VISIT_KINDS,
    discharge_code,
    is_code,
    normalize_code,
    visit_kind_code,
)

#: Words of several scripts, with separators, quotes and formula marks, without blanks at the ends.
WORDS = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=8)
TOKENS = st.one_of(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,20}", fullmatch=True),
    st.text(st.characters(categories=("L", "N", "P", "S"), include_characters=" "), min_size=1, max_size=20)
    .map(normalize_code)
    .filter(is_code),
)


@st.composite
def vocabularies(draw: st.DrawFn) -> Vocabulary:
    tokens = draw(st.lists(TOKENS, min_size=1, max_size=6, unique=True))
    codes = [
        Code(
            token,
            draw(st.sampled_from(["", "ICD9CM", "ICD10CM", "LOCAL", "SNOMED"])),
            draw(st.sampled_from(["", "9", "2024"])),
            draw(st.sampled_from(["", token, "0389"])),
            draw(st.one_of(st.just(""), WORDS)),
            draw(st.sampled_from(["diagnosis", "procedure", "drug", "other"])),
        )
        for token in tokens
    ]
    return Vocabulary.of(codes)


@st.composite
def whole_cohorts(draw: st.DrawFn) -> Cohort:
    """Up to four patients with numbers of several domains and units, choice groups, and stays with a length."""
    vocabulary = Vocabulary.of(
        [
            *(Code.of(name, "ICD9CM") for name in ("4019", "25000")),
            *(Code.of(f"insulin.{dose}", "DRUG", domain="drug", group="DRUG/insulin") for dose in ("up", "down")),
            *(visit_kind_code(name) for name in VISIT_KINDS),
            *(discharge_code(name) for name in DISCHARGES if name != "died"),
            Code.of("2345-7", "LOINC", domain="lab", unit=draw(st.sampled_from(["1", "mg/dL", "°F", "10*9/L", "=x"]))),
            Code.of("odd", "LOCAL", domain=draw(st.sampled_from(["diagnosis", "drug", "other", "stay"])), unit="g"),
            LENGTH_OF_STAY,
        ]
    )
    choices: dict[str, list[str | None]] = {}
    for code in vocabulary.codes:
        choices.setdefault(code.group or code.token, [None]).append(code.token)
    visit = st.tuples(*(st.sampled_from(tokens) for tokens in choices.values())).map(
        lambda held: [token for token in held if token is not None] or ["ICD9CM/4019"]
    )
    patients = draw(st.lists(st.lists(visit, min_size=1, max_size=3), min_size=1, max_size=4))
    flat = [vocabulary.index[token] for patient in patients for held in patient for token in sorted(held)]
    number = st.floats(0, 1e6, width=32)
    values = [draw(number) if vocabulary.numbers[code] else np.nan for code in flat]
    return Cohort.of(patients, vocabulary, values=np.array(values, dtype=np.float32))


@st.composite
def plain_cohorts(draw: st.DrawFn) -> Cohort:
    """Up to four patients with what every format holds: codes of known systems, days, values, stays, sex, age bands."""
    labs = [
        Code.of("2345-7", "LOINC", domain="lab", unit="mg/dL"),
        Code.of("718-7", "LOINC", domain="lab", unit="g/dL"),
    ]
    vocabulary = Vocabulary.of(
        [
            *(Code.of(name, "ICD9CM") for name in ("4019", "25000", "V4581")),
            Code.of("I10", "ICD10CM"),
            Code.of("9671", "ICD9PROC", domain="procedure"),
            Code.of("1191", "RXNORM", domain="drug"),
            *(visit_kind_code(name) for name in VISIT_KINDS if name != "other"),
            *(discharge_code(name) for name in DISCHARGES if name not in ("died", "other")),
            *labs,
            LENGTH_OF_STAY,
        ]
    )
    stay = st.tuples(
        *(
            st.sampled_from([code.token for code in vocabulary.codes if code.group == group])
            for group in ("kind", "end")
        )
    )
    several = st.lists(
        st.sampled_from([c.token for c in vocabulary.codes if not c.group and c != LENGTH_OF_STAY]), max_size=4
    )
    visit = st.tuples(stay, several).map(lambda held: ["ICD9CM/4019", LENGTH_OF_STAY.token, *held[0], *held[1]])
    patients = draw(st.lists(st.lists(visit, min_size=1, max_size=3), min_size=1, max_size=4))
    steps = [[0, *draw(st.lists(st.integers(60, 400), min_size=len(p) - 1, max_size=len(p) - 1))] for p in patients]
    flat = [vocabulary.index[token] for patient in patients for held in patient for token in sorted(set(held))]
    number = st.floats(0, 1e6, width=32)
    # Readers round lengths to hundredths of a day.
    days = st.integers(50, 5_000).map(lambda hundredths: hundredths / 100)
    numbers = [
        draw(days if code == vocabulary.index[LENGTH_OF_STAY.token] else number) if vocabulary.numbers[code] else np.nan
        for code in flat
    ]
    bands = tuple(f"{low}-{low + 9}" for low in range(0, 90, 10))
    n = len(patients)
    attributes = {
        name: Attribute(np.array(draw(st.lists(values, min_size=n, max_size=n)), dtype=np.int16), words)
        for name, words, values in (("sex", ("F", "M"), st.integers(-1, 1)), ("age_band", bands, st.integers(0, 8)))
    }
    return Cohort.of(
        patients,
        vocabulary,
        values=np.array(numbers, dtype=np.float32),
        days=np.concatenate([np.cumsum(step) for step in steps]).astype(np.int32),
        attributes=attributes,
    )


@st.composite
def cohorts(draw: st.DrawFn) -> Cohort:
    """Up to five patients; days, labels and attributes are there or not."""
    vocabulary = draw(vocabularies())
    visit = st.lists(st.sampled_from(vocabulary.tokens), min_size=1, max_size=4)
    # More than nine visits, so that ids of different width would be noticed.
    patients = draw(st.lists(st.lists(visit, min_size=1, max_size=12), min_size=1, max_size=5))
    n = len(patients)
    days = None
    if draw(st.booleans()):
        steps = [[0, *draw(st.lists(st.integers(0, 400), min_size=len(p) - 1, max_size=len(p) - 1))] for p in patients]
        days = np.concatenate([np.cumsum(step) for step in steps]).astype(np.int32)
    names = tuple(draw(st.lists(WORDS, max_size=3, unique=True)))
    bits = st.lists(st.integers(0, 1), min_size=n * len(names), max_size=n * len(names))
    labels = np.array(draw(bits), dtype=np.uint8).reshape(n, len(names)) if names else None
    attributes = {}
    for name in draw(st.lists(st.sampled_from(["sex", "age_band", "day", "code"]), max_size=2, unique=True)):
        words = tuple(draw(st.lists(WORDS, min_size=1, max_size=3, unique=True)))
        values = draw(st.lists(st.integers(-1, len(words) - 1), min_size=n, max_size=n))
        attributes[name] = Attribute(np.array(values, dtype=np.int16), words)
    return Cohort.of(patients, vocabulary, days=days, labels=labels, label_names=names, attributes=attributes)
