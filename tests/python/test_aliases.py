"""Results that share memory, pending conjugations, and inputs that overlap: as in eager."""

import pytest
import torch

import torch_clutch

VIEWS = {
    "half": lambda x: x[:, : x.shape[1] // 2],
    "narrow": lambda x: x.narrow(1, 1, x.shape[1] - 2),
    "split": lambda x: x.split(x.shape[1] // 2, 1)[1],
    "expand": lambda x: x[:, :1].expand(-1, x.shape[1]),
    "rows": lambda x: x[1 : x.shape[1] // 4 + 1],
    "transpose": lambda x: x.t()[1:],
    "as_strided": lambda x: x.as_strided((x.shape[1], 2), (2, 1), 1),
}


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("grad", [False, True])
def test_views_of_inputs(view: str, dynamic: bool | None, grad: bool) -> None:
    f = VIEWS[view]
    run = torch.compile(f, backend="tpu", dynamic=dynamic)
    for n in (8, 10, 12, 20, 9):
        x = torch.arange(3.0 * n).view(3, n)[:, :].requires_grad_(grad)
        found, expected = run(x), f(x)
        assert torch.equal(found, expected), f"at size {n}"
        assert found.stride() == expected.stride()
        assert found.data_ptr() == expected.data_ptr()


def test_a_view_with_an_offset_follows_its_base() -> None:
    run = torch.compile(lambda x: x[1:], backend="tpu", dynamic=False)
    base = torch.arange(40.0)
    for start in (0, 3, 16):
        x = base[start : start + 10]
        assert torch.equal(run(x), x[1:])
        assert run(x).data_ptr() == x[1:].data_ptr()


@pytest.mark.parametrize("grad", [False, True])
def test_results_that_share_memory(grad: bool) -> None:
    def f(x):
        h = torch.relu(x @ x)
        return h[:, :2], h, h.t()

    x = torch.eye(4, requires_grad=grad)
    part, whole, turned = torch.compile(f, backend="tpu")(x)
    with torch.no_grad():
        part.fill_(7.0)
    assert whole[0].tolist() == [7, 7, 0, 0]
    assert turned[:, 0].tolist() == [7, 7, 0, 0]


def test_a_view_of_an_input_that_is_written_sees_the_write() -> None:
    def f(x):
        view = x[1:]
        x.mul_(2)
        return view

    x = torch.arange(4.0)
    found = torch.compile(f, backend="tpu")(x)
    assert found.tolist() == [2, 4, 6]
    assert found.data_ptr() == x[1:].data_ptr()


def test_writes_to_overlapping_inputs_are_those_of_eager() -> None:
    def f(x):
        x[0].add_(1)
        return x.sum()

    found, expected = torch.zeros(10).unfold(0, 4, 1), torch.zeros(10).unfold(0, 4, 1)
    assert torch.compile(f, backend="tpu")(found) == torch.compile(f, backend="aot_eager")(expected)
    assert torch.equal(found, expected)


def test_pending_conjugations_are_resolved() -> None:
    run = torch.compile(lambda x: (x * 2, x.real, x.imag), backend="tpu")
    x = torch.randn(3, dtype=torch.complex64)
    for value in (x.conj(), x.conj().imag):
        if value.is_complex():
            for a, b in zip(run(value), (value * 2, value.real, value.imag), strict=True):
                torch.testing.assert_close(a, b)
        else:
            torch.testing.assert_close(torch.compile(lambda y: y + 1, backend="tpu")(value), value + 1)


def test_complex_training() -> None:
    w = torch.randn(3, 2, dtype=torch.complex64, requires_grad=True)
    x = torch.randn(4, 3, dtype=torch.complex64)
    (expected,) = torch.autograd.grad((x @ w).abs().sum(), w)
    (found,) = torch.autograd.grad(torch.compile(lambda x: (x @ w).abs().sum(), backend="tpu")(x), w)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("make", [lambda: torch.ones(2, device="meta")])
def test_tensors_without_data_are_typed_errors(make) -> None:
    with pytest.raises(torch_clutch.UnsupportedError):
        torch.compile(lambda x: x + 1, backend="tpu")(make())


def test_control_flow_runs_in_eager_parts() -> None:
    def f(x):
        y = x * 2
        return torch.cond(y.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (y,)) + 1

    for x in (torch.ones(2), -torch.ones(2)):
        torch.testing.assert_close(torch.compile(f, backend="tpu")(x), f(x))
    assert torch_clutch.metrics()["eager_parts"] >= 1


def test_eight_bit_floats_saturate_as_in_eager() -> None:
    x = torch.tensor([1e4, -1e9, float("inf"), float("nan"), 460.0, 1.3])
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        run = torch.compile(lambda x, dtype=dtype: x.to(dtype).float(), backend="tpu")
        torch.testing.assert_close(run(x), x.to(dtype).float(), equal_nan=True)


def test_a_tpu_that_is_not_here_is_said_at_once() -> None:
    if torch_clutch._clutch.tpu_attached():
        pytest.skip("a TPU is attached")
    with pytest.raises(torch_clutch.DeviceError, match="no TPU is attached"):
        torch.compile(lambda x: x + 1, backend="tpu", options={"target": "tpu"})(torch.ones(2))
