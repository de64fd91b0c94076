import gzip

import numpy as np
import pytest

from sksstruct import datasets


def test_horses(data_home):
    data = datasets.load_weizmann_horses(data_home=data_home)
    assert len(data.images) == len(data.masks) == 328
    for image, mask in zip(data.images, data.masks, strict=True):
        assert image.shape == (*mask.shape, 3) and max(mask.shape) == 64
        assert 0 <= image.min() and image.max() <= 1
    share = np.mean([mask.mean() for mask in data.masks])
    assert share == pytest.approx(0.252, abs=0.01)


def test_hansards(data_home):
    data = datasets.load_hansards(data_home=data_home)
    assert [len(data[k]) for k in ("trial", "test", "unaligned")] == [37, 447, 2383]
    assert sum((p.links == 1).sum() for p in data.trial) == 338
    assert sum((p.links == 1).sum() for p in data.test) == 4038
    assert sum((p.links != 0).sum() for p in data.test) == 4038 + 13400
    for pair in data.test:
        assert pair.links.shape == (len(pair.english), len(pair.french))


def test_keypoints(data_home):
    house = datasets.load_cmu_house(data_home=data_home)
    assert house.points.shape == (111, 30, 2)
    assert house.contexts.shape == (111, 30, 60)
    assert datasets.load_cmu_house("hotel", data_home=data_home).points.shape[0] == 101
    with pytest.raises(ValueError, match="sequence must be"):
        datasets.load_cmu_house("barn")


def test_missing_files(tmp_path):
    for load in (
        datasets.load_weizmann_horses,
        datasets.load_hansards,
        datasets.load_cmu_house,
    ):
        with pytest.raises(OSError, match="data_home"):
            load(data_home=tmp_path)


def test_hansards_are_read_strictly(tmp_path):
    folder = tmp_path / "matching"
    folder.mkdir()
    good = "a b\tc d\t0-0\t1-1\n"
    for name, text, message in (
        ("trial", good + "a\tb\t0-0\n", "line 2: expected 4 columns"),
        ("trial", good + "a\tb\t0-1\t\n", "line 2: '0-1' is not a link of 1 and 1"),
        ("trial", "a\tb\t0:0\t\n", "line 1: '0:0' is not a link"),
        ("trial", "a\tb\t-1-0\t\n", "line 1"),
        ("unaligned", good, "line 1: expected 2 columns"),
    ):
        for other, content in (
            ("trial", good),
            ("test", good),
            ("unaligned", "a\tb\n"),
            (name, text),
        ):
            path = folder / f"hansards_{other}.tsv.gz"
            path.write_bytes(gzip.compress(content.encode()))
        with pytest.raises(ValueError, match=message):
            datasets.load_hansards(data_home=tmp_path)


def test_stick_figures():
    data = datasets.make_stick_figures(5, random_state=0)
    again = datasets.make_stick_figures(5, random_state=0)
    np.testing.assert_array_equal(data.images, again.images)
    assert len(data.names) == data.joints.shape[1] == len(data.bones) + 1
    assert (data.joints >= 0).all() and (data.joints < data.images.shape[1:]).all()
    clean = datasets.make_stick_figures(5, noise=0, clutter=0, random_state=0)
    for image, joints in zip(clean.images, clean.joints, strict=True):
        assert (image[tuple(joints.T)] > 0.1).all()  # every joint is drawn
    with pytest.raises(ValueError, match="shape"):
        datasets.make_stick_figures(1, shape=(4, 4))


def test_raised_arms():
    """Elbows are above the neck, or below; the rest is as it was."""
    data = datasets.make_stick_figures(60, wobble=0.05, raised=0.3, random_state=0)
    down = data.joints[:, 3:5, 0] - data.joints[:, [1], 0]
    assert 0.1 < (down < 0).mean() < 0.5
    # hands go on where the upper arm points to
    further = data.joints[:, 5:7, 0] - data.joints[:, 3:5, 0]
    assert (np.sign(further) == np.sign(down)).mean() > 0.95
    assert (data.joints[:, 2, 0] > data.joints[:, 1, 0]).all()
    always = datasets.make_stick_figures(10, wobble=0.05, raised=1.0, random_state=0)
    assert (always.joints[:, 3:5, 0] <= always.joints[:, [1], 0]).all()
    with pytest.raises(ValueError, match="raised must be between 0 and 1"):
        datasets.make_stick_figures(1, raised=2.0)


def test_digit_clutter():
    data = datasets.make_digit_clutter(20, noise=0, clutter=0, random_state=0)
    for image, (top, left, bottom, right) in zip(data.images, data.boxes, strict=True):
        inside = image[top:bottom, left:right].sum()
        assert inside == image.sum() > 0
        assert 8 <= bottom - top <= 16 and 8 <= right - left <= 16
    again = datasets.make_digit_clutter(20, random_state=0, part="test")
    assert again.images.shape == (20, 28, 28)
    for bad in ({"part": "tests"}, {"size": 8}):
        with pytest.raises(ValueError):
            datasets.make_digit_clutter(2, **bad)
