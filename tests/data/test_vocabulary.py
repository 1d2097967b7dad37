"""The vocabulary: order, form of codes, and the way from string to position and back."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Code, Vocabulary
from adapcla.errors import InputError

tokens = st.lists(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._/ -]{0,20}[A-Za-z0-9]", fullmatch=True), unique=True, max_size=20
)


def test_token_joins_system_and_code_and_keeps_leading_zeros():
    assert Code.of("0389", system="ICD9CM").token == "ICD9CM/0389"
    assert Code.of("0389").token == "0389"


def test_codes_are_sorted_and_the_first_of_equal_tokens_is_kept():
    vocabulary = Vocabulary.of([Code.of("B", description="one"), Code.of("A"), Code.of("B", description="two")])
    assert vocabulary.tokens == ("A", "B")
    assert vocabulary.codes[1].description == "one"


@given(tokens)
def test_order_of_arrival_does_not_matter(names):
    assert Vocabulary.of(names) == Vocabulary.of(reversed(names))
    assert Vocabulary.of(names).fingerprint == Vocabulary.of(reversed(names)).fingerprint


@given(tokens)
def test_index_and_tokens_are_inverse(names):
    vocabulary = Vocabulary.of(names)
    assert [vocabulary.index[token] for token in vocabulary.tokens] == list(range(len(vocabulary)))
    assert vocabulary.positions(vocabulary.tokens).tolist() == list(range(len(vocabulary)))


@given(tokens, st.randoms())
def test_subset_keeps_order_and_content(names, random):
    vocabulary = Vocabulary.of(names)
    keep = np.array([random.random() < 0.5 for _ in names], dtype=bool)
    assert vocabulary.subset(keep).codes == tuple(vocabulary.codes[i] for i in np.flatnonzero(keep))


@pytest.mark.parametrize("codes", [("B", "A"), ("A", "A")])
def test_a_vocabulary_out_of_order_is_refused(codes):
    with pytest.raises(InputError, match="order"):
        Vocabulary(tuple(Code(code) for code in codes))


@pytest.mark.parametrize("bad", ["", " A", "A ", "A\nB", "A\n", "A\u200eB", "x" * 257, "A\x00"])
def test_a_code_of_another_form_is_refused_without_showing_it(bad):
    with pytest.raises(InputError) as caught:
        Vocabulary.of([bad])
    assert not bad or bad not in str(caught.value).split("expected")[0]


@pytest.mark.parametrize(
    "good", ["0389", "NA", "None", "1E10", "I10", "A.B_C-D/E", "x" * 256, "Aspirin 81 mg", "é", "=1+1", "-1", ".5"]
)
def test_codes_that_look_like_something_else_stay_what_they_are(good):
    assert Vocabulary.of([good]).tokens == (good,)


def test_equal_meaning_of_positions_gives_equal_fingerprints_whatever_the_descriptions():
    plain, told = Vocabulary.of(["A"]), Vocabulary.of([Code("A", description="Alpha")])
    assert plain.fingerprint == told.fingerprint
    assert plain != told


def test_domains_partition_the_vocabulary():
    vocabulary = Vocabulary.of([Code.of("A", domain="drug"), Code.of("B"), Code.of("C", domain="procedure")])
    assert vocabulary.domains == ("diagnosis", "drug", "procedure")
    assert sum(vocabulary.domain_mask(domain).astype(int) for domain in vocabulary.domains).tolist() == [1, 1, 1]


def test_vocabularies_can_be_keys():
    assert len({Vocabulary.of(["A", "B"]), Vocabulary.of(["B", "A"]), Vocabulary.of(["A"])}) == 2


def test_fifty_thousand_codes_are_no_burden():
    """Measured at well under a second; the bound only tells linear from quadratic."""
    started = time.process_time()
    vocabulary = Vocabulary.of(f"C{i:05d}" for i in range(50_000))
    assert vocabulary.positions(vocabulary.tokens)[-1] == 49_999
    assert time.process_time() - started < 5
