"""The file form of saved programs: a prefix, sections at aligned offsets, and a header that names and digests them.

::

    bytes 0-7    "CLUTCHS\\n"
    bytes 8-11   format version, little-endian
    bytes 12-15  zero
    bytes 16-31  offset and length of the header
    bytes 32-63  blake3 digest of the header
    sections     each at a multiple of 64 bytes, so that tensors can be used where they lie in the mapped file
    header       JSON; ``sections`` gives offset, length and blake3 digest of each section by name
"""

import contextlib
import json
import os
import struct
import tempfile
from collections.abc import Iterable
from typing import Any

from . import _clutch
from .errors import SavedModelError

MAGIC = b"CLUTCHS\n"
VERSION = 2
PREFIX = struct.Struct("<8sIIQQ32s")
ALIGNMENT = 64


def write(path: str, header: dict[str, Any], sections: Iterable[tuple[str, Any]]) -> str:
    """Writes a file, which appears whole or not at all; the header's digest.

    ``sections`` gives names and objects with the buffer interface. Raises SavedModelError when the file cannot be written.
    """
    folder = os.path.dirname(os.path.abspath(path))
    try:
        with contextlib.ExitStack() as cleanup:
            handle, temporary = tempfile.mkstemp(prefix=".saving-", dir=folder)
            cleanup.callback(_remove, temporary)
            with os.fdopen(handle, "wb") as file:
                file.write(bytes(PREFIX.size))
                places: dict[str, tuple[int, int]] = {}
                for name, content in sections:
                    file.write(bytes(-file.tell() % ALIGNMENT))
                    view = memoryview(content).cast("B")
                    places[name] = (file.tell(), len(view))
                    file.write(view)
                file.flush()
                digests = _clutch.digest_sections(temporary, list(places.values()))
                described = {n: [*place, d] for (n, place), d in zip(places.items(), digests, strict=True)}
                text = json.dumps({**header, "sections": described}).encode()
                digest = _clutch.digest(text)
                offset = file.tell()
                file.write(text)
                file.seek(0)
                file.write(PREFIX.pack(MAGIC, VERSION, 0, offset, len(text), bytes.fromhex(digest)))
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
    except OSError as error:
        raise SavedModelError(f"cannot write {path}: {error.strerror or error}") from None
    return digest


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


class SavedFile:
    """An opened file: its header is verified, its sections are verified when asked for."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                self.size = os.fstat(file.fileno()).st_size
                prefix = file.read(PREFIX.size)
                if not prefix.startswith(MAGIC) or len(prefix) < PREFIX.size:
                    raise SavedModelError(f"{path} is not a saved program; make one with torch_clutch.save")
                _, version, _, offset, length, digest = PREFIX.unpack(prefix)
                if version != VERSION:
                    raise SavedModelError(
                        f"{path} has format version {version}, this build reads version {VERSION}; save it again, or use the "
                        "torch-clutch that wrote it"
                    )
                if offset + length > self.size:
                    raise self.damaged("it is cut off")
                file.seek(offset)
                text = file.read(length)
        except OSError as error:
            raise SavedModelError(f"cannot read {path}: {error.strerror or error}") from None
        self.digest = _clutch.digest(text)
        if bytes.fromhex(self.digest) != digest:
            raise self.damaged("its header does not have its digest")
        self.header: dict[str, Any] = json.loads(text)
        self.sections: dict[str, tuple[int, int, str]] = self.header["sections"]

    def damaged(self, why: str) -> SavedModelError:
        """The error for a file that is not what was written."""
        return SavedModelError(f"{self.path} is damaged: {why}; copy it anew")

    def verify(self, names: Iterable[str]) -> None:
        """Reads sections and compares digests. Raises SavedModelError naming the first that differs."""
        chosen = [(name, *self.sections[name]) for name in names]
        try:
            found = _clutch.digest_sections(self.path, [(offset, length) for _, offset, length, _ in chosen])
        except OSError:
            raise self.damaged("it is cut off") from None
        for (name, *_, expected), digest in zip(chosen, found, strict=True):
            if digest != expected:
                raise self.damaged(f"section {name!r} does not have its digest")

    def read(self, name: str) -> bytes:
        """A section's bytes, not verified."""
        offset, length, _ = self.sections[name]
        with open(self.path, "rb") as file:
            file.seek(offset)
            return file.read(length)
