"""The stacked classifiers are bidirectional LSTMs, and stacking changes nothing."""

import subprocess
import sys

import numpy as np
import pytest

from adapcla import Cohort
from adapcla.metrics import classifiers
from adapcla.metrics.classifiers import Settings, fit, predict
from adapcla.metrics.packing import NOBODY, FlatVisits
from adapcla.metrics.protocols import Tasks

SMALL = Settings(embedding=8, hidden=5, epochs=6, patience=2, batch=20, fewest_steps=5)


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


def tasks_of(cohort: Cohort, codes: list[int], first: int, stop: int) -> Tasks:
    """One classifier a code, each with its own order of the patients."""
    rows = tuple(np.random.default_rng(code).permutation(cohort.n_patients)[first:stop] for code in codes)
    return Tasks(cohort, rows, tuple(has_code(cohort, code)[row] for code, row in zip(codes, rows, strict=True)))


def torch_lstm(weights, model):
    """torch's own bidirectional LSTM with the weights of one classifier of a stack."""
    import torch

    n_inputs, hidden = weights["codes"].shape[2], weights["state0"].shape[2]
    lstm = torch.nn.LSTM(n_inputs, hidden, 2, bidirectional=True, batch_first=True)

    def reordered(tensor):
        """From input, forget, output, candidate to torch's input, forget, candidate, output."""
        enter, forget, leave, candidate = tensor.detach().chunk(4, dim=-1)
        return torch.cat([enter, forget, candidate, leave], dim=-1)

    state = {}
    for layer in range(2):
        for direction, suffix in enumerate(("", "_reverse")):
            state[f"weight_ih_l{layer}{suffix}"] = reordered(weights[f"input{layer}"][model, direction]).T
            state[f"weight_hh_l{layer}{suffix}"] = reordered(weights[f"state{layer}"][model, direction]).T
            state[f"bias_ih_l{layer}{suffix}"] = reordered(weights[f"bias{layer}"][model, direction, 0])
            state[f"bias_hh_l{layer}{suffix}"] = torch.zeros(4 * hidden)
    lstm.load_state_dict(state)
    return lstm


def test_logits_are_those_of_torchs_lstm_record_by_record():
    import torch

    cohort = world(40, seed=0)
    flat = FlatVisits.of(cohort, np.arange(cohort.n_codes))
    targets = [np.ones((4, 3), np.uint8)] * 2
    weights = classifiers._initial(cohort.n_codes, targets, 1, np.arange(2), SMALL)
    rows = np.array([[3, 17, 0, NOBODY], [5, 5, 39, 8]])
    found = classifiers._logits(weights, flat, rows)
    matrix = torch.from_numpy(cohort.matrix().toarray())
    for m in range(2):
        lstm = torch_lstm(weights, m)
        for b, patient in enumerate(rows[m]):
            if patient == NOBODY:
                continue
            visits = matrix[cohort.patient_starts[patient] : cohort.patient_starts[patient + 1]] @ weights["codes"][m]
            _, (state, _) = lstm(visits[None])
            expected = torch.cat([state[2, 0], state[3, 0]]) @ weights["output"][m] + weights["output_bias"][m, 0]
            assert torch.allclose(found[m, b], expected, atol=1e-5)


def test_the_written_gradient_is_the_numerical_one():
    import torch

    random = torch.Generator().manual_seed(1)
    gates = torch.randn(3, 11, 8, dtype=torch.float64, generator=random, requires_grad=True)
    state = torch.randn(3, 2, 8, dtype=torch.float64, generator=random, requires_grad=True)
    for widths in ((4, 3, 3, 1), (11,)):
        assert torch.autograd.gradcheck(
            lambda g, s, widths=widths: classifiers._recurrence().apply(g, s, widths), (gates, state)
        )


def test_a_classifier_comes_out_the_same_alone_and_in_a_stack():
    cohort, codes = world(300, seed=1), [2, 7, 11]
    train, valid, test = (tasks_of(cohort, codes, *cut) for cut in ((0, 160), (160, 200), (200, 300)))
    together = predict(fit(train, valid, seed=5, settings=SMALL), test)
    for i in range(len(codes)):
        own = fit(train.part([i]), valid.part([i]), seed=5, settings=SMALL, numbers=[i])
        assert predict(own, test.part([i]))[0] == pytest.approx(together[i], abs=1e-3)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    cohort = world(120, seed=1)
    train, valid, test = (tasks_of(cohort, [2, 7], *cut) for cut in ((0, 80), (80, 100), (100, 120)))
    one, same, other = (predict(fit(train, valid, seed, SMALL), test)[0] for seed in (1, 1, 2))
    assert one.tobytes() == same.tobytes()
    assert one.tobytes() != other.tobytes()


def test_a_code_in_the_input_is_learned():
    cohort = world(600, seed=3)
    train, valid, test = (tasks_of(cohort, [4], *cut) for cut in ((0, 450), (450, 500), (500, 600)))
    model = fit(train, valid, 1, Settings(epochs=8, fewest_steps=20, batch=100))
    said = predict(model, test)[0][:, 0]
    assert np.mean((said >= 0.5) == (test.targets[0][:, 0] == 1)) > 0.95


def test_the_chosen_epoch_is_the_best_on_validation():
    """Labels that have nothing to do with the record can only be memorised, so the first epochs are the best."""
    cohort = world(200, seed=4)
    noise = np.random.default_rng(0).integers(0, 2, (200, 1)).astype(np.uint8)
    train, valid = (Tasks(cohort, (rows,), (noise[rows],)) for rows in (np.arange(100), np.arange(100, 200)))
    eager = Settings(embedding=8, hidden=5, epochs=30, patience=2, batch=20, fewest_steps=20, rate=0.03)
    told = []
    model = fit(train, valid, 1, eager, report=told.append)
    assert model.epochs[0] < 10
    assert len(told) == model.epochs[0] + 1 + eager.patience


def test_prediction_does_not_depend_on_how_many_are_read_at_once():
    cohort = world(60, seed=1)
    train, valid, test = (tasks_of(cohort, [2, 7], *cut) for cut in ((0, 30), (30, 40), (40, 60)))
    uneven = Tasks(test.inputs, (test.rows[0], test.rows[1][:7]), (test.targets[0], test.targets[1][:7]))
    model = fit(train, valid, 1, SMALL)
    whole, pieces = predict(model, uneven), predict(model, uneven, at_once=6)
    assert [len(each) for each in whole] == [20, 7]
    for a, b in zip(whole, pieces, strict=True):
        assert a == pytest.approx(b, abs=1e-6)


def test_importing_the_classifiers_does_not_import_torch():
    code = "import sys, adapcla.metrics.utility, adapcla.metrics.reliability; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
