"""Views, parts, joins and padding against eager, with gradients."""

import pytest
import torch
import torch.nn.functional as F

from op_checks import bools, check, check_all, check_grad, floats, ints

DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool]


@pytest.mark.parametrize("dtype", DTYPES)
def test_orders_and_sizes(dtype):
    check_all(
        {
            "view": lambda x: x.view(6, -1),
            "reshape of transposed": lambda x: x.transpose(0, 2).reshape(4, 6),
            "permute": lambda x: x.permute(2, 0, 1),
            "permute negative": lambda x: x.permute(-1, -3, -2),
            "transpose": lambda x: x.transpose(-1, 0),
            "t": lambda x: x[0].t(),
            "mT": lambda x: x.mT,
            "expand": lambda x: x[:, :1].expand(2, 5, -1),
            "expand new": lambda x: x.expand(3, 2, 3, 4),
            "squeeze": lambda x: x[:, :1].squeeze(),
            "squeeze dim": lambda x: x[:, :1].squeeze(1),
            "squeeze dim kept": lambda x: x.squeeze(1),
            "squeeze dims": lambda x: x[:1, :1].squeeze((0, -2)),
            "unsqueeze": lambda x: x.unsqueeze(-1),
            "flatten": lambda x: x.flatten(1),
            "unflatten": lambda x: x.unflatten(2, (2, 2)),
            "movedim": lambda x: x.movedim(0, -1),
            "detach": lambda x: x.detach(),
            "alias": lambda x: torch.ops.aten.alias(x),
            "clone": lambda x: x.clone(),
            "contiguous": lambda x: x.mT.contiguous(),
        },
        floats(2, 3, 4).to(dtype),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_parts(dtype):
    check_all(
        {
            "slice": lambda x: x[1:4],
            "slice step": lambda x: x[:, ::2],
            "slice negative": lambda x: x[-3:-1, -100:100],
            "slice empty": lambda x: x[4:2],
            "select": lambda x: x[:, -2],
            "select scalar": lambda x: x[3, 2],
            "narrow": lambda x: x.narrow(1, 2, 3),
            "diagonal": lambda x: x.diagonal(),
            "diagonal above": lambda x: x.diagonal(2),
            "diagonal below": lambda x: x.diagonal(-3, 1, 0),
            "diagonal none": lambda x: x.diagonal(40),
            "unfold": lambda x: x.unfold(1, 3, 2),
            "unfold apart": lambda x: x.unfold(0, 2, 3),
            "take one": lambda x: x[None, 2, ..., None],
        },
        floats(5, 7).to(dtype),
    )


def test_many_results():
    x = floats(5, 7)
    check(lambda x: (x.split(2), x.split(3, 1), x.split([1, 4], 0), x.chunk(3, -1), x.unbind(0), torch.tensor_split(x, 3, 1)), x)
    check(lambda x: (x.unbind(0), x.split(4, 1)), x[:0])


def test_diagonal_of_batches():
    check(lambda x: (x.diagonal(1, 0, 2), x.diagonal(-1, -1, -2), torch.diag_embed(x), torch.diag_embed(x, -2, 0, 2)), floats(3, 4, 5))


def test_gradients_of_parts():
    check_grad(
        lambda x: (
            x[1:3],
            x[:, ::3],
            x[2],
            x[:, -1],
            x.diagonal(),
            x.diagonal(1),
            x.unfold(1, 3, 2),
            x.transpose(0, 1),
            x.expand(2, 4, 7),
            torch.cat([x, x[:1]], 0),
            torch.stack([x, x * 2], 1),
            x.flip(0),
            x.roll(2, 1),
            x.repeat(2, 3),
            *x.split(2),
            F.pad(x, (1, 2, -1, 1)),
        ),
        floats(4, 7, grad=True),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_writing_parts(dtype):
    x, a, b = floats(5, 7).to(dtype), floats(5, seed=1).to(dtype), floats(2, 7, seed=2).to(dtype)
    check_all(
        {
            "select_scatter": lambda x, a, b: torch.select_scatter(x, a, 1, -2),
            "slice_scatter": lambda x, a, b: torch.slice_scatter(x, b, 0, 1, 3),
            "slice_scatter step": lambda x, a, b: torch.slice_scatter(x, b, 0, 1, 5, 2),
            "slice_scatter all": lambda x, a, b: torch.slice_scatter(b, b.flip(0)),
            "diagonal_scatter": lambda x, a, b: torch.diagonal_scatter(x, a, 1),
            "as_strided_scatter": lambda x, a, b: torch.as_strided_scatter(x, b, (2, 7), (14, 2), 1),
            "as_strided_scatter columns": lambda x, a, b: torch.as_strided_scatter(x, b, (2, 7), (1, 3), 2),
        },
        x,
        a,
        b,
    )


def test_strided_views():
    check_all(
        {
            "same": lambda x, y: x.as_strided((4, 6), (6, 1)),
            "transposed": lambda x, y: x.as_strided((6, 4), (1, 6)),
            "offset": lambda x, y: x.as_strided((3, 3), (6, 1), 2),
            "steps": lambda x, y: x.as_strided((2, 3), (12, 2), 1),
            "steps transposed": lambda x, y: x.as_strided((3, 2), (2, 12), 1),
            "windows": lambda x, y: x.as_strided((5, 4), (3, 1)),
            "expanded": lambda x, y: x.as_strided((3, 4, 2), (0, 6, 3)),
            "uneven": lambda x, y: x.as_strided((4, 5), (5, 1), 3),
            "one": lambda x, y: x.as_strided((), (), 7),
            "repeated": lambda x, y: x.as_strided((3, 2), (0, 0), 7),
            "none": lambda x, y: x.as_strided((0, 2), (1, 1)),
            "of transposed": lambda x, y: y.as_strided((5, 3), (3, 1), 4),
            "end": lambda x, y: x.as_strided((2, 2), (20, 3)),
        },
        floats(4, 6),
        floats(4, 6, seed=1).t(),
    )


def test_strided_gradients():
    check_grad(lambda x: (x.as_strided((5, 4), (3, 1)), x.as_strided((2, 3), (12, 2), 1)), floats(4, 6, grad=True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_joins(dtype):
    x, y = floats(2, 3).to(dtype), floats(4, 3, seed=1).to(dtype)
    check_all(
        {
            "cat": lambda x, y: torch.cat([x, y]),
            "cat last": lambda x, y: torch.cat([x, x], -1),
            "cat empty": lambda x, y: torch.cat([x[:0], y, x.new_empty(0)]),
            "cat mixed": lambda x, y: torch.cat([x, y.double()]),
            "stack": lambda x, y: torch.stack([x, y[:2]], -1),
            "repeat": lambda x, y: x.repeat(2, 1, 3),
            "repeat none": lambda x, y: x.repeat(2, 0),
            "tile": lambda x, y: x.tile(2),
            "repeat_interleave": lambda x, y: x.repeat_interleave(3, 1),
            "flip": lambda x, y: y.flip(0, -1),
            "roll": lambda x, y: y.roll((1, -2), (0, 1)),
            "roll flat": lambda x, y: y.roll(5),
            "rot90": lambda x, y: torch.rot90(y),
            "rot90 three": lambda x, y: torch.rot90(y, 3, (1, 0)),
            "vstack": lambda x, y: torch.vstack([x, y]),
        },
        x,
        y,
    )


def test_padding():
    x = floats(2, 3, 5, 6)
    check_all(
        {
            "constant": lambda x: F.pad(x, (1, 2)),
            "value": lambda x: F.pad(x, (0, 1, 2, 0), value=-1.5),
            "crop": lambda x: F.pad(x, (-1, 2, 1, -2)),
            "reflect": lambda x: F.pad(x, (2, 1, 3, 0), mode="reflect"),
            "replicate": lambda x: F.pad(x, (2, 1, 3, 0), mode="replicate"),
            "circular": lambda x: F.pad(x, (2, 1, 3, 0), mode="circular"),
            "reflect one": lambda x: F.pad(x[0], (2, 1), mode="reflect"),
            "bool": lambda x: F.pad(x > 0, (1, 1), value=True),
            "int": lambda x: F.pad(x.long(), (1, 1), value=7),
            "pixel_shuffle": lambda x: F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2),
            "pixel_unshuffle": lambda x: F.pixel_unshuffle(x[..., :4, :], 2),
            "channel_shuffle": lambda x: F.channel_shuffle(x.repeat(1, 2, 1, 1), 3),
        },
        x,
    )
    check_grad(
        lambda x: (F.pad(x, (2, 1, 3, 0), mode="reflect"), F.pad(x, (2, 1, 3, 0), mode="replicate"), F.pad(x, (1, -1), value=2.0)),
        x.requires_grad_(),
    )


def test_empty_and_scalar():
    check(
        lambda x, y: (
            x.reshape(4, 0, 3),
            x.transpose(0, 1),
            x.flip(0),
            x.roll(1, 0),
            x.expand(2, 0, 3),
            y.expand(3),
            y.view(1, 1),
            y.flip(()),
        ),
        torch.empty(0, 3),
        torch.tensor(2.0),
    )


def test_bytes_of_other_types():
    check(lambda x: (x.view(torch.int32), x.view(torch.int16), x.view(torch.uint8), x.view(torch.float64)), floats(3, 4))
    check(lambda x: (x.view(torch.bfloat16), x.view(torch.float32)), ints(3, 8, low=0, high=100, dtype=torch.int16))


def test_conversions():
    x = torch.tensor([0.0, 1.5, -1.5, 2.7, -300.0, 1000.0, 65000.0])
    types = [torch.bool, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float64]
    check(lambda x: [x.to(t) for t in types], x)
    check(lambda x: [x.to(t) for t in types] + [x.float()], ints(20, low=-1000, high=1000))
    check(lambda x: [x.to(t) for t in types] + [x.float()], bools(5))
    check_grad(lambda x: (x.bfloat16(), x.double(), x.half()), floats(3, 3, grad=True))


def test_complex_parts():
    check(
        lambda x, y: (torch.complex(x, y).real, torch.view_as_real(torch.complex(x, y) * torch.complex(y, x)), torch.complex(x, y).abs()),
        floats(4),
        floats(4, seed=1),
    )
    check(lambda x, y: (torch.view_as_real(torch.polar(x.abs(), y)), torch.complex(x, y).conj().imag.clone()), floats(4), floats(4, seed=1))
