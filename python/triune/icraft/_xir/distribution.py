"""Which elements of some axes, taken together, are valid, and which are padding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, overload

from triune.icraft._xir.arrays import Runs
from triune.icraft._xir.enums import DistrUnvalidValue
from triune.icraft._xir.errors import Error, native_errors
from triune.icraft._xir.objects import Concrete, ObjectRef

__all__ = ["MergedAxisDistr"]


class MergedAxisDistr(Concrete):
    """Sections of valid and of padding elements over merged axes, the first axis slowest."""

    type_key = "icraft::xir::MergedAxisDistrNode"
    _fields = ("_axes", "_mask", "_fill")
    _defaults: ClassVar[Mapping[str, Any]] = {"_axes": list, "_mask": Runs, "_fill": DistrUnvalidValue.ZERO}
    _axes: list[int]
    _mask: Runs[bool]
    # None: a file of before 3.31, which doesn't say.
    _fill: DistrUnvalidValue | None

    def __init__(self, merged_axis: Sequence[int] | ObjectRef, element_num: int = 0, init: bool = True) -> None:
        """Take the axes, the number of elements, and whether they are valid at first. Raises Error if there are less than 0."""
        if isinstance(merged_axis, ObjectRef):
            raise TypeError(f"MergedAxisDistr() takes a list of axes, not {type(merged_axis).__name__}")
        if element_num < 0:
            raise Error(f"MergedAxisDistr: {element_num} elements")
        self._axes = [int(axis) for axis in merged_axis]
        self._mask = Runs([(element_num, bool(init))])
        self._fill = DistrUnvalidValue.ZERO

    @classmethod
    def _read(cls, text: str) -> MergedAxisDistr:
        from triune._native import xir_parse_merged_distr

        with native_errors(""):
            axes, fill, sections = xir_parse_merged_distr(text)
        distribution = cls.Init()
        distribution._axes = list(axes)
        distribution._mask = Runs((end - start, kind == "v") for kind, start, end in sections)
        distribution._fill = None if fill is None else DistrUnvalidValue[fill]
        return distribution

    @property
    def merged_axis(self) -> list[int]:
        """The axes, numbers of stored extents, the first slowest. A new list."""
        return list(self._axes)

    def setMergedAxis(self, merged_axis: Sequence[int]) -> Self:
        """Set the axes, numbers of stored extents. The elements stay: `TensorType.validate` says whether they fit. Returns
        the object itself."""
        self._axes = [int(axis) for axis in merged_axis]
        return self

    @property
    def valid_mask(self) -> list[bool]:
        """Whether each element is valid, in a new list of bool. Raises Error if there are more than 2^24: `allSections` has
        them in short."""
        return list(self._mask)

    @property
    def uvalue(self) -> DistrUnvalidValue:
        """What padding holds: ``ZERO`` at first, ``NONE`` for anything; ``NONE``, too, if a file does not say it, as those
        before 3.31."""
        return DistrUnvalidValue.NONE if self._fill is None else self._fill

    def setUValue(self, uvalue: DistrUnvalidValue) -> Self:
        """Set what padding is said to hold. Data stay as they are."""
        self._fill = DistrUnvalidValue(uvalue)
        return self

    @overload
    def append(self, element_num: int, valid: bool) -> Self: ...
    @overload
    def append(self, element_num: Iterable[bool]) -> Self: ...
    @overload
    def append(self, *, other_valid_mask: Iterable[bool]) -> Self: ...
    def append(
        self,
        element_num: int | Iterable[bool] = (),
        valid: bool | None = None,
        other_valid_mask: Iterable[bool] = (),
    ) -> Self:
        """Add elements behind the others: a number that all are valid or all are not, or one by one as a list of bool.

        Raises Error if the number is negative, TypeError if it is not said whether they are valid.
        """
        if not isinstance(element_num, int):
            more: Iterable[tuple[int, bool]] = ((1, bool(one)) for one in (*element_num, *other_valid_mask))
        elif valid is None:
            raise TypeError("append() takes a number of elements and whether they are valid, or a mask")
        elif element_num < 0:
            raise Error(f"MergedAxisDistr: {element_num} elements cannot be added")
        else:
            more = [(element_num, bool(valid))]
        self._mask = Runs([*self._mask.pairs, *more])
        return self

    def _mark(self, start: int, end: int, valid: bool) -> Self:
        if not 0 <= start <= end <= self._mask.total:
            raise Error(f"of {self._mask.total} elements those from {start} to {end} cannot be marked")
        pairs: list[tuple[int, bool]] = []
        for left, right, was in self.allSections():
            inside = (max(left, start), min(right, end))
            if inside[0] >= inside[1]:
                pairs.append((right - left, was))
            else:
                pairs += [(inside[0] - left, was), (inside[1] - inside[0], valid), (right - inside[1], was)]
        self._mask = Runs((count, value) for count, value in pairs if count)
        return self

    def setValid(self, start: int, end: int) -> Self:
        """Mark the elements from `start` up to, not including, `end` as valid. Raises Error unless 0 ≤ `start` ≤ `end` ≤
        `totalNum`."""
        return self._mark(start, end, True)

    def setUnvalid(self, start: int, end: int) -> Self:
        """Mark the elements from `start` up to, not including, `end` as padding. Raises Error unless 0 ≤ `start` ≤ `end` ≤
        `totalNum`."""
        return self._mark(start, end, False)

    def allSections(self) -> list[tuple[int, int, bool]]:
        """Return the sections in order: first element, first one behind, whether they are valid. Neighbours differ, and none
        is empty."""
        sections = []
        place = 0
        for count, valid in self._mask.pairs:
            sections.append((place, place + count, valid))
            place += count
        return sections

    def validSections(self) -> list[tuple[int, int]]:
        """Return the sections of valid elements in order: first element, first one behind."""
        return [(start, end) for start, end, valid in self.allSections() if valid]

    def unvalidSections(self) -> list[tuple[int, int]]:
        """Return the sections of padding in order: first element, first one behind."""
        return [(start, end) for start, end, valid in self.allSections() if not valid]

    def totalNum(self) -> int:
        """Return the number of elements, valid ones and padding: the product of the axes' extents."""
        return self._mask.total

    def totalValidNum(self) -> int:
        """Return the number of valid elements."""
        return sum(count for count, valid in self._mask.pairs if valid)

    def totalUnvalidNum(self) -> int:
        """Return the number of padding elements."""
        return sum(count for count, valid in self._mask.pairs if not valid)

    def isValid(self, index: int) -> bool:
        """Return whether an element is valid; negative numbers count from the end. Raises Error if there is none of that
        number."""
        return self._mask.at(index)

    def _json(self) -> str:
        from triune._native import xir_format_merged_distr

        sections = [("v" if valid else "u", start, end) for start, end, valid in self.allSections()]
        with native_errors(""):
            return xir_format_merged_distr(self._axes, None if self._fill is None else self._fill.name, sections)
