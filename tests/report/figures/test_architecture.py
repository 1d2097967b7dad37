from __future__ import annotations

import re

from adapcla.report.figures.architecture import architecture
from adapcla.report.style import image


def test_the_picture_names_every_part_and_boxes_do_not_overlap():
    figure, caption = architecture()
    words = " ".join(text.get_text() for text in figure.axes[0].texts)
    for part in ("Transformer", "rarity bias", "sampling: z alone", "steering", "training prevalence"):
        assert part in words
    boxes = [patch.get_bbox() for patch in figure.axes[0].patches]
    for i, one in enumerate(boxes):
        assert not any(one.overlaps(two) for two in boxes[i + 1 :])
    assert "without training" in caption


def test_the_picture_in_the_docs_says_the_same_as_the_one_that_is_drawn(repository):
    """Words, not bytes: versions of the drawing library may place them a little differently."""
    kept = (repository / "docs" / "images" / "architecture.svg").read_text(encoding="utf-8")
    drawn = image(architecture()[0], ".svg").decode()
    assert re.findall(r"<text[^>]*>([^<]*)<", kept) == re.findall(r"<text[^>]*>([^<]*)<", drawn)
