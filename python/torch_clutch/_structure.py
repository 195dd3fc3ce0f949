"""Nested arguments and results of a saved program, as JSON: what torch.export's tree specs say, readable without torch.export."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .errors import SavedModelError

LEAF, TUPLE, LIST, DICT = "leaf", "tuple", "list", "dict"


def describe(value: Any) -> list[Any]:
    """The structure of nested tuples, lists and dicts whose leaves are numbers.

    Named tuples become tuples and dict-like results, such as transformers' ModelOutput, become dicts. Raises SavedModelError for
    other containers.
    """
    if isinstance(value, int):
        return [LEAF, value]
    if isinstance(value, Mapping):
        return [DICT, [[key, describe(item)] for key, item in value.items()]]
    if isinstance(value, tuple):
        return [TUPLE, [describe(item) for item in value]]
    if isinstance(value, list):
        return [LIST, [describe(item) for item in value]]
    raise SavedModelError(
        f"{type(value).__name__} objects cannot stand in the arguments or results of a saved program; use tuples or dicts"
    )


def build(structure: list[Any], leaf: Callable[[int], Any]) -> Any:
    """The nested value of a structure, with ``leaf(number)`` at its leaves."""
    kind, content = structure
    if kind == LEAF:
        return leaf(content)
    if kind == DICT:
        return {key: build(item, leaf) for key, item in content}
    items = [build(item, leaf) for item in content]
    return tuple(items) if kind == TUPLE else items


def leaves(structure: list[Any], value: Any, where: str) -> Iterator[tuple[int, str, Any]]:
    """Number, place and value of each leaf. Raises TypeError, naming the place, where the value has another structure."""
    kind, content = structure
    if kind == LEAF:
        yield content, where, value
        return
    if kind == DICT:
        if not isinstance(value, Mapping) or set(value) != {key for key, _ in content}:
            names = ", ".join(str(key) for key, _ in content) or "nothing"
            got = ", ".join(map(str, value)) or "nothing" if isinstance(value, Mapping) else type(value).__name__
            raise TypeError(f"{where} must have exactly {names}, got {got}")
        for key, item in content:
            yield from leaves(item, value[key], f"{where}[{key!r}]")
        return
    if not isinstance(value, tuple | list) or len(value) != len(content):
        got = f"{len(value)}" if isinstance(value, tuple | list) else type(value).__name__
        raise TypeError(f"{where} must be {len(content)} values, got {got}")
    for number, item in enumerate(content):
        yield from leaves(item, value[number], f"{where}[{number}]")
