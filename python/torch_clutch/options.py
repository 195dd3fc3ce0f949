"""Options of the backend: from ``torch.compile(..., options={...})`` and from the environment."""

import dataclasses
import difflib
import logging
import os
import re
import site
import sys
from collections.abc import Mapping
from typing import Any

from . import _clutch
from .errors import OptionError

log = logging.getLogger("torch_clutch")

PREFIX = "CLUTCH_"


def _word(*accepted: str):
    def read(value: Any) -> str:
        text = str(value).lower()
        if text not in accepted:
            raise ValueError(f"accepted: {', '.join(accepted)}")
        return text

    return read


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in ("1", "true", "on", "yes"):
        return True
    if text in ("0", "false", "off", "no", ""):
        return False
    raise ValueError("accepted: true, false")


_UNITS = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4}
_UNITS |= {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}


def _bytes(value: Any) -> int:
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", str(value).strip().lower())
    if isinstance(value, bool) or match is None or match[2] not in _UNITS or (size := int(match[1]) * _UNITS[match[2]]) >= 1 << 63:
        raise ValueError("accepted: a number of bytes, or a size such as 512MiB or 10GiB")
    return size


def _target(value: Any) -> str:
    text = str(value)
    _clutch.check_target(text)
    return text


def _ladder(value: Any) -> str:
    if isinstance(value, Mapping):
        parts = [(str(size), _ladder_text(ladder)) for size, ladder in value.items()]
    elif isinstance(value, str) and "=" in value:
        parts = [(size.strip(), ladder.strip()) for size, _, ladder in (part.partition("=") for part in value.split(";") if part.strip())]
    else:
        text = _ladder_text(value)
        _clutch.check_ladder(text)
        return text
    if not parts:
        raise ValueError("a dictionary of ladders needs at least one size, as in {'input_ids:1': [64, 128], '*': 'auto'}")
    for size, ladder in parts:
        if re.fullmatch(r"\*|[^\s:;=]+(:\d+)?", size) is None:
            raise ValueError(f"{size!r} is no size; write NAME:AXIS for an axis of an argument, NAME for an integer, or *")
        try:
            _clutch.check_ladder(ladder)
        except ValueError as error:
            raise ValueError(f"the ladder of {size!r}: {error}") from None
    return ";".join(f"{size}={ladder}" for size, ladder in parts)


def _ladder_text(value: Any) -> str:
    return ",".join(str(size) for size in value) if isinstance(value, list | tuple) else str(value).lower()


def _text(value: Any) -> str | None:
    return None if value is None else os.fspath(value)


def _option(default: Any, read: Any, doc: str) -> Any:
    return dataclasses.field(default=default, metadata={"read": read, "doc": doc})


@dataclasses.dataclass(frozen=True)
class Options:
    """Everything that can be chosen. Each is also an environment variable ``CLUTCH_<NAME>``; the option wins."""

    target: str = _option("auto", _target, "auto, cpu, tpu, or a topology to compile for ahead of time, as v5e:2x2")
    pjrt_plugin: str | None = _option(None, _text, "path or package of the PJRT plugin")
    fallback: str = _option(
        "eager",
        _word("eager", "error"),
        "what becomes of unsupported operators: an eager part, or one error naming all",
    )
    precision: str | None = _option(
        None,
        _word("highest", "high", "medium"),
        "accuracy of float32 products; default: torch.get_float32_matmul_precision()",
    )
    buckets: str = _option(
        "auto",
        _ladder,
        "ladder of sizes that dynamic sizes are padded to: auto, pow2, exact, a list of sizes, or a dictionary of these by NAME:AXIS",
    )
    beyond: str = _option("exact", _word("exact", "error"), "sizes beyond a list of buckets: compile them exactly, or raise SizeError")
    async_compile: bool = _option(
        False, _flag, "compile in the background; meanwhile a larger bucket that is ready, or eager, serves the calls"
    )
    donate: bool = _option(True, _flag, "compute what is written to inputs (as optimizers do) into their own memory")
    fold_budget: int = _option(4096, _bytes, "largest constant, in bytes, that constant folding may create")
    rewrite: str = _option(
        "on",
        _word("on", "exact", "off"),
        "search for the cheapest equal program: with all rules, with those that keep every bit, or not",
    )
    roll: str = _option(
        "off",
        _word("auto", "on", "off"),
        "repeated layers compiled once, as a loop over stacked weights: where the device's cost table says that it pays, all, or none",
    )
    cache: bool = _option(True, _flag, "keep compiled programs on disk and use them again")
    cache_dir: str | None = _option(None, _text, "directory of the cache; default: clutch in the user's cache directory")
    cache_size: int = _option(10 << 30, _bytes, "bound on the cache in bytes; the least recently used entries go first")
    cache_shared: str | None = _option(None, _text, "read-only cache directories to ask next, separated by colons")
    dump_dir: str | None = _option(None, _text, "directory for the graph and HLO text of each compilation")

    @classmethod
    def read(cls, given: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ) -> "Options":
        """Options in force: the given ones, else the environment's, else the defaults.

        Raises OptionError for unknown names (with the nearest known one) and impossible values.
        """
        if given is not None and not isinstance(given, Mapping):
            raise OptionError(f"options cannot be {given!r}; accepted: a dictionary, as in options={{'target': 'v5e:2x2'}}")
        given = dict(given or {})
        for name in INDUCTOR_ONLY.intersection(given):
            note_once(f"the option {name!r} is Inductor's and has no effect on backend='tpu'")
            del given[name]
        fields = {f.name: f for f in dataclasses.fields(cls)}
        for name in given:
            if name not in fields:
                near = difflib.get_close_matches(str(name), fields, n=1, cutoff=0.4)
                hint = f" (did you mean {near[0]!r}?)" if near else ""
                raise OptionError(f"unknown option {name!r}{hint}. Known options: {', '.join(fields)}")
        _note_unknown_variables(fields, environ)
        values = {}
        for name, field in fields.items():
            variable = PREFIX + name.upper()
            if name in given:
                value, source = given[name], f"option {name!r}"
            elif environ.get(variable):
                value, source = environ[variable], variable
            else:
                continue
            if value is None:
                continue
            try:
                values[name] = field.metadata["read"](value)
            except (ValueError, TypeError) as error:
                if isinstance(error, OptionError):
                    raise
                raise OptionError(f"{source} cannot be {value!r}; {error}") from None
        return cls(**values)

    def for_rust(self, *, inference: bool, keep_texts: bool = False) -> dict[str, Any]:
        """The settings that the extension module takes."""
        import torch

        return {
            "target": self.target,
            "plugin": self.pjrt_plugin,
            "site_packages": site_packages(),
            "precision": self.precision or torch.get_float32_matmul_precision(),
            "inference": inference,
            "buckets": self.ladders().get("*", "auto"),
            "ladders": {},
            "beyond": self.beyond,
            "async_compile": self.async_compile and not keep_texts,
            "donate": self.donate,
            "fold_budget_bytes": self.fold_budget,
            "rewrite": self.rewrite,
            "roll": self.roll,
            "torch_version": str(torch.__version__),
            "dump_dir": self.dump_dir,
            **self.cache_settings(),
            "keep_texts": keep_texts,
            "names": [],
        }

    def ladders(self) -> dict[str, str]:
        """The ladder of each size, by ``NAME:AXIS`` or ``NAME``; ``*`` is for all others."""
        if "=" not in self.buckets:
            return {"*": self.buckets}
        return dict(part.split("=", 1) for part in self.buckets.split(";"))

    def cache_settings(self) -> dict[str, Any]:
        """The settings of the cache that the extension module takes."""
        return {
            "cache": self.cache,
            "cache_dir": self.cache_dir or default_cache_dir(),
            "cache_bytes": self.cache_size,
            "cache_shared": [p for p in (self.cache_shared or "").split(os.pathsep) if p],
        }


# Variables that are no options.
OTHER_VARIABLES = ("CLUTCH_LOG", "CLUTCH_LOG_FORMAT", "CLUTCH_RECORD_SIZES", "CLUTCH_POISON_PADDING", "CLUTCH_FAKE_PJRT", "CLUTCH_TEST")


def _note_unknown_variables(known: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    variables = [PREFIX + name.upper() for name in known]
    for name in environ:
        if name.startswith(PREFIX) and name not in variables and not name.startswith(OTHER_VARIABLES):
            near = difflib.get_close_matches(name, variables, n=1, cutoff=0.4)
            note_once(f"the environment variable {name} means nothing to Clutch{f'; did you mean {near[0]}?' if near else ''}")


INDUCTOR_ONLY = frozenset(
    {
        "max_autotune",
        "triton.cudagraphs",
        "epilogue_fusion",
        "shape_padding",
        "trace.enabled",
        "cpp_wrapper",
        "freezing",
    }
)

_noted: set[str] = set()


def note_once(text: str) -> None:
    """Logs a note the first time it is met in this process."""
    if text not in _noted:
        _noted.add(text)
        log.warning(text)


def default_cache_dir(environ: Mapping[str, str] = os.environ) -> str | None:
    """``clutch`` in the user's cache directory; None when there is no home directory."""
    above = environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(above):
        home = environ.get("HOME", "")
        above = os.path.join(home, ".cache") if home else ""
    return os.path.join(above, "clutch") if above else None


def site_packages() -> list[str]:
    """Folders of installed packages, in the order in which Python searches them."""
    folders = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    folders += site.getsitepackages()
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return list(dict.fromkeys(folders))
