"""mostlyai-qa, with a stand-in that records what it is asked."""

from __future__ import annotations

from types import SimpleNamespace


def test_synthetic_training_and_held_out_tables_are_not_mixed_up(script, tables, folder):
    seen = {}

    def report(**words):
        seen.update(words)
        similarity = SimpleNamespace(
            discriminator_auc_training_synthetic=0.65, cosine_similarity_training_synthetic=0.99
        )
        distances = SimpleNamespace(ims_training=0.0, dcr_share=0.5)
        return None, SimpleNamespace(accuracy=SimpleNamespace(overall=0.9), similarity=similarity, distances=distances)

    qa = SimpleNamespace(report=report, set_random_state=lambda seed: seen.update(seed=seed))
    judge = script("mostlyai_qa.py", {"mostlyai.qa": qa})
    tables()
    said = judge.verdicts(folder)
    assert said["discriminator AUC"] == 0.65
    assert said["accuracy"] == 0.9
    names = {key: seen[key].name for key in ("syn_tgt_data", "trn_tgt_data", "hol_tgt_data")}
    assert names == {"syn_tgt_data": "subject", "trn_tgt_data": "train", "hol_tgt_data": "test"}
    assert seen["seed"] == 1
