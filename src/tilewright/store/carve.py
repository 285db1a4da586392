"""Rows read off the pages of an SQLite file without its tree, so that no broken page hides what is on others.

What is read here is described in https://www.sqlite.org/fileformat2.html: the leaves of tables with numbered rows, their
cells, and the chains of overflow pages behind long ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LEAF = 0x0D
_PAGE_BYTES = 4096  # where the header that says it is gone
_FILE_HEADER = 100
_WAL_HEADER, _FRAME_HEADER = 32, 24

Row = tuple[Any, ...]


def rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Number and columns of each row on a readable page, of any table, some of them more than once.

    The column that is the number itself reads None. Pages of the write-ahead log come after those of the file.
    """
    data = path.read_bytes()
    size = int.from_bytes(data[16:18], "big")
    size = 65536 if size == 1 else size
    if not data.startswith(b"SQLite format 3\0") or size < 512 or size & (size - 1):
        size = _PAGE_BYTES
    pages = {number: data[at : at + size] for number, at in enumerate(range(0, len(data), size), 1)}
    yield from _of_pages(pages, pages, size)
    log = path.with_name(path.name + "-wal")
    if log.exists():
        frames = _frames(log.read_bytes(), size)
        yield from _of_pages(frames, pages | frames, size)


def _frames(log: bytes, size: int) -> dict[int, bytes]:
    """The latest form of each page in a write-ahead log."""
    found = {}
    for at in range(_WAL_HEADER, len(log) - size, _FRAME_HEADER + size):
        start = at + _FRAME_HEADER
        found[int.from_bytes(log[at : at + 4], "big")] = log[start : start + size]
    return found


def _of_pages(some: dict[int, bytes], every: dict[int, bytes], size: int) -> Iterator[tuple[int, Row]]:
    for number, page in some.items():
        start = _FILE_HEADER if number == 1 else 0
        if len(page) < size or page[start] != _LEAF:
            continue
        cells = int.from_bytes(page[start + 3 : start + 5], "big")
        for cell in range(cells):
            place = start + 8 + 2 * cell
            try:
                yield _cell(page, int.from_bytes(page[place : place + 2], "big"), every, size)
            except (IndexError, ValueError, KeyError):
                continue  # a page that only looks like a leaf, or a chain that ends on a broken one


def _cell(page: bytes, at: int, pages: dict[int, bytes], size: int) -> tuple[int, Row]:
    length, at = _varint(page, at)
    number, at = _varint(page, at)
    most, least = size - 35, (size - 12) * 32 // 255 - 23
    if length <= most:
        if at + length > size:
            raise ValueError("a cell beyond its page")
        return number, _columns(page[at : at + length])
    here = least + (length - least) % (size - 4)
    here = here if here <= most else least
    payload = bytearray(page[at : at + here])
    following = int.from_bytes(page[at + here : at + here + 4], "big")
    while len(payload) < length:
        part = pages[following]
        following = int.from_bytes(part[:4], "big")
        payload += part[4:]
    return number, _columns(bytes(payload[:length]))


def _columns(payload: bytes) -> Row:
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values, at = [], end
    for kind in kinds:
        length = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)[kind] if kind < 10 else (kind - 12) // 2
        part = payload[at : at + length]
        if len(part) < length or kind in (10, 11):
            raise ValueError("no row")
        at += length
        values.append(_value(kind, part))
    return tuple(values)


def _value(kind: int, part: bytes) -> Any:
    if kind >= 13 and kind % 2:
        return part.decode()  # UnicodeDecodeError is a ValueError
    if kind in (8, 9):
        return kind - 8
    return int.from_bytes(part, "big", signed=True) if 1 <= kind <= 6 else None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for step in range(8):
        byte = data[at + step]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + step + 1
    return value << 8 | data[at + 8], at + 9
