//! A slow simulator of a core, from cycle to cycle, to compare the timeline with. It shares no code with it: it knows only
//! what the documentation says of tiles, queues, buffers and ports.
//!
//! A command's tiles are found by walking its two loops with an eye on what lies in the buffers: what a tile needs and
//! does not find there is loaded, what the loops will not keep is dropped. Each job then waits in a queue (LOAD, EXECUTE or
//! STORE) and there for what it needs; every memory's port serves the jobs' transfers in the order in which they are issued.
//! The bytes in the buffers are counted as they come and go.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use triune_device::timing::{Order, Tiling};

/// Most memories.
pub(crate) const MEMORIES: usize = 3;

pub(crate) type Bytes = [u64; MEMORIES];

/// A core.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    /// Per memory: bytes per cycles, and the latency.
    pub(crate) ports: [([u64; 2], u64); MEMORIES],
    /// Per memory: bytes of a burst, bytes of a row, cycles that opening one takes.
    pub(crate) rows: [[u64; 3]; MEMORIES],
    pub(crate) launch: u64,
    pub(crate) overhead: u64,
    /// The memory whose contents need no buffer.
    pub(crate) near: usize,
}

/// A window that slides over the rows of an input.
#[derive(Clone, Debug)]
pub(crate) struct Slide {
    pub(crate) rows_in: u64,
    pub(crate) kernel: u64,
    pub(crate) stride: u64,
    pub(crate) dilation: u64,
    pub(crate) pad: u64,
}

/// A command as the engines see it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    /// What panels are cut from, what bands are cut from, and further inputs.
    pub(crate) weights: Bytes,
    pub(crate) map: Bytes,
    pub(crate) beside: Bytes,
    pub(crate) outputs: Bytes,
    pub(crate) compute: u64,
    /// Rows of results.
    pub(crate) rows: u64,
    pub(crate) slide: Option<Slide>,
    /// Bytes of the partial sums of all results.
    pub(crate) sums: u64,
}

/// What a command cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) stall: u64,
    pub(crate) load_stall: u64,
    pub(crate) read: Bytes,
    /// Most bytes in the buffers in any cycle.
    pub(crate) held: u64,
}

/// Part `at` of `parts`: the first ones have one more where it does not divide.
fn part(total: u64, at: u64, parts: u64) -> u64 {
    total / parts + u64::from(at < total % parts)
}

fn parts(total: Bytes, at: u64, of: u64) -> Bytes {
    total.map(|bytes| part(bytes, at, of))
}

fn add(a: Bytes, b: Bytes) -> Bytes {
    std::array::from_fn(|at| a[at] + b[at])
}

/// Something that lies in a buffer: a piece of weights or a part of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Weights(u64),
    /// A band, and which piece of it.
    Map(u64, u64),
}

/// One tile: what it loads, until when that lies there, what it computes and stores.
#[derive(Clone, Debug, Default)]
struct Tile {
    weights: Bytes,
    data: Bytes,
    stores: Bytes,
    compute: u64,
    /// Bytes from far memories that its load brings, and the tile after whose computation they go.
    brings: Vec<(u64, usize)>,
    /// Bytes of results for far memories.
    results: u64,
    /// Bytes of partial sums while it and those of the same results compute.
    sums: u64,
}

/// The rows of the input that a band of results needs, found row by row.
fn rows_of(task: &Task, band: u64, bands: u64) -> (u64, u64) {
    let before: u64 = (0..band).map(|at| part(task.rows, at, bands)).sum();
    let rows = before..before + part(task.rows, band, bands);
    let Some(slide) = &task.slide else { return (rows.end - rows.start, task.rows) };
    let mut needed = BTreeSet::new();
    for row in rows {
        // Rows between a window's taps lie between them in memory and are read, too.
        let top = (row * slide.stride) as i64 - slide.pad as i64;
        for down in 0..=(slide.kernel - 1) * slide.dilation {
            let at = top + down as i64;
            if (0..slide.rows_in as i64).contains(&at) {
                needed.insert(at);
            }
        }
    }
    let rows = match (needed.first(), needed.last()) {
        // What no window touches between two that are needed is read on the way.
        (Some(first), Some(last)) => last - first + 1,
        _ => 0,
    };
    (rows as u64, slide.rows_in)
}

fn band_bytes(task: &Task, band: u64, bands: u64) -> Bytes {
    let (rows, all) = rows_of(task, band, bands);
    if bands == 1 { task.map } else { task.map.map(|bytes| (bytes.div_ceil(all) * rows).min(bytes)) }
}

/// The tiles of a command in their order.
fn tiles(core: &Core, task: &Task, tiling: &Tiling) -> Vec<Tile> {
    let far = |bytes: Bytes| (0..MEMORIES).filter(|&at| at != core.near).map(|at| bytes[at]).sum::<u64>();
    let [bands, panels, chunks, kept] =
        [tiling.bands, tiling.panels, tiling.chunks, tiling.kept].map(u64::from);
    let total = bands * panels * chunks;
    let results = bands * panels;
    if tiling.order == Order::Even {
        let tile = |at: u64| {
            let [weights, map, beside, stores] =
                [task.weights, task.map, task.beside, task.outputs].map(|bytes| parts(bytes, at, total));
            let data = add(map, beside);
            Tile {
                weights,
                data,
                stores,
                compute: part(task.compute, at, total),
                brings: vec![(far(weights) + far(data), at as usize)],
                results: far(stores),
                sums: 0,
            }
        };
        return (0..total).map(tile).collect();
    }
    let bands_outside = tiling.order == Order::Bands;
    let places: Vec<[u64; 3]> = if bands_outside {
        (0..bands)
            .flat_map(|band| {
                (0..panels).flat_map(move |panel| (0..chunks).map(move |chunk| [band, panel, chunk]))
            })
            .collect()
    } else {
        (0..panels).flat_map(|panel| (0..bands).map(move |band| [band, panel, 0])).collect()
    };
    // What lies in the buffers: its bytes and the tile that brought it.
    let mut there: BTreeMap<Thing, (u64, usize)> = BTreeMap::new();
    let mut found: Vec<Tile> = Vec::new();
    for (at, &[band, panel, chunk]) in places.iter().enumerate() {
        let mut tile = Tile { compute: part(task.compute, at as u64, total), ..Tile::default() };
        let piece = panel * chunks + chunk;
        if let Entry::Vacant(place) = there.entry(Thing::Weights(piece)) {
            tile.weights = parts(task.weights, piece, panels * chunks);
            place.insert((far(tile.weights), at));
        }
        if let Entry::Vacant(place) = there.entry(Thing::Map(band, chunk)) {
            let own = parts(band_bytes(task, band, bands), chunk, chunks);
            tile.data = own;
            place.insert((far(own), at));
        }
        if chunk + 1 == chunks {
            let result = if bands_outside { band * panels + panel } else { panel * bands + band };
            let beside = parts(task.beside, result, results);
            tile.data = add(tile.data, beside);
            tile.brings.push((far(beside), at));
            tile.stores = parts(task.outputs, result, results);
            tile.results = far(tile.stores);
        }
        if chunks > 1 {
            tile.sums = task.sums.div_ceil(results);
        }
        found.push(tile);
        // The outer loop's operand goes with its turn, the inner one's once it has been used, unless it is kept or there is
        // no other to make room for.
        let next = places.get(at + 1);
        let goes = |thing: &Thing| match (*thing, next) {
            (_, None) => true,
            (Thing::Weights(own), Some(_)) if bands_outside => own == piece && (bands == 1 || own >= kept),
            (Thing::Weights(own), Some(&[_, panel, _])) => own != panel,
            (Thing::Map(own, _), Some(&[band, ..])) if bands_outside => own != band,
            (Thing::Map(own, _), Some(_)) => own == band && bands > 1 && own >= kept,
        };
        let gone: Vec<Thing> = there.keys().copied().filter(goes).collect();
        for thing in gone {
            if let Some((bytes, brought)) = there.remove(&thing) {
                found[brought].brings.push((bytes, at));
            }
        }
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Queue {
    Load,
    Execute,
    Store,
}

/// One entry of a queue; jobs are named by their place in the list.
#[derive(Clone, Debug)]
struct Job {
    queue: Queue,
    tile: usize,
    bytes: Bytes,
    compute: u64,
    /// The job before in its queue; a load or store must only have begun, an execution be done.
    before: Option<usize>,
    /// Jobs that must be done.
    needs: Vec<usize>,
    /// Per memory: the job whose transfer the port serves before.
    port_before: [Option<usize>; MEMORIES],
    ready: Option<u64>,
    began: Option<u64>,
    /// Per memory: until when the port is busy with it.
    served: [Option<u64>; MEMORIES],
    done: Option<u64>,
}

/// The jobs of a command in the order in which it issues them, and what each waits for.
fn issue(tiles: &[Tile], depth: usize) -> Vec<Job> {
    let job = |queue, tile, bytes, compute| Job {
        queue,
        tile,
        bytes,
        compute,
        before: None,
        needs: Vec::new(),
        port_before: [None; MEMORIES],
        ready: None,
        began: None,
        served: [None; MEMORIES],
        done: None,
    };
    let loads =
        |at: usize| [job(Queue::Load, at, tiles[at].weights, 0), job(Queue::Load, at, tiles[at].data, 0)];
    let mut jobs: Vec<Job> = Vec::new();
    jobs.extend(loads(0));
    for at in 0..tiles.len() {
        if depth > 1 && at + 1 < tiles.len() {
            jobs.extend(loads(at + 1));
        }
        jobs.push(job(Queue::Execute, at, [0; MEMORIES], tiles[at].compute));
        jobs.push(job(Queue::Store, at, tiles[at].stores, 0));
        if depth == 1 && at + 1 < tiles.len() {
            jobs.extend(loads(at + 1));
        }
    }
    for index in 0..jobs.len() {
        let job = jobs[index].clone();
        let all = |queue: Queue, tile: Option<usize>| -> Vec<usize> {
            (0..jobs.len()).filter(|&at| jobs[at].queue == queue && Some(jobs[at].tile) == tile).collect()
        };
        // The tile that had the same room.
        let earlier = job.tile.checked_sub(depth);
        let needs = match job.queue {
            Queue::Load => all(Queue::Execute, earlier),
            Queue::Execute => [all(Queue::Load, Some(job.tile)), all(Queue::Store, earlier)].concat(),
            Queue::Store => all(Queue::Execute, Some(job.tile)),
        };
        let before = (0..index).rev().find(|&at| jobs[at].queue == job.queue);
        let port_before =
            std::array::from_fn(|memory| (0..index).rev().find(|&at| jobs[at].bytes[memory] > 0));
        let job = &mut jobs[index];
        (job.before, job.port_before, job.needs) = (before, port_before, needs);
    }
    jobs
}

/// Runs the commands one after the other, each cut as its tiling says; gives their costs and the cycle in which the last
/// store is done.
pub(crate) fn simulate(core: &Core, tasks: &[(Task, Tiling)]) -> (Vec<Cost>, u64) {
    let mut now = core.launch;
    let mut costs = Vec::new();
    for (task, tiling) in tasks {
        let cost = one(core, task, tiling, now);
        now = cost.end;
        costs.push(cost);
    }
    (costs, now)
}

/// One command that begins at `from`.
fn one(core: &Core, task: &Task, tiling: &Tiling, from: u64) -> Cost {
    let tiles = tiles(core, task, tiling);
    let mut jobs = issue(&tiles, tiling.depth as usize);
    let (mut live, mut now) = (0, from);
    while live < jobs.len() {
        // What takes no time can follow something else within the cycle.
        while (live..jobs.len()).any(|index| step(core, &mut jobs, index, now, from)) {}
        while jobs.get(live).is_some_and(|job| job.done.is_some()) {
            live += 1;
        }
        // Nothing changes before something ends.
        let ends = jobs.iter().flat_map(|job| job.served.iter().chain([&job.done]).flatten());
        let ends = ends.copied().chain([from + core.overhead]).filter(|&end| end > now);
        now = ends.min().unwrap_or(now + 1);
        assert!(now - from < 100_000_000, "no progress: {:?}", jobs.get(live));
    }
    let mut cost = Cost { start: u64::MAX, end: from, ..Cost::default() };
    let mut computed = from;
    for job in &jobs {
        let (began, done) = (job.began.expect("it began"), job.done.expect("it ended"));
        match job.queue {
            Queue::Load if job.bytes == [0; MEMORIES] => {}
            Queue::Load => {
                cost.start = cost.start.min(began);
                cost.read = add(cost.read, job.bytes);
            }
            Queue::Execute => {
                cost.start = cost.start.min(began);
                let turn = turn(core, &jobs, job, from).expect("the one before ended");
                let loads = job.needs.iter().filter(|&&other| jobs[other].queue == Queue::Load);
                let loaded = loads.filter_map(|&other| jobs[other].done).fold(turn, u64::max);
                cost.stall += began - turn;
                cost.load_stall += loaded - turn;
                computed = computed.max(done);
            }
            Queue::Store => cost.end = cost.end.max(done),
        }
    }
    cost.stall += cost.end - computed;
    cost.held = held(&tiles, &jobs, tiling.chunks as usize);
    cost
}

/// Most bytes in the buffers at once: operands from the load that brings them until the last computation that needs them,
/// results from their computation until they are stored, partial sums while they are added to.
fn held(tiles: &[Tile], jobs: &[Job], chunks: usize) -> u64 {
    let times = |queue: Queue, tile: usize| {
        let own = jobs.iter().filter(|job| job.queue == queue && job.tile == tile);
        let own = own.map(|job| (job.began.expect("it began"), job.done.expect("it ended")));
        own.fold((u64::MAX, 0), |sum, (began, done)| (sum.0.min(began), sum.1.max(done)))
    };
    // What comes and what goes in which cycle.
    let mut changes: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
    let mut lies = |bytes: u64, from: u64, until: u64| {
        if from < until {
            changes.entry(from).or_default()[0] += bytes;
            changes.entry(until).or_default()[1] += bytes;
        }
    };
    for (at, tile) in tiles.iter().enumerate() {
        for &(bytes, last) in &tile.brings {
            lies(bytes, times(Queue::Load, at).0, times(Queue::Execute, last).1);
        }
        lies(tile.results, times(Queue::Execute, at).0, times(Queue::Store, at).1);
        if at % chunks == 0 {
            lies(tile.sums, times(Queue::Execute, at).0, times(Queue::Execute, at + chunks - 1).1);
        }
    }
    let (mut now, mut most) = (0, 0);
    for [comes, goes] in changes.into_values() {
        now = now + comes - goes;
        most = most.max(now);
    }
    most
}

/// When an execution's turn comes.
fn turn(core: &Core, jobs: &[Job], job: &Job, from: u64) -> Option<u64> {
    job.before.map_or(Some(from + core.overhead), |before| jobs[before].done)
}

/// Lets a job do in this cycle what it can; whether it did anything.
fn step(core: &Core, jobs: &mut [Job], index: usize, now: u64, from: u64) -> bool {
    let by_now = |time: Option<u64>| time.is_some_and(|time| time <= now);
    let job = &jobs[index];
    if job.done.is_some() {
        return false;
    }
    if job.ready.is_none() {
        let in_turn = match job.queue {
            Queue::Execute => by_now(turn(core, jobs, job, from)),
            Queue::Load | Queue::Store => job.before.is_none_or(|before| by_now(jobs[before].began)),
        };
        if !in_turn || !job.needs.iter().all(|&other| by_now(jobs[other].done)) {
            return false;
        }
        jobs[index].ready = Some(now);
        if jobs[index].queue == Queue::Execute || jobs[index].bytes == [0; MEMORIES] {
            jobs[index].began = Some(now);
            jobs[index].done = Some(now + jobs[index].compute);
        }
        return true;
    }
    let mut moved = false;
    for memory in 0..MEMORIES {
        let job = &jobs[index];
        let port_free = job.port_before[memory].is_none_or(|before| by_now(jobs[before].served[memory]));
        if job.bytes[memory] > 0 && job.served[memory].is_none() && port_free {
            let job = &mut jobs[index];
            job.served[memory] =
                Some(now + beats(core.ports[memory].0, core.rows[memory], job.bytes[memory]));
            job.began = job.began.or(Some(now));
            moved = true;
        }
    }
    let job = &mut jobs[index];
    if (0..MEMORIES).all(|memory| job.bytes[memory] == 0 || job.served[memory].is_some()) {
        let last = (0..MEMORIES).filter_map(|memory| Some(job.served[memory]? + core.ports[memory].1)).max();
        job.done = last;
    }
    moved
}

/// Cycles that a port needs for some bytes: every cycle it gains a fraction of a byte more to move, burst by burst, and every row
/// stops it.
fn beats(rate: [u64; 2], [burst, row, opening]: [u64; 3], count: u64) -> u64 {
    let (mut whole, mut stops, mut reached) = (0, 0, 0);
    while whole < count {
        whole += burst;
    }
    while reached < whole {
        reached += row;
        stops += opening;
    }
    stops + moves(rate, whole)
}

fn moves([bytes, cycles]: [u64; 2], count: u64) -> u64 {
    let (mut moved, mut beats) = (0, 0);
    while moved < count * cycles {
        moved += bytes;
        beats += 1;
    }
    beats
}
