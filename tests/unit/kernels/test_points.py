import torch

from gpu_report.kernels.points import make_problem


def test_the_same_seed_gives_the_same_points_and_no_seed_others() -> None:
    once, again, other = (make_problem(100, device="cpu", seed=seed) for seed in (3, 3, None))

    assert torch.equal(once.x, again.x)
    assert torch.equal(once.y, again.y)
    assert not torch.equal(once.x, other.x)
