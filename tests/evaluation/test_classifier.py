"""The classifiers are bidirectional LSTMs, and none depends on the others."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit as sigmoid

from adapcla import Cohort
from adapcla.evaluation import classifier
from adapcla.evaluation.classifier import ClassifierSettings, ExampleSet, FlatVisits, fit_classifiers, pack, predict

SMALL = ClassifierSettings(embedding=8, hidden=5, epochs=6, patience=2, batch=20, fewest_steps=5)


def world(n: int, seed: int) -> Cohort:
    """Patients of 1 to 6 visits with 1 to 4 of 30 codes each."""
    random = np.random.default_rng(seed)
    return Cohort.of(
        [
            [
                [f"C{c:02d}" for c in random.choice(30, random.integers(1, 5), replace=False)]
                for _ in range(random.integers(1, 7))
            ]
            for _ in range(n)
        ],
        [f"C{c:02d}" for c in range(30)],
    )


def has_code(cohort: Cohort, code: int) -> np.ndarray:
    return (cohort.patient_matrix()[:, code].toarray() > 0).astype(np.uint8)


def examples_of(cohort: Cohort, codes: list[int], first: int, stop: int) -> ExampleSet:
    """One classifier per code, each with its own order of the patients."""
    rows = tuple(np.random.default_rng(code).permutation(cohort.n_patients)[first:stop] for code in codes)
    return ExampleSet(cohort, rows, tuple(has_code(cohort, code)[row] for code, row in zip(codes, rows, strict=True)))


def test_logits_are_those_of_each_record_alone_and_padding_nobody():
    """The gates written out, one visit after the other, for the records of a batch of different lengths."""
    import torch

    cohort = world(40, seed=0)
    flat = FlatVisits.of(cohort, np.arange(cohort.n_codes))
    network = classifier._network(cohort.n_codes, np.ones((4, 3), np.uint8), 1, 0, SMALL)
    weights = {name: weight.detach().numpy() for name, weight in network.named_parameters()}
    rows = np.array([3, 17, 0, 5, 5, 39])
    with torch.no_grad():
        logits = classifier._logits(network, flat, rows).numpy()
    for patient, found in zip(rows, logits, strict=True):
        first, stop = cohort.patient_starts[patient], cohort.patient_starts[patient + 1]
        visits = cohort.matrix().toarray()[first:stop] @ weights["codes.weight"]
        for layer in range(SMALL.layers):
            forward = recurrence(visits, weights, f"l{layer}")
            backward = recurrence(visits[::-1], weights, f"l{layer}_reverse")
            visits = np.concatenate([forward, backward[::-1]], axis=1)
        state = np.concatenate([forward[-1], backward[-1]])
        assert found == pytest.approx(weights["output.weight"] @ state + weights["output.bias"], abs=1e-5)


def recurrence(visits: np.ndarray, weights: dict[str, np.ndarray], name: str) -> np.ndarray:
    """The states of one LSTM layer in one direction: gates input, forget, candidate, output, by their definition."""
    state, cell, out = np.zeros(SMALL.hidden), np.zeros(SMALL.hidden), []
    for visit in visits:
        gates = weights[f"visits.weight_ih_{name}"] @ visit + weights[f"visits.weight_hh_{name}"] @ state
        enter, forget, candidate, leave = np.split(gates + weights[f"visits.bias_ih_{name}"], 4)
        cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(candidate)
        state = sigmoid(leave) * np.tanh(cell)
        out.append(state)
    return np.array(out)


def test_the_network_is_the_documented_one_and_outputs_start_at_prevalence():
    network = classifier._network(30, np.array([[1], [0], [0], [0]], np.uint8), 1, 0, ClassifierSettings())
    lstm = network["visits"]
    assert (lstm.input_size, lstm.hidden_size, lstm.num_layers, lstm.bidirectional) == (64, 32, 2, True)
    assert float(sigmoid(network["output"].bias.detach().numpy())[0]) == pytest.approx(1.5 / 5, abs=1e-6)


def test_a_classifier_comes_out_the_same_alone_and_among_others():
    cohort, codes = world(300, seed=1), [2, 7, 11]
    train, valid, test = (examples_of(cohort, codes, *cut) for cut in ((0, 160), (160, 200), (200, 300)))
    together = predict(fit_classifiers(train, valid, seed=5, settings=SMALL), test)
    for i in range(len(codes)):
        own = fit_classifiers(train.part([i]), valid.part([i]), seed=5, settings=SMALL, numbers=[i])
        assert predict(own, test.part([i]))[0].tobytes() == together[i].tobytes()


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    cohort = world(120, seed=1)
    train, valid, test = (examples_of(cohort, [2, 7], *cut) for cut in ((0, 80), (80, 100), (100, 120)))
    one, same, other = (predict(fit_classifiers(train, valid, seed, SMALL), test)[0] for seed in (1, 1, 2))
    assert one.tobytes() == same.tobytes()
    assert one.tobytes() != other.tobytes()


def test_a_code_in_the_input_is_learned():
    cohort = world(600, seed=3)
    train, valid, test = (examples_of(cohort, [4], *cut) for cut in ((0, 450), (450, 500), (500, 600)))
    model = fit_classifiers(train, valid, 1, ClassifierSettings(epochs=8, fewest_steps=20, batch=100))
    probability = predict(model, test)[0][:, 0]
    assert np.mean((probability >= 0.5) == (test.targets[0][:, 0] == 1)) > 0.95


def test_the_chosen_epoch_is_the_best_on_validation():
    """Labels that have nothing to do with the record can only be memorised, so the first epochs are the best."""
    cohort = world(200, seed=4)
    noise = np.random.default_rng(0).integers(0, 2, (200, 1)).astype(np.uint8)
    train, valid = (ExampleSet(cohort, (rows,), (noise[rows],)) for rows in (np.arange(100), np.arange(100, 200)))
    eager = ClassifierSettings(embedding=8, hidden=5, epochs=30, patience=2, batch=20, fewest_steps=20, rate=0.03)
    (model,) = fit_classifiers(train, valid, 1, eager).each
    assert model.epoch < 10
    assert model.n_epochs == model.epoch + 1 + eager.patience


def test_prediction_does_not_depend_on_how_many_are_read_at_once():
    cohort = world(60, seed=1)
    train, valid, test = (examples_of(cohort, [2, 7], *cut) for cut in ((0, 30), (30, 40), (40, 60)))
    uneven = ExampleSet(test.inputs, (test.rows[0], test.rows[1][:7]), (test.targets[0], test.targets[1][:7]))
    model = fit_classifiers(train, valid, 1, SMALL)
    whole, pieces = predict(model, uneven), predict(model, uneven, at_once=6)
    assert [len(each) for each in whole] == [20, 7]
    for a, b in zip(whole, pieces, strict=True):
        assert a == pytest.approx(b, abs=1e-6)


def test_importing_the_classifiers_does_not_import_torch():
    code = "import sys, adapcla.evaluation.utility, adapcla.evaluation.reliability; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- batches ------------------------------------------------------------------------------------------------
@st.composite
def batches(draw):
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    codes = iter(range(100))
    cohort = Cohort.of([[[f"C{next(codes):02d}"] for _ in range(n)] for n in sizes])
    return cohort, np.array(draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=8)))


@given(batch=batches())
@settings(max_examples=100, deadline=None)
def test_following_a_patient_through_the_time_steps_gives_the_record(batch):
    cohort, rows = batch
    packed = pack(FlatVisits.of(cohort, np.arange(cohort.n_codes)), rows)
    visits = [packed.codes[a:b].tolist() for a, b in zip(packed.visit_starts, packed.visit_starts[1:], strict=False)]
    steps = np.concatenate([[0], np.cumsum(packed.widths)])
    for rank, row in enumerate(packed.order):
        first, stop = cohort.patient_starts[rows[row]], cohort.patient_starts[rows[row] + 1]
        record = [[int(cohort.codes[v])] for v in range(first, stop)]
        assert [visits[steps[t] + rank] for t in range(len(record))] == record
    assert sorted(packed.order) == list(range(len(rows)))
    assert packed.widths[0] == len(rows)
    assert all(a >= b for a, b in zip(packed.widths, packed.widths[1:], strict=False))
    assert sum(packed.widths) == sum(cohort.visits_per_patient[rows])


def test_codes_never_seen_in_training_leave_an_empty_visit():
    flat = FlatVisits.of(Cohort.of([[["A"], ["B"]]]), np.array([0, -1]))
    packed = pack(flat, np.array([0]))
    assert packed.codes.tolist() == [0]
    assert packed.visit_starts.tolist() == [0, 1, 1]
