"""The zip file of a bundle: a manifest with the SHA-256 of each member, and checks of what is read.

Nothing of a bundle is unpickled or run. Members are written below one folder only, and only under
names that were checked. How much comes out is counted while it is read, since a header may lie.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from xnmt_bench.errors import MissingError, StoreError
from xnmt_bench.parsing import parse_json
from xnmt_bench.store import file_hash, replacing

FORMAT, VERSION = "xnmt_bench bundle", 1
MANIFEST = "manifest.json"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date of zip: equal members give equal bytes
BLOCK = 1 << 20
SHA256 = re.compile(r"[0-9a-f]{64}")
# Of Windows too, where a drive or a backslash leads elsewhere.
UNSAFE = re.compile(r'[\x00-\x1f\x7f\\:*?"<>|]')


@dataclass(frozen=True)
class Limits:
    """How much a bundle may hold.

    Attributes:
        members: how many files.
        member: bytes of one of them.
        manifest: bytes of the manifest.
        total: bytes of all of them.
        ratio: how many times the archive's own size they may have together.
    """

    members: int = 50_000
    member: int = 1 << 30
    manifest: int = 1 << 24
    total: int = 1 << 32
    ratio: int = 200


LIMITS = Limits()


@dataclass(frozen=True)
class Bundle:
    """A bundle whose members were all checked.

    Attributes:
        path: the file.
        digest: its SHA-256.
        made_by: the version of this project that wrote it.
        author: who publishes it, as it says.
    """

    path: Path
    digest: str
    made_by: str
    author: str


def write_archive(path: Path, members: Mapping[str, bytes | Path], author: str = "") -> str:
    """Write a bundle.

    Args:
        path: of the zip file.
        author: who publishes it.
        members: contents, or files that hold them, by name.

    Returns:
        The SHA-256 of the file.
    """
    described = {}
    with (
        replacing(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, content in sorted(members.items()):
            # Read once: another command may write the file anew meanwhile.
            data = content if isinstance(content, bytes) else content.read_bytes()
            described[name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            _write_member(archive, name, data)
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "made_by": f"xnmt_bench {version('xnmt_bench')}",
            "author": author,
            "members": described,
        }
        text = json.dumps(manifest, indent=1, ensure_ascii=False)
        _write_member(archive, MANIFEST, text.encode())
    return file_hash(path)


def _write_member(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | 0o644) << 16
    archive.writestr(entry, data)


def unpack(path: Path, folder: Path, below: str, limits: Limits = LIMITS) -> Bundle:
    """Check every member of a bundle, and write those of one folder.

    Args:
        path: the zip file.
        folder: where they are written, under their names.
        below: the folder inside the bundle, such as `measurements/`; others are only checked.
        limits: beyond which the bundle is refused.

    Raises:
        MissingError: the file is missing.
        StoreError: it is not a bundle of this version, a member is missing, added or altered, has a
            name that leads elsewhere, or there is too much in it.
    """
    if not path.is_file():
        raise MissingError(f"{path}: no bundle is here")
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _entries(path, archive, limits)
            made_by, author, members = _manifest(path, archive, entries, limits)
            # A small archive of small files may be packed well.
            read, most = 0, min(limits.total, limits.ratio * path.stat().st_size)
            for name, described in members.items():
                target = folder / name if name.startswith(below) else None
                blocks = _blocks(archive, entries[name], path, limits.member)
                for count in _check_member(path, name, blocks, described, target):
                    read += count
                    if read > most:
                        raise StoreError(
                            f"{path}: unpacks to more than {most:,} bytes, the most that is read "
                            "of a file of its size"
                        )
    # A name that is not UTF-8 is a ValueError.
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as error:
        raise StoreError(f"{path}: no zip file, or a damaged one: {error}") from None
    return Bundle(path, file_hash(path), made_by, author)


def _entries(path: Path, archive: zipfile.ZipFile, limits: Limits) -> dict[str, zipfile.ZipInfo]:
    """Return the members of an archive by name; anything but a plain file is refused."""
    infos = archive.infolist()
    if len(infos) > limits.members:
        raise StoreError(f"{path}: {len(infos):,} members, and at most {limits.members:,} are read")
    entries: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        # `filename` is what Python made of it: cut at a zero byte, on Windows with other slashes.
        name = info.orig_filename
        if not is_safe(name) or name != info.filename:
            raise StoreError(f"{path}: the member {name!r} would be written outside the folder")
        if name in entries:
            raise StoreError(f"{path}: the member {name} is there twice")
        kind = stat.S_IFMT(info.external_attr >> 16)
        # Archives made on Windows leave the kind out.
        if kind not in (0, stat.S_IFREG) or info.flag_bits & 1:
            raise StoreError(f"{path}: the member {name} is no plain file, or is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise StoreError(f"{path}: the member {name} is packed in a way that is not read")
        entries[name] = info
    return entries


def is_safe(name: str) -> bool:
    """Return whether a name, its parts between slashes, stays below the folder it is put in."""
    parts = name.split("/")
    return not UNSAFE.search(name) and not {"", ".", ".."} & set(parts)


def _manifest(
    path: Path, archive: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo], limits: Limits
) -> tuple[str, str, dict[str, tuple[int, str]]]:
    """Return what wrote a bundle, who publishes it, and size and SHA-256 of each member.

    Raises:
        StoreError: the manifest cannot be read, or it names other members than are there.
    """
    if MANIFEST not in entries:
        raise StoreError(f"{path}: no bundle: it has no {MANIFEST}")
    blocks = _blocks(archive, entries[MANIFEST], path, limits.manifest)
    try:
        manifest = parse_json(b"".join(blocks).decode("utf-8"))
        if manifest["format"] != FORMAT:
            raise ValueError("another format")
        number = manifest["version"]
        if number != VERSION:
            raise StoreError(
                f"{path}: version {str(number)[:20]} of the format, and this xnmt_bench reads "
                f"version {VERSION}; read it with the version that wrote it, or write it anew"
            )
        made_by, author = (str(manifest[name])[:100] for name in ("made_by", "author"))
        members = {name: _described(member) for name, member in manifest["members"].items()}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise StoreError(f"{path}: {MANIFEST} cannot be read: {problem}") from None
    there = set(entries) - {MANIFEST}
    if lacking := sorted(members.keys() - there):
        raise StoreError(f"{path}: the member {lacking[0]} is missing; the manifest names it")
    if added := sorted(there - members.keys()):
        raise StoreError(f"{path}: the member {added[0]} was added; the manifest does not name it")
    return made_by, author, members


def _described(member: Any) -> tuple[int, str]:
    size, digest = member["size"], member["sha256"]
    if type(size) is not int or size < 0 or not SHA256.fullmatch(digest):
        raise ValueError("a member without its size and SHA-256")
    return size, digest


def _check_member(
    path: Path,
    name: str,
    blocks: Iterable[bytes],
    described: tuple[int, str],
    target: Path | None,
) -> Iterator[int]:
    """Read a member to its end, and write it if there is a place for it.

    Yields:
        The length of each block, before it is written.

    Raises:
        StoreError: its bytes are not those of the manifest.
    """
    (size, digest), hashed, total = described, hashlib.sha256(), 0
    altered = f"{path}: the member {name} was altered since the bundle was written"
    try:
        if target is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
        file = target.open("xb") if target is not None else None
    except OSError as error:  # a file for a folder, a name that is too long
        problem = f"cannot be written here: {error.strerror}"
        raise StoreError(f"{path}: the member {name} {problem}") from None
    try:
        for block in blocks:
            yield len(block)
            total += len(block)
            if total > size:
                raise StoreError(altered)
            hashed.update(block)
            if file:
                file.write(block)
    finally:
        if file:
            file.close()
    if hashed.hexdigest() != digest:
        raise StoreError(altered)


def _blocks(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path, most: int
) -> Iterator[bytes]:
    """Yield what comes out of a member.

    Raises:
        StoreError: it is damaged, or has more than `most` bytes.
    """
    count = 0
    try:
        with archive.open(entry) as file:
            while block := file.read(BLOCK):
                count += len(block)
                if count > most:
                    problem = f"has more than {most:,} bytes, the most that is read"
                    raise StoreError(f"{path}: the member {entry.filename} {problem}")
                yield block
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, ValueError) as error:
        raise StoreError(f"{path}: the member {entry.filename} is damaged: {error}") from None
