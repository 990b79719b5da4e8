"""Operators in programmable logic: what the attributes of `customop::ImageMake`, `DetPost`, `DetPostZG`, `WarpAffine` and
`SegPost` mean.

Attributes have the names that they have in the vendor's networks; those of the last two, of which no network is public, in
programs that set the logic's registers. The arithmetic of the first three is the core's (`triune_device::logic`).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from triune.icraft._xir.objects import plain
from triune.icraft._xrt.backend import operands, operation_name
from triune.icraft._xrt.errors import BACKEND, RANGE, NotSupported, failure

if TYPE_CHECKING:
    from triune.icraft._xir.operation import Operation
    from triune.icraft._xir.types import TensorType

__all__ = [
    "DET_POST",
    "IMAGE_MAKE",
    "SEG_POST",
    "WARP_AFFINE",
    "Candidates",
    "Classes",
    "Group",
    "Picture",
    "Warp",
    "rows_type",
    "unknown_logic",
]

IMAGE_MAKE: Final = "customop::ImageMakeNode"
DET_POST: Final = ("customop::DetPostNode", "customop::DetPostZGNode")
WARP_AFFINE: Final = "customop::WarpAffineNode"
SEG_POST: Final = "customop::SegPostNode"

_BLOCK: Final = 4
_UNIT_BYTES: Final = 64


def unknown_logic(op: Operation, backend: str) -> NotSupported:
    """Return the exception for an operator of the vendor's logic whose arithmetic is not published."""
    return NotSupported(
        f"[{BACKEND}] {operation_name(op)}: it is logic of the vendor's bitstream, whose arithmetic is not published; the "
        "network can be deployed, inspected and timed. A function of the program's can stand for it, before Session.Create: "
        f"BackendOpRegistry.Register({backend}, {op.typeKey().removesuffix('Node')!r}).set_forward(function)"
    )


class _Attributes:
    """The attributes of an operation, each checked as it is read."""

    def __init__(self, op: Operation) -> None:
        self._op, self._found = op, op.attrs()

    def fail(self, problem: str) -> Exception:
        return failure(RANGE, f"{operation_name(self._op)}: {problem}")

    def _plain(self, name: str, default: Any) -> Any:
        return plain(self._found[name]) if name in self._found else default

    def whole(self, name: str, low: int, high: int, default: int | None = None) -> int:
        value = self._plain(name, default)
        if isinstance(value, bool):
            value = int(value)
        if not isinstance(value, int) or not low <= value <= high:
            raise self.fail(f"{name} is {value!r:.50}, expected a whole number from {low} to {high}")
        return value

    def numbers(self, name: str, count: int) -> list[float]:
        values = self._plain(name, None)
        found = _reals(values, count)
        if found is None:
            raise self.fail(f"{name} is {values!r:.80}, expected {count} numbers")
        return found

    def matrix(self, name: str, rows: int, columns: int) -> list[list[float]]:
        values = self._plain(name, None)
        if not isinstance(values, list) or len(values) != rows:
            raise self.fail(f"{name} is {values!r:.80}, expected {rows} rows of {columns} numbers")
        found = []
        for row in values:
            numbers = _reals(row, columns)
            if numbers is None:
                raise self.fail(f"{name} has the row {row!r:.80}, expected {columns} numbers")
            found.append(numbers)
        return found

    def feature_map(self, what: str, dtype: TensorType) -> tuple[list[int], bool]:
        """Return the extents (1, blocks, rows, columns, block) of a feature map, and whether its numbers have 16 bits."""
        shape, storage = _extents(dtype), str(dtype.getStorageType()).strip('"')
        if len(shape) != 5 or shape[0] != 1 or min(shape) < 1 or _named(dtype) != f"NCHWc{shape[-1]}":
            raise self.fail(f"{what}: expected a feature map (1, blocks, rows, columns, block) NCHWc, got {dtype}")
        if storage not in ("@sint(8)", "@sint(16)"):
            raise self.fail(f"{what}: expected numbers of @sint(8) or @sint(16), got {storage}")
        return shape, storage == "@sint(16)"


def _reals(values: Any, count: int) -> list[float] | None:
    """Return so many finite numbers, None if they are something else."""
    if not isinstance(values, list) or len(values) != count or not all(isinstance(one, int | float) for one in values):
        return None
    try:
        found = [float(one) for one in values]
    except OverflowError:
        return None
    return found if all(map(math.isfinite, found)) else None


def _extents(dtype: TensorType) -> list[int]:
    return [int(extent) for extent in dtype.shape]


def _named(dtype: TensorType) -> str:
    return str(dtype.layout).strip('"').removeprefix("@layout(").removesuffix(")")


@dataclass(frozen=True)
class Picture:
    """What makes a feature map of a picture's bytes."""

    width: int
    height: int
    channels: int
    mean: tuple[int, ...]
    """What the logic subtracts, per channel of a block."""
    scale: tuple[int, ...]
    """What it multiplies with, times 1024."""
    pads: tuple[int, int, int, int]
    """Rows above and below, columns left and right."""
    wide: bool
    arrangement: str
    port: int
    base: int

    @classmethod
    def of(cls, op: Operation) -> Picture:
        """Read an `ImageMake`.

        Raises InternalError if its attributes, operand and result do not fit together; NotSupported for what is not published.
        """
        found = _Attributes(op)
        values, made = operands(op), op.outputs
        if len(values) != 1 or len(made) != 1:
            raise found.fail(f"expected one operand and one result, got {len(values)} and {len(made)}")
        given, wanted = values[0].tensorType(), made[0].tensorType()
        shape, storage = _extents(given), str(given.getStorageType()).strip('"')
        if len(shape) != 4 or shape[0] != 1 or not 1 <= shape[3] <= _BLOCK or min(shape) < 1 or _named(given) != "NHWC":
            raise found.fail(
                f"expected a picture (1, rows, columns, 1 to 4 channels) NHWC, got {shape} {_named(given)}"
            )
        bits = found.whole("input_bits", 8, 16, 8)
        if storage not in ("@uint(8)", "@sint(16)") or (storage == "@sint(16)") != (bits == 16):
            raise found.fail(f"input_bits is {bits}, the picture {storage}: 8 is @uint(8), 16 is @sint(16)")
        if found.whole("one_fast", 0, 1, 0):
            raise NotSupported(f"[{BACKEND}] {operation_name(op)}: one_fast is set: what it changes is not published")
        _, height, width, channels = shape
        # Right, left, below, above.
        right, left, below, above = (int(pad) for pad in found.numbers("pad_size", 4))
        if min(right, left, below, above) < 0 or max(right, left, below, above) > 255:
            raise found.fail("pad_size: 0 to 255 can be")
        arrangements = {"@sint(8)": "int8", "@sint(16)": "int16", "@uint(8)": "uint8"}
        arrangement = arrangements.get(str(wanted.getStorageType()).strip('"'))
        rows = [1, 1, above + height + below, left + width + right, _BLOCK]
        if arrangement is None or _extents(wanted) != rows or _named(wanted) != f"NCHWc{_BLOCK}":
            raise found.fail(
                f"expected a result of 8 or 16-bit integers {rows} NCHWc{_BLOCK}, got {_extents(wanted)} {_named(wanted)}"
            )
        mean, scale = [0] * channels, [1024] * channels
        if not found.whole("pre_nop", 0, 1, 0):
            # As programs set the registers: the mean loses its fraction, the scale what is behind ten bits.
            mean = [int(-value) for value in found.numbers("pre_mean_data", channels)]
            divisors = found.numbers("pre_scale_data", channels)
            if not all(divisors):
                raise found.fail("pre_scale_data: a divisor of 0")
            factors = [1024 / value for value in divisors]
            scale = [int(value) if math.isfinite(value) else 1 << 16 for value in factors]
        if any(not -32768 <= value <= 32767 for value in (*mean, *scale)):
            raise found.fail("pre_mean_data and 1024 / pre_scale_data have to fit into 16 bits")
        fill = [0] * (_BLOCK - channels)
        return cls(
            width,
            height,
            channels,
            (*mean, *fill),
            (*scale, *fill),
            (above, below, left, right),
            bits == 16,
            arrangement,
            found.whole("input_port", 0, 3, 0),
            found.whole("reg_base", 0, (1 << 33) - 1, 0),
        )


@dataclass(frozen=True)
class Group:
    """One level of a detector: places of its parts among the operands, extents, threshold."""

    operands: tuple[int, ...]
    width: int
    height: int
    threshold: int


@dataclass(frozen=True)
class Candidates:
    """What gathers a detector's candidates."""

    anchors: int
    parts: tuple[int, ...]
    """Units of 64 bytes of one anchor in each part."""
    valid: int
    """Words of 8 bytes of the last unit that are written."""
    compares: bool
    compared: int
    mask: tuple[int, int]
    wide: bool
    groups: tuple[Group, ...]
    base: int

    @property
    def layers(self) -> int:
        """The bits of the parts that there are."""
        return (1 << len(self.parts)) - 1

    @property
    def row_bytes(self) -> int:
        """Bytes of a candidate."""
        return (sum(self.parts) - 1) * _UNIT_BYTES + (self.valid + self.compares) * 8

    @classmethod
    def of(cls, op: Operation) -> Candidates:
        """Read a `DetPost` or `DetPostZG`.

        Raises InternalError if its attributes, operands and results do not fit together.
        """
        found = _Attributes(op)
        layers = found.whole("layer_en", 1, 7)
        count = {1: 1, 3: 2, 7: 3}.get(layers)
        if count is None:
            raise found.fail(f"layer_en is {layers}; 1, 3 and 7 can be")
        parts = tuple(found.whole(name, 1, 1 << 16) for name in ("chn_1st", "chn_2nd", "chn_3rd")[:count])
        anchors = found.whole("anchor_num", 1, 1 << 16)
        values, made = operands(op), op.outputs
        levels = len(values) // count
        if levels == 0 or len(values) % count or len(made) != levels:
            raise found.fail(f"{len(values)} operands of {count} parts and {len(made)} results are no levels")
        thresholds = [int(value) for value in found.numbers("data_thr", levels)]
        if any(not -(1 << 31) <= value < 1 << 31 for value in thresholds):
            raise found.fail(f"data_thr is {thresholds!r:.80}; the register has 32 bits with sign")
        storages = {str(value.tensorType().getStorageType()).strip('"') for value in values}
        if storages not in ({"@sint(8)"}, {"@sint(16)"}):
            raise found.fail(f"expected feature maps of @sint(8) or of @sint(16), got {', '.join(sorted(storages))}")
        wide = storages == {"@sint(16)"}
        block = 16 if wide else 32
        groups = []
        for level in range(levels):
            first = level * count
            shapes = [_extents(value.tensorType()) for value in values[first : first + count]]
            height, width = (shapes[0] + [0, 0, 0, 0])[2:4]
            for part, (units, value) in enumerate(zip(parts, values[first : first + count], strict=True)):
                wanted = [1, units * anchors * 2, height, width, block]
                if shapes[part] != wanted or min(wanted) < 1 or _named(value.tensorType()) != f"NCHWc{block}":
                    raise found.fail(
                        f"operand {first + part}: expected {wanted} NCHWc{block}, got {shapes[part]} "
                        f"{_named(value.tensorType())}"
                    )
            if max(height, width) > 1 << 16:
                raise found.fail(f"operand {first}: {height}x{width} positions, each extent up to 65536 can be")
            groups.append(Group(tuple(range(first, first + count)), width, height, thresholds[level]))
        compares = bool(found.whole("cmp_en", 0, 1))
        compared = found.whole("cmp_chn", 0, 1 << 16)
        if compares and not 1 <= compared <= sum(parts):
            raise found.fail(f"cmp_chn is {compared}, of {sum(parts)} units; 1 to {sum(parts)} can be")
        mask = tuple(found.whole(name, -(1 << 31), (1 << 32) - 1) & 0xFFFFFFFF for name in ("cmp_mask0", "cmp_mask1"))
        return cls(
            anchors,
            parts,
            found.whole("valid_chn", 1, 8),
            compares,
            compared,
            (mask[0], mask[1]),
            wide,
            tuple(groups),
            found.whole("reg_base", 0, (1 << 33) - 1, 0),
        )


@dataclass(frozen=True)
class Warp:
    """What takes every pixel of a result from where a matrix says in the operand."""

    coefficients: tuple[tuple[int, int, int], tuple[int, int, int]]
    """Columns, then rows: factors of a result's column and row in 1/32768, and a distance in 1/2, as registers have them."""
    linear: bool
    replicate: bool
    border: int
    wide: bool
    shape: tuple[int, int, int]
    """The operand's rows, columns, and channels of its block."""
    made: tuple[int, int]

    @classmethod
    def of(cls, op: Operation) -> Warp:
        """Read a `WarpAffine`. Raises InternalError if its attributes, operand and result do not fit together."""
        found = _Attributes(op)
        values, results = operands(op), op.outputs
        if len(values) != 1 or len(results) != 1:
            raise found.fail(f"expected one operand and one result, got {len(values)} and {len(results)}")
        given, wide = found.feature_map("operand", values[0].tensorType())
        made, made_wide = found.feature_map("result", results[0].tensorType())
        if given[1] != 1 or made[1] != 1 or given[4] != made[4] or wide != made_wide:
            kinds = [f"@sint({16 if each else 8})" for each in (wide, made_wide)]
            raise found.fail(
                f"expected one block of as many channels of one type, got {given} {kinds[0]} and {made} {kinds[1]}"
            )
        if max(made[2], made[3]) > 1 << 15:
            raise found.fail(f"a result of {made[2]}x{made[3]}: the places of its pixels have 16 bits")
        across, down = found.matrix("M_inversed", 2, 3)
        if any(abs(factor) >= 1 << 16 for factor in (*across, *down)):
            raise found.fail("M_inversed: numbers from 65536 on do not fit the registers")
        # Registers lose what is behind their last bit.
        fixed = tuple((int(a * (1 << 15)), int(b * (1 << 15)), int(c * 2)) for a, b, c in (across, down))
        low, high = (-(1 << 15), (1 << 15) - 1) if wide else (-128, 127)
        return cls(
            (fixed[0], fixed[1]),
            bool(found.whole("flags", 0, 1, 1)),
            bool(found.whole("borderMode", 0, 1, 0)),
            found.whole("borderValue", low, high, 0),
            wide,
            (given[2], given[3], given[4]),
            (made[2], made[3]),
        )


@dataclass(frozen=True)
class Classes:
    """What tells the class of every pixel."""

    resizes: bool
    """Whether the operand is brought to the result's size before classes are compared."""
    shape: tuple[int, int, int, int]
    """The operand's blocks of channels, rows, columns, and channels of a block."""
    made: tuple[int, int]
    wide: bool
    first: tuple[int, int]
    """Row and column of the operand that the first of the result lies at, in 1/65536."""
    step: tuple[int, int]
    padding: tuple[int, ...]
    """Channels that are none, whose elements are no class's."""

    @classmethod
    def of(cls, op: Operation) -> Classes:
        """Read a `SegPost`. Raises InternalError if its attributes, operand and result do not fit together."""
        found = _Attributes(op)
        values, results = operands(op), op.outputs
        if len(values) != 1 or len(results) != 1:
            raise found.fail(f"expected one operand and one result, got {len(values)} and {len(results)}")
        (_, blocks, rows, columns, block), wide = found.feature_map("operand", values[0].tensorType())
        if blocks * block > 256:
            raise found.fail(f"{blocks * block} channels; the number of a class has 8 bits")
        distr = values[0].tensorType().getMergedDistr([1, 4])
        if distr is not None and (distr.totalNum() != blocks * block or not distr.totalValidNum()):
            raise found.fail(f"{distr.totalValidNum()} of {distr.totalNum()} channels are valid, of {blocks * block}")
        padding = (
            () if distr is None else tuple(at for start, end in distr.unvalidSections() for at in range(start, end))
        )
        source = found.whole("src_ysize", rows, rows, rows), found.whole("src_xsize", columns, columns, columns)
        resizes = bool(found.whole("mode", 0, 1))
        wanted = found.whole("dst_ysize", 1, 1 << 16, rows), found.whole("dst_xsize", 1, 1 << 16, columns)
        corners = found.whole("align_corner", 0, 1, 0)
        made = wanted if resizes else source
        dtype = results[0].tensorType()
        extents = _extents(dtype)
        if tuple(extents[1:3]) != made or results[0].storageBytes() != made[0] * made[1] * 4:
            raise found.fail(f"expected a result (1, {made[0]}, {made[1]}, …) of 4 bytes a pixel, got {dtype}")
        steps, firsts = [], []
        for extent, other in zip(source, wanted, strict=True):
            # In 32 bits, as programs compute it; registers lose what is behind their last bit.
            step = _f32(_f32((extent - 1) / max(other - 1, 1)) if corners else _f32(extent / other))
            steps.append(int(step * (1 << 16)))
            firsts.append(0 if corners else int(_f32(0.5 * _f32(step - 1)) * (1 << 16)))
        shape = (blocks, rows, columns, block)
        return cls(resizes, shape, made, wide, (firsts[0], firsts[1]), (steps[0], steps[1]), padding)


def _f32(value: float) -> float:
    (found,) = struct.unpack("f", struct.pack("f", value))
    return float(found)


def rows_type(dtype: TensorType, rows: int, length: int) -> TensorType:
    """Return the type of so many candidates of `length` elements: (1, 1, rows, length), with the scales of a level's type."""
    made = dtype.clone(2)
    made.setShape([1, 1, rows, length])
    ratios, scales = made.getNormratio(), made.getScale()
    if ratios is not None and len(ratios) > length:
        made.setNormratio(ratios.data[:length])
    if scales is not None and len(scales) > length:
        made.setScale(scales.split(0, length))
    return made
