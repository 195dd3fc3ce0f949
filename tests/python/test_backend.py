"""The backend itself: options, errors, eager parts, mutation, views, randomness, ahead-of-time targets."""

import subprocess
import sys
import warnings

import pytest
import torch

import torch_clutch


def compiled(function, **options):
    return torch.compile(function, backend="tpu", fullgraph=True, options={"fallback": "error", **options})


def count(name):
    return torch_clutch.metrics()[name]


@torch.library.custom_op("clutch_test::triple", mutates_args=())
def triple(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@triple.register_fake
def _(x):
    return torch.empty_like(x)


def test_import_leaves_other_backends_alone():
    code = (
        "import torch; before = (torch.compile, torch._dynamo.config.recompile_limit); import torch_clutch; "
        "assert before == (torch.compile, torch._dynamo.config.recompile_limit); "
        "assert torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2)).sum() == 4"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"fallbak": "eager"}, torch_clutch.OptionError, ["fallbak", "did you mean 'fallback'"]),
        ({"target": "v9:1x1"}, torch_clutch.TargetError, ["v9:1x1", "v5e:1x1", "auto"]),
        ({"precision": "low"}, torch_clutch.OptionError, ["precision", "highest, high, medium"]),
        ({"fold_budget": -1}, torch_clutch.OptionError, ["fold_budget", "a number of bytes"]),
        ({"pjrt_plugin": "/nonexistent/plugin.so"}, torch_clutch.PluginError, ["/nonexistent/plugin.so", "does not exist"]),
        ({"pjrt_plugin": __file__}, torch_clutch.PluginError, ["cannot be loaded"]),
    ],
)
def test_wrong_options_are_typed_errors_that_say_what_to_do(options, kind, words):
    with pytest.raises(kind) as error:
        compiled(lambda x: x + 1, **options)(torch.ones(2))
    for word in words:
        assert word in str(error.value)


def test_options_that_are_no_dictionary_are_refused():
    with pytest.raises(torch_clutch.OptionError, match="a dictionary"):
        torch.compile(torch.sin, backend="tpu", options="cpu")(torch.ones(2))


def test_environment_sets_options_and_the_option_wins(monkeypatch):
    monkeypatch.setenv("CLUTCH_FALLBACK", "error")
    assert torch_clutch.Options.read().fallback == "error"
    assert torch_clutch.Options.read({"fallback": "eager"}).fallback == "eager"
    monkeypatch.setenv("CLUTCH_PRECISION", "nonsense")
    with pytest.raises(torch_clutch.OptionError, match="CLUTCH_PRECISION"):
        torch_clutch.Options.read()


def test_arguments_of_inductor_are_accepted():
    for arguments in ({"mode": "max-autotune"}, {"options": {"max_autotune": True}}):
        torch._dynamo.reset()
        f = torch.compile(lambda x: x * 2, backend="tpu", **arguments)
        assert torch.equal(f(torch.ones(3)), torch.full((3,), 2.0))


def test_unsupported_operators_are_all_named_at_once():
    def f(x):
        y = torch.ops.clutch_test.triple(x) + 1
        return torch.ops.clutch_test.triple(y)

    with pytest.raises(torch_clutch.UnsupportedError) as error:
        compiled(f)(torch.ones(3))
    text = str(error.value)
    assert text.count("clutch_test.triple.default") == 2 and "test_backend.py" in text
    assert count("compiles") == 0


def test_eager_parts_run_anew_on_every_call():
    def f(x):
        y = x.sin() * 2
        return torch.ops.clutch_test.triple(y).cos() + y, y.sum()

    g = torch.compile(f, backend="tpu", fullgraph=True)
    for _ in range(3):
        x = torch.randn(5)
        for ours, eager in zip(g(x), f(x), strict=True):
            torch.testing.assert_close(ours, eager)
    assert count("eager_parts") == 1 and count("executions") == 6


def test_eager_parts_in_training():
    def f(x, w):
        return torch.linalg.svdvals(torch.tanh(x * w) @ w).sum()

    g = torch.compile(f, backend="tpu", fullgraph=True)
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    (ours,) = torch.autograd.grad(g(x, w), w)
    (eager,) = torch.autograd.grad(f(x, w), w)
    torch.testing.assert_close(ours, eager, rtol=1e-3, atol=1e-4)


def test_graph_breaks_work_without_fullgraph():
    @torch.compile(backend="tpu")
    def f(x):
        y = x * 2
        if y.sum() > 0:
            return y + 1
        return y - 1

    assert torch.equal(f(torch.ones(2)), torch.full((2,), 3.0))
    assert torch.equal(f(-torch.ones(2)), torch.full((2,), -3.0))


def test_inputs_are_written_in_place():
    def f(x, y):
        x.add_(y)
        x[0] = 7
        return x * 2

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    eager_x = x.clone()
    expected = f(eager_x, y)
    version = x._version
    torch.testing.assert_close(compiled(f)(x, y), expected)
    torch.testing.assert_close(x, eager_x)
    assert x._version > version


def test_mutating_and_non_mutating_twins_do_not_share_code():
    x, y = torch.ones(4), torch.full((4,), 2.0)
    mutating = compiled(lambda a, b: a.add_(b))
    plain = compiled(lambda a, b: a + b)
    mutating(x, y)
    assert torch.equal(plain(x, y), torch.full((4,), 5.0)) and torch.equal(x, torch.full((4,), 3.0))


def test_views_of_one_tensor_may_both_be_written():
    def f(base):
        a, b = base[:2], base[1:]
        a.mul_(2)
        b.add_(1)
        return base.sum()

    x = torch.arange(4.0)
    eager_x = x.clone()
    expected = f(eager_x)
    assert torch.equal(compiled(f)(x), expected) and torch.equal(x, eager_x)


@pytest.mark.parametrize("make", [lambda t: t.t(), lambda t: t[:, ::2], lambda t: t[1:], lambda t: t.expand(2, 4, 6)])
def test_strided_and_unaligned_inputs(make):
    x = make(torch.randn(4, 6))
    torch.testing.assert_close(compiled(lambda a: a * 2 + 1)(x), x * 2 + 1)


def test_a_strided_input_at_a_known_address_is_read_anew():
    base = torch.randn(4, 6)
    f = compiled(lambda a: a + 0.5)
    for view in (base[:, :4], base.t()[:4, :4], base[:4, 2:]):
        torch._dynamo.reset()
        torch.testing.assert_close(f(view), view + 0.5)


def test_output_strides_follow_eager():
    def f(x):
        return x.t() * 2, x.permute(2, 0, 1) + 1 if x.dim() == 3 else x

    for x in (torch.randn(3, 5), torch.randn(2, 3, 4).permute(1, 0, 2)):
        if x.dim() == 3:
            ours, eager = compiled(lambda a: a.permute(2, 0, 1) + 1)(x), x.permute(2, 0, 1) + 1
        else:
            ours, eager = compiled(lambda a: a.t() * 2)(x), x.t() * 2
        assert ours.stride() == eager.stride()
        torch.testing.assert_close(ours, eager)


def test_none_and_integer_and_input_outputs():
    def f(x, y):
        return x, None, y.sum(), x.shape[0]

    x, y = torch.randn(2, 3), torch.randn(3)
    a, b, c, d = compiled(f)(x, y)
    assert torch.equal(a, x) and b is None and d == 2
    torch.testing.assert_close(c, y.sum())


def test_outputs_own_their_memory():
    f = compiled(lambda x: x * 2)
    first = f(torch.ones(1000))
    second = f(torch.full((1000,), 5.0))
    assert torch.equal(first, torch.full((1000,), 2.0)) and torch.equal(second, torch.full((1000,), 10.0))
    first += 1
    assert torch.equal(f(torch.ones(1000)), torch.full((1000,), 2.0))


def test_random_numbers_follow_the_generator():
    f = compiled(lambda x: torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x))
    x = torch.ones(256)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    first, second = f(x), f(x)
    assert not torch.equal(first, second)
    torch.set_rng_state(state)
    assert torch.equal(f(x), first)
    torch.manual_seed(3)
    assert torch.equal(f(x), first)


def test_compiling_draws_no_random_numbers():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    f = compiled(lambda x: x * 2)
    f(torch.ones(3))
    assert torch.equal(torch.get_rng_state(), state)


def test_forward_and_backward_see_the_same_dropout():
    x = torch.ones(512, requires_grad=True)
    y = compiled(lambda a: torch.nn.functional.dropout(a, 0.5))(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_inference_modes(mode):
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    x = torch.randn(3, 8)
    with mode():
        torch.testing.assert_close(compiled(model)(x), model(x))


def test_a_changed_weight_is_seen_on_the_next_call():
    model = torch.nn.Linear(64, 32)
    f, x = compiled(model), torch.randn(4, 64)
    with torch.no_grad():
        torch.testing.assert_close(f(x), model(x))
        model.weight.mul_(2)
        torch.testing.assert_close(f(x), model(x))
        model.weight = torch.nn.Parameter(torch.randn(32, 64))
        torch.testing.assert_close(f(x), model(x))
        model.weight.data = torch.randn(32, 64)
        torch.testing.assert_close(f(x), model(x))
        model.weight.data.add_(1)
        torch.testing.assert_close(f(x), model(x))


def test_weights_made_in_inference_mode():
    with torch.inference_mode():
        model = torch.nn.Linear(64, 32)
        f, x = compiled(model), torch.randn(4, 64)
        torch.testing.assert_close(f(x), model(x))
        model.weight.mul_(2)
        torch.testing.assert_close(f(x), model(x))


def test_autocast_bfloat16():
    model = torch.nn.Linear(32, 16)
    x = torch.randn(4, 32)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        ours, eager = compiled(model)(x), model(x)
    assert ours.dtype == torch.bfloat16
    torch.testing.assert_close(ours, eager, rtol=2e-2, atol=2e-2)


def test_large_constants_are_inputs_and_small_ones_inline():
    big, small = torch.randn(4096), torch.tensor([1.0, 2.0, 3.0, 4.0])
    with torch_clutch.inspection.recording() as records:
        torch.testing.assert_close(compiled(lambda x: x * big + small.sum())(torch.ones(4096)), big + 10)
    assert len(records[0].statistics["hlo_text"]) < 4000


def test_a_quantised_or_sparse_tensor_is_an_error_not_a_crash():
    sparse = torch.eye(4).to_sparse()
    f = torch.compile(lambda x: x * 2, backend="tpu", fullgraph=True)
    with pytest.raises(Exception, match=r"(?i)sparse"):
        f(sparse)


def test_ahead_of_time_for_a_tpu_that_is_not_here():
    f = compiled(lambda x: (x @ x).relu(), target="v5e:2x2")
    with pytest.raises(torch_clutch.DeviceError, match="not here"):
        f(torch.randn(128, 128))
    info = torch_clutch.last_executable()
    assert info["cost_analysis"]["flops"] > 128 * 128 * 128
    assert info["memory"]["argument_bytes"] >= 128 * 128 * 4
    assert info["serialized_bytes"] > 0 and info["fingerprint"]


def test_a_failed_compile_leaves_eager_usable():
    model = torch.nn.Linear(4, 4)
    with pytest.raises(torch_clutch.PluginError):
        compiled(model, pjrt_plugin="/nonexistent/plugin.so")(torch.ones(4))
    assert model(torch.ones(4)).shape == (4,)


def test_small_dynamic_sizes_are_compiled_exactly_and_larger_ones_in_buckets():
    f = torch.compile(lambda x: (x.softmax(-1) * x.shape[1]).sum(0), backend="tpu", dynamic=True, fullgraph=True)
    for n in (3, 5, 9, 5):
        x = torch.randn(4, n)
        torch.testing.assert_close(f(x), (x.softmax(-1) * n).sum(0))
    assert (count("captures"), count("bucket_exact"), count("buckets")) == (1, 2, 1)


def test_no_warning_of_pytorch_is_caused():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(lambda x: x + 1)(torch.ones(3))
