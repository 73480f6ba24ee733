"""Tables written to a file part by part, so that one of any length takes little memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fbar.errors import FbarError, MissingExtra
from fbar.system.csv_cells import cell
from fbar.system.files import written_beside

if TYPE_CHECKING:
    from pandas import DataFrame


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file to write to that takes the place of ``path`` when it is complete."""
    try:
        with written_beside(path) as new:
            yield new
    except OSError as error:
        raise FbarError(f"cannot write {path}: {error.strerror or error}") from None


def write_table(path: Path, format: str, frames: Iterable[DataFrame]) -> int:
    """Write frames with the same columns one after the other, as csv or parquet; returns the number of rows.

    The file takes its place when it is complete: after an error the previous one is still there.
    """
    rows = 0
    with whole(path) as new:
        writer = ParquetWriter(new) if format == "parquet" else CsvWriter(new)
        try:
            for frame in frames:
                writer.write(frame)
                rows += len(frame)
        finally:
            writer.close()
    return rows


class CsvWriter:
    """Text; the only place where cells of a csv file are made."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._begun = False

    def write(self, frame: DataFrame) -> None:
        _without_formulas(frame).to_csv(self._file, index=False, header=not self._begun)
        self._begun = True

    def close(self) -> None:
        self._file.close()


def _without_formulas(frame: DataFrame) -> DataFrame:
    """A table whose names and texts no spreadsheet evaluates."""
    texts = {name: frame[name].map(cell) for name in frame if frame[name].dtype.kind not in "biufc"}
    return frame.assign(**texts).rename(columns=cell)


class ParquetWriter:
    """A row group for each frame."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise MissingExtra("pyarrow", "table") from error
        self._arrow, self._path = pyarrow, path
        self._writer: Any = None

    def write(self, frame: DataFrame) -> None:
        arrow = self._arrow
        if self._writer is None:
            table = arrow.Table.from_pandas(frame, preserve_index=False)
            for at, column in enumerate(table.schema):
                if arrow.types.is_null(column.type):  # no value yet: failures and the like are text
                    table = table.set_column(at, column.name, table.column(at).cast(arrow.string()))
            self._writer = arrow.parquet.ParquetWriter(self._path, table.schema)
        else:
            table = arrow.Table.from_pandas(frame, schema=self._writer.schema, preserve_index=False)
        self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
