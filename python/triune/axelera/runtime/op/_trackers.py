"""Trackers: which objects of one picture are those of the ones before. By overlap and motion, from the papers that name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from triune.axelera.runtime._errors import InvalidArgument
from triune.axelera.runtime.op._objects import BBox, TrackedObject, TrackedObjectState
from triune.axelera.runtime.op._operators import FRAME, Operator, array_of
from triune.axelera.runtime.op._tracking import Array, Boxes, Expectation, heights, matched, overlaps

_NOWHERE = np.zeros((0, 4))

_FARTHEST = 1e6
"""Pictures that a box may be away from the one that it was found in."""


class Track:
    """One object through the pictures."""

    def __init__(self, number: int, kind: str, box: Array, score: float, item: Any, at: int) -> None:
        """Begin with what was found in a picture."""
        self.number, self.kind, self.item, self.score = number, kind, item, score
        self.motion = Expectation(box, kind)
        self.state, self.latest = TrackedObjectState.new, -1
        self.hits, self.streak, self.missed, self.age = 1, 1, 0, 1
        self.first = at
        self.seen: dict[int, Array] = {at: box}
        self.last = at
        self._before = self.motion.state()

    @property
    def box(self) -> Array:
        """Where it is expected."""
        return self.motion.box

    def predict(self) -> None:
        """Go on to the next picture."""
        if self.kind == "height" and self.state is TrackedObjectState.lost:
            self.motion.mean[7] = 0
        self.motion.predict()
        self.age += 1
        self.streak = 0 if self.missed else self.streak
        self.missed += 1

    def update(self, box: Array, score: float, item: Any, place: int, at: int, again: bool = False) -> None:
        """Take what was found. `again` goes through the pictures without it once more, on a line between both places."""
        gap = at - self.last
        if again and gap > 1:
            old = self.seen[self.last]
            self.motion.restore(self._before)
            for step in range(1, gap):
                self.motion.predict()
                self.motion.update(old + (box - old) * (step / gap))
            self.motion.predict()
        self.motion.update(box)
        self._before = self.motion.state()
        self.seen[at], self.last = box, at
        if len(self.seen) > 64:
            del self.seen[min(self.seen)]
        self.score, self.item, self.latest = score, item, place
        self.hits, self.streak, self.missed = self.hits + 1, self.streak + 1, 0

    def earlier(self, delta: int) -> Array:
        """Return where it was some pictures ago, or when it was seen first after that."""
        for back in range(delta, 0, -1):
            if self.last - back in self.seen:
                return self.seen[self.last - back]
        return self.seen[self.last]


def _boxes(tracks: Sequence[Track]) -> Boxes:
    return np.array([track.box for track in tracks]) if tracks else _NOWHERE


class Tracker(Operator):
    """Numbers objects through the pictures of a video: ``bytetrack``, ``sort``, ``oc-sort`` or ``tracktrack``.

    Each follows its paper by overlap and motion. Looks are not compared (`reid`, `aw_enabled`, `use_aflink`), a camera's motion
    is not taken out (`cmc_enabled`), lost numbers are not recovered at borders (`enable_id_recovery`): asking for that raises
    InvalidArgument, and tracktrack's `use_cmc` changes nothing. An algorithm takes the parameters that the vendor lists for it.
    Numbers begin at 1.
    """

    algo: str = "bytetrack"
    frame_rate: int = 30
    track_buffer: int = 30
    det_thresh: float = 0.0
    max_age: int = 30
    min_hits: int = 3
    iou_threshold: float = 0.3
    delta: int = 3
    inertia: float = 0.2
    w_assoc_emb: float = 0.75
    alpha_fixed_emb: float = 0.95
    max_id: int = 0
    aw_enabled: bool = False
    aw_param: float = 0.5
    cmc_enabled: bool = False
    enable_id_recovery: bool = False
    rec_image_rect_margin: int = 20
    rec_track_min_time_since_update_at_boundary: int = 6
    rec_track_min_time_since_update_inside: int = 300
    rec_track_min_age: int = 30
    rec_track_merge_lap_thresh: float = 0.09
    rec_track_memory_capacity: int = 1000
    rec_track_memory_max_age: int = 54000
    det_thr: float = 0.6
    init_thr: float = 0.6
    match_thr: float = 0.8
    tai_thr: float = 0.55
    penalty_p: float = 0.2
    penalty_q: float = 0.4
    reduce_step: float = 0.05
    max_time_lost: int = 30
    min_len: int = 3
    min_box_area: int = 100
    alpha: float = 0.95
    use_cmc: bool = True
    use_aflink: bool = False
    aflink_model: str = ""
    dataset_type: str = "MOT"
    return_all_states: bool = False
    reid: Any = None

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        """Take the fields. Raises InvalidArgument for an unknown algorithm, and for what is not there."""
        super().__init__(*arguments, **keywords)
        self._steps = {
            "bytetrack": self._bytetrack,
            "sort": self._sort,
            "oc-sort": self._sort,
            "tracktrack": self._tracktrack,
        }
        if self.algo not in self._steps:
            raise InvalidArgument(f"tracker: algo {self.algo!r} is none of {', '.join(self._steps)}")
        for name in ("reid", "aw_enabled", "cmc_enabled", "enable_id_recovery", "use_aflink"):
            if getattr(self, name):
                raise InvalidArgument(f"tracker: {name}: objects are told by overlap and motion alone; leave it out")
        self.reset()

    def reset(self) -> None:
        """Forget all tracks: the next picture is the first one."""
        self._tracks: list[Track] = []
        self._gone: list[Track] = []
        self._at, self._numbers = 0, 0
        self._extent: tuple[int, int] | None = None

    def __call__(self, objects: Any) -> list[TrackedObject]:
        """Return the tracks of this picture, by number: of those that are there, or with `return_all_states` of lost ones, too.

        `objects` have a box and a score each. Places are compared in pixels of the picture under way, or of one of 1000 by 1000.
        Raises InvalidArgument for an object whose box or score is no number.
        """
        found = [one for one in objects if one.bbox is not None]
        places = [place for place, one in enumerate(objects) if one.bbox is not None]
        width, height = self._size()
        scale = np.array([width, height, width, height], np.float64)
        boxes = np.array([one.bbox.xyxy() for one in found]).reshape(-1, 4) * scale
        scores = np.array([1.0 if one.score is None else one.score for one in found])
        # No filter that expects where objects will be forgets one that was nowhere.
        nowhere = ~(np.abs(boxes) <= _FARTHEST * scale).all(1) | ~np.isfinite(scores)
        if nowhere.any():
            at = int(nowhere.argmax())
            raise InvalidArgument(
                f"tracker: object {places[at]}: expected a box of fractions of the picture, and a score, got "
                f"{found[at].bbox} and {found[at].score}"
            )
        self._at += 1
        self._gone = []
        for track in self._tracks:
            track.latest = -1
            track.predict()
        shown = self._steps[self.algo](boxes, scores, found, places)
        several = sorted(shown + (self._others(shown) if self.return_all_states else []), key=lambda one: one.number)
        return [
            TrackedObject(one.number, BBox(*(one.box / scale).tolist()), one.state, one.item, one.latest)
            for one in several
        ]

    def _others(self, shown: list[Track]) -> list[Track]:
        numbers = {track.number for track in shown}
        return [track for track in self._tracks + self._gone if track.number not in numbers]

    def _size(self) -> tuple[int, int]:
        if self._extent is None:
            frame = FRAME.get()
            image = None if frame is None or frame.input is None else array_of(frame.input)
            shape: tuple[int, ...] = getattr(image, "shape", ())
            height, width = map(int, shape[:2]) if len(shape) in (2, 3) else (1000, 1000)
            self._extent = width, height
        return self._extent

    def _begin(self, kind: str, box: Array, score: float, item: Any, place: int) -> Track:
        self._numbers = 1 if self.max_id and self._numbers >= self.max_id else self._numbers + 1
        track = Track(self._numbers, kind, box, score, item, self._at)
        track.latest = place
        self._tracks.append(track)
        return track

    def _drop(self, tracks: Sequence[Track]) -> None:
        for track in tracks:
            track.state = TrackedObjectState.removed
        gone = {id(track) for track in tracks}
        self._gone += tracks
        self._tracks = [track for track in self._tracks if id(track) not in gone]

    # ByteTrack (Zhang and others, 2022): likely objects first, then unlikely ones for the tracks that are left.
    def _bytetrack(self, boxes: Boxes, scores: Array, items: list[Any], places: list[int]) -> list[Track]:
        likely = [at for at, score in enumerate(scores) if score >= 0.5]
        unlikely = [at for at, score in enumerate(scores) if 0.1 < score < 0.5]
        old = [track for track in self._tracks if track.state is not TrackedObjectState.new]
        fresh = [track for track in self._tracks if track.state is TrackedObjectState.new]

        def taken(tracks: list[Track], among: list[int], most: float) -> tuple[list[Track], list[int]]:
            pairs, tracks_left, left = matched(1 - overlaps(_boxes(tracks), boxes[among]), most)
            for row, column in pairs:
                at = among[column]
                tracks[row].update(boxes[at], float(scores[at]), items[at], places[at], self._at)
                tracks[row].state = TrackedObjectState.tracked
            return [tracks[row] for row in tracks_left], [among[column] for column in left]

        left, likely = taken(old, likely, 0.8)
        current = [track for track in left if track.state is TrackedObjectState.tracked]
        left, _ = taken(current, unlikely, 0.5)
        for track in left:
            track.state = TrackedObjectState.lost
        unconfirmed, likely = taken(fresh, likely, 0.7)
        self._drop(unconfirmed)
        for at in likely:
            if scores[at] >= 0.6:
                track = self._begin("height", boxes[at], float(scores[at]), items[at], places[at])
                if self._at == 1:
                    track.state = TrackedObjectState.tracked
        most = int(self.frame_rate / 30 * self.track_buffer)
        self._drop([track for track in self._tracks if self._at - track.last > most])
        self._merge()
        return [track for track in self._tracks if track.state is TrackedObjectState.tracked]

    def _merge(self) -> None:
        """Of a lost track and one that is there at the same place, keep the older one."""
        there = [track for track in self._tracks if track.state is TrackedObjectState.tracked]
        lost = [track for track in self._tracks if track.state is TrackedObjectState.lost]
        shared = overlaps(_boxes(there), _boxes(lost))
        doubled = []
        for row, column in zip(*np.nonzero(shared > 0.85), strict=True):
            one, other = there[row], lost[column]
            doubled.append(other if one.last - one.first > other.last - other.first else one)
        self._drop(list({id(track): track for track in doubled}.values()))

    # SORT (Bewley and others, 2016), and OC-SORT (Cao and others, 2022): the direction of motion counts, tracks that are left are
    # compared where they were seen last, and those that come back go through their absence again.
    def _sort(self, boxes: Boxes, scores: Array, items: list[Any], places: list[int]) -> list[Track]:
        observed = self.algo == "oc-sort"
        among = [at for at, score in enumerate(scores) if not observed or score >= self.det_thresh]
        tracks = list(self._tracks)
        shared = overlaps(_boxes(tracks), boxes[among])
        gain = shared + (self._directions(tracks, boxes[among], scores[among]) if observed else 0)
        pairs, left, free = matched(-gain, np.inf)
        kept = [(row, column) for row, column in pairs if shared[row, column] >= self.iou_threshold]
        left += [row for row, column in pairs if shared[row, column] < self.iou_threshold]
        free += [column for row, column in pairs if shared[row, column] < self.iou_threshold]
        if observed and left and free:
            seen = np.array([tracks[row].seen[tracks[row].last] for row in left])
            again, rest, remaining = matched(
                1 - overlaps(seen, boxes[[among[at] for at in free]]), 1 - self.iou_threshold
            )
            kept += [(left[row], free[column]) for row, column in again]
            left, free = [left[row] for row in rest], [free[column] for column in remaining]
        for row, column in kept:
            at = among[column]
            tracks[row].update(boxes[at], float(scores[at]), items[at], places[at], self._at, again=observed)
        for column in free:
            at = among[column]
            self._begin("area", boxes[at], float(scores[at]), items[at], places[at])
        self._drop([track for track in self._tracks if track.missed > self.max_age])
        shown = []
        for track in self._tracks:
            confirmed = track.streak >= self.min_hits or self._at <= self.min_hits
            if track.missed:
                track.state = TrackedObjectState.lost
            else:
                track.state = TrackedObjectState.tracked if confirmed else TrackedObjectState.new
                shown += [track] if confirmed else []
        return shown

    def _directions(self, tracks: list[Track], boxes: Boxes, scores: Array) -> Array:
        """Return how well the way to each box goes on with each track's way so far."""
        found = np.zeros((len(tracks), len(boxes)))
        centres = (boxes[:, :2] + boxes[:, 2:]) / 2
        for row, track in enumerate(tracks):
            old, last = ((box[:2] + box[2:]) / 2 for box in (track.earlier(self.delta), track.seen[track.last]))
            way, ways = last - old, centres - old
            so_far, lengths = float(np.hypot(*way)), np.hypot(ways[:, 0], ways[:, 1])
            if so_far == 0:
                continue
            cosines = np.divide(ways @ way, lengths * so_far, out=np.zeros(len(ways)), where=lengths > 0)
            # A quarter of a turn is neutral, the same way a half, the opposite one minus a half.
            found[row] = (0.5 - np.arccos(np.clip(cosines, -1, 1)) / np.pi) * self.inertia * scores
        return found

    # TrackTrack (Shim and others, 2025): the nearest pairs first, by overlap with heights, scores and corners, in rounds that
    # grow stricter; new tracks only where neither a track nor a likelier object is.
    def _tracktrack(self, boxes: Boxes, scores: Array, items: list[Any], places: list[int]) -> list[Track]:
        tracks = list(self._tracks)
        cost = self._distances(tracks, boxes, scores)
        cost[:, scores < self.det_thr] += self.penalty_p
        most, free_rows, free = self.match_thr, set(range(len(tracks))), set(range(len(boxes)))
        while free_rows and free:
            rows, columns = sorted(free_rows), sorted(free)
            part = cost[np.ix_(rows, columns)]
            nearest, owners = part.argmin(1), part.argmin(0)
            pairs = [
                (row, int(nearest[row]))
                for row in range(len(rows))
                if owners[nearest[row]] == row and part[row, nearest[row]] < most
            ]
            if not pairs:
                break
            for row, column in pairs:
                track, at = tracks[rows[row]], columns[column]
                track.update(boxes[at], float(scores[at]), items[at], places[at], self._at)
                free_rows.discard(rows[row])
                free.discard(at)
            most -= self.reduce_step
        for row in free_rows:
            tracks[row].state = TrackedObjectState.lost
        self._drop([track for track in self._tracks if self._at - track.last > self.max_time_lost])
        self._drop([t for t in self._tracks if t.missed and t.hits < self.min_len and self._at > self.min_len])
        present = [track.seen[track.last] for track in self._tracks if not track.missed]
        for at in sorted(free, key=lambda at: -scores[at]):
            if scores[at] < self.init_thr or (boxes[at, 2:] - boxes[at, :2]).prod() < self.min_box_area:
                continue
            if present and overlaps(np.array(present), boxes[at]).max() > self.tai_thr:
                continue
            self._begin("height", boxes[at], float(scores[at]), items[at], places[at])
            present.append(boxes[at])
        shown = []
        for track in self._tracks:
            if not track.missed or track.first == self._at:
                confirmed = track.hits >= self.min_len or self._at < self.min_len
                track.state = TrackedObjectState.tracked if confirmed else TrackedObjectState.new
                shown += [track] if confirmed else []
        return shown

    def _distances(self, tracks: list[Track], boxes: Boxes, scores: Array) -> Array:
        expected = _boxes(tracks)
        shared = overlaps(expected, boxes)
        far = 1 - shared * heights(expected, boxes)
        known = np.array([track.score for track in tracks])
        doubt = np.abs(known[:, None] - scores[None])
        corners = np.zeros_like(far)
        for row, track in enumerate(tracks):
            before, last = track.earlier(1), track.seen[track.last]
            turns = []
            for columns in ((0, 1), (2, 1), (0, 3), (2, 3)):
                way, ways = (last - before)[list(columns)], (boxes - last)[:, list(columns)]
                lengths = np.hypot(*way) * np.hypot(ways[:, 0], ways[:, 1])
                cosines = np.divide(ways @ way, lengths, out=np.ones(len(boxes)), where=lengths > 0)
                turns.append(np.arccos(np.clip(cosines, -1, 1)) / np.pi)
            corners[row] = np.mean(turns, 0)
        found: Array = far + 0.1 * doubt + 0.05 * corners
        found[shared <= 0] = 2
        return found
