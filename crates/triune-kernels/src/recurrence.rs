//! Recurrent cells over time. A cell's inputs come multiplied, for all steps at once; here is what is left of a step: the
//! product of the state, the gates, the new state.
//!
//! ```text
//! for block of sequences in each direction:            a task each; nobody waits for another
//!     for step:
//!         for panel of units, for gate: sums = x + state · R          weights packed once
//!         gates, new state                                            element by element
//! ```
//!
//! 1. A step's state is read where the step before wrote it, in the result: nothing is copied from step to step.
//! 2. Of sequences of several lengths, a step has the rows of those that are not over yet.
//! 3. Fewer blocks than threads share a step's units instead, where a step is worth waiting for each other.
//! 4. Weights that no cache nearby holds come once for all sequences: a block has them all, and its tiles take turns with some panels.
//! 5. Every other step goes along the panels from the last to the first: what the step before read last is near still. Always in
//!    one order, weights that are a little too many for a cache would drive each other out before any is read again.
//!
//! Every sum is one chain of fused multiply-adds in the order of the units, whatever the instruction set, the block and the
//! number of threads, so all of them give the same bits.

mod units;

use std::ops::Range;
use std::sync::Arc;

use triune_tensor::function::{CellKind, UnaryKind};

use crate::cancel::{self, spans};
use crate::conv::fgemm::{Finish, Line, MAX_COLUMNS, MAX_ROWS, Panels, TILE_STEPS};
use crate::conv::{PackedFilter, pack_panel};
use crate::dispatch::Level;
use crate::parallel::Shared;
use crate::{Error, Isa, Pool};
use units::Units;

/// Directions that a recurrence can have.
pub const MAX_DIRECTIONS: usize = 2;

/// Multiply-accumulates of a step from which on threads share it: less is done before they have met.
const SHARED_STEP: usize = 1 << 19;

/// Bytes of a direction's weights from which on they do not stay in a core's own cache from step to step: all sequences take a
/// step together then, so that the weights come once for all of them, and threads have units of their own instead of sequences.
const HEAVY: usize = 3 << 19;

/// Bytes of weights that stay in a core's own cache while sequences that are too many for a tile take turns.
const NEAR: usize = 1 << 19;

/// Sequences that a block keeps when blocks are made for more threads: a tile of fewer would not keep a core busy.
const LEAST_ROWS: usize = 4;

/// A cell, and the extents of what it runs over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecurrenceSpec {
    /// The cell.
    pub cell: CellKind,
    /// Most steps of a sequence.
    pub steps: usize,
    /// Directions, 1 or 2.
    pub directions: usize,
    /// Sequences.
    pub batch: usize,
    /// Units: elements of a state.
    pub hidden: usize,
    /// Whether a direction runs from a sequence's last step to its first.
    pub backwards: [bool; MAX_DIRECTIONS],
    /// The cell's functions, for each direction; it does not look at those that it does not have.
    pub functions: [[UnaryKind; 3]; MAX_DIRECTIONS],
    /// Functions of gates see arguments limited to −clip..clip.
    pub clip: f32,
    /// For `Lstm`: whether f is 1 − i.
    pub coupled: bool,
}

/// What a run reads.
#[derive(Clone, Copy, Debug)]
pub struct Sequences<'a> {
    /// Steps × batch × directions × gates × hidden: the steps' inputs, multiplied, with the biases.
    pub input: &'a [f32],
    /// Directions × gates × hidden × hidden, where none were packed.
    pub weights: Option<&'a [f32]>,
    /// Directions × vectors × hidden: the cell's other parameters. Without them they are 0.
    pub vectors: Option<&'a [f32]>,
    /// States × directions × batch × hidden: those before the first step. Without them they are 0.
    pub initial: Option<&'a [f32]>,
    /// Steps of each sequence. Without them all have as many as there are.
    pub lengths: Option<&'a [i32]>,
}

/// A recurrence ready to run.
#[derive(Debug)]
pub struct Recurrence {
    spec: RecurrenceSpec,
    level: Level,
    panels: Panels,
    /// Floats of one gate's packed matrix.
    gate_len: usize,
    weights: Option<Arc<PackedFilter>>,
}

/// Floats of scratch, each part a multiple of a line.
struct Plan {
    /// Blocks of each direction, and the most sequences of one.
    blocks: usize,
    rows: usize,
    zeros: usize,
    packed: usize,
    sums: usize,
    gated: usize,
    values: usize,
}

impl Plan {
    fn worker(&self) -> usize {
        self.sums + self.gated + self.values
    }
}

impl Recurrence {
    /// Checks the description. `weights` are one matrix per direction and gate ([`PackedFilter::matrices`]) for `isa`; without
    /// them, every run is given some and packs them.
    ///
    /// Errors: no direction or more than two, extents that overflow, weights of other extents or another instruction set.
    pub fn new(spec: &RecurrenceSpec, weights: Option<Arc<PackedFilter>>, isa: Isa) -> Result<Self, Error> {
        if !(1..=MAX_DIRECTIONS).contains(&spec.directions) {
            return Err(Error::Invalid("one or two directions are possible"));
        }
        if spec.clip.is_nan() || spec.clip < 0.0 {
            return Err(Error::Invalid("the limit of gates is no number from 0 on"));
        }
        let level = Level::new(isa);
        let panels = Panels::new(level, spec.hidden);
        let overflow = Error::Invalid("extents overflow");
        let gate_len = panels.packed_len(spec.hidden).ok_or(overflow.clone())?;
        let times = |factors: &[usize]| {
            let product = factors.iter().try_fold(1_usize, |product, &factor| product.checked_mul(factor));
            product.filter(|&product| product < usize::MAX / 64).ok_or(overflow.clone())
        };
        let gates = spec.cell.gates() * spec.directions;
        let steps = spec.steps.checked_add(spec.cell.states()).ok_or(overflow.clone())?;
        times(&[steps, spec.batch, gates, spec.hidden])?;
        times(&[gates, gate_len])?;
        if let Some(weights) = &weights {
            match weights.panels(level) {
                Some((own, floats)) if *own == panels && floats.len() >= gates * gate_len => {}
                _ => return Err(Error::Invalid("the packed weights are not the cell's")),
            }
        }
        Ok(Self { spec: *spec, level, panels, gate_len, weights })
    }

    fn plan(&self, threads: usize) -> Plan {
        let s = &self.spec;
        let lines = |floats: usize| floats.next_multiple_of(16);
        let busy = threads.div_ceil(s.directions).min(s.batch / LEAST_ROWS);
        let heavy = s.cell.gates().saturating_mul(self.gate_len) >= HEAVY / 4;
        let blocks = if heavy { 1 } else { s.batch.div_ceil(self.panels.rows).max(busy).max(1) };
        let rows = s.batch.div_ceil(blocks);
        let units = lines(s.hidden);
        Plan {
            blocks,
            rows,
            zeros: units.max(MAX_COLUMNS),
            packed: if self.weights.is_none() { s.directions * s.cell.gates() * self.gate_len } else { 0 },
            sums: rows * s.cell.gates() * units,
            gated: if s.cell == CellKind::Gru { rows * units } else { 0 },
            values: s.cell.gates() * units,
        }
    }

    /// Bytes of scratch that [`Recurrence::run`] needs with a pool of `threads` threads.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        let plan = self.plan(threads);
        let floats = plan.worker().saturating_mul(threads.max(1)).saturating_add(plan.zeros + plan.packed);
        // A line is lost at either end to alignment.
        floats.saturating_mul(4).saturating_add(2 * size_of::<Line>())
    }

    /// Computes `output`, (steps + states) × directions × batch × hidden: h behind each step, 0 behind a sequence's last; then
    /// the states behind the last step of each.
    ///
    /// Errors: slices shorter than the extents call for, a length outside of 0..=steps.
    pub fn run(
        &self,
        sequences: &Sequences<'_>,
        output: &mut [f32],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), Error> {
        let s = &self.spec;
        let (gates, state) = (s.directions * s.cell.gates(), s.directions * s.batch * s.hidden);
        Error::check_len("input", sequences.input.len(), s.steps * s.batch * gates * s.hidden)?;
        Error::check_len("output", output.len(), (s.steps + s.cell.states()) * state)?;
        Error::check_len("scratch", scratch.len(), self.scratch_bytes(pool.threads()))?;
        if let Some(vectors) = sequences.vectors {
            Error::check_len("vectors", vectors.len(), s.directions * s.cell.vectors() * s.hidden)?;
        }
        if let Some(initial) = sequences.initial {
            Error::check_len("initial", initial.len(), s.cell.states() * state)?;
        }
        if let Some(lengths) = sequences.lengths {
            Error::check_len("lengths", lengths.len(), s.batch)?;
            let most = s.steps;
            let inside = |&&length: &&i32| usize::try_from(length).is_ok_and(|length| length <= most);
            if let Some(&length) = lengths[..s.batch].iter().find(|length| !inside(length)) {
                return Err(Error::Range { operand: "lengths", value: length.into(), most });
            }
        }
        if state == 0 {
            return Ok(());
        }
        let plan = self.plan(pool.threads());
        // SAFETY: any bytes are floats.
        let (_, lines, _) = unsafe { scratch.align_to_mut::<Line>() };
        let floats = Line::floats_mut(lines);
        let (zeros, floats) = floats.split_at_mut(plan.zeros);
        let (packed, floats) = floats.split_at_mut(plan.packed);
        Error::check_len("aligned scratch", floats.len(), plan.worker() * pool.threads())?;
        zeros.fill(0.0);
        let weights = if let Some(weights) = &self.weights {
            weights.panels(self.level).map(|(_, floats)| floats).unwrap_or_default()
        } else {
            let given = sequences.weights.unwrap_or_default();
            Error::check_len("weights", given.len(), gates * s.hidden * s.hidden)?;
            self.pack(given, packed, pool);
            packed
        };
        let job = Job {
            recurrence: self,
            sequences,
            weights,
            zeros,
            output: Shared::new(output),
            workers: Shared::new(floats),
            plan: &plan,
        };
        let tasks = s.directions * plan.blocks;
        let step = s.cell.gates() * s.hidden * s.hidden * plan.rows;
        let parts = if tasks < pool.threads() && step >= SHARED_STEP {
            pool.threads().min(self.panels.count())
        } else {
            1
        };
        if parts == 1 {
            pool.run(tasks, &|task, worker| job.block(task).run(worker));
        } else {
            for task in 0..tasks {
                job.block(task).run_shared(parts, pool);
            }
        }
        Ok(())
    }

    /// Packs weights as they lie into panels.
    fn pack(&self, weights: &[f32], packed: &mut [f32], pool: &Pool) {
        let (units, count) = (self.spec.hidden, self.panels.count());
        let gates = self.spec.directions * self.spec.cell.gates();
        let shared = Shared::new(packed);
        pool.run(gates * count, &|task, _| {
            let (gate, panel) = (task / count, task % count);
            let start = gate * self.gate_len + self.panels.start(panel, units);
            // SAFETY: panels are disjoint pieces of the packed matrices.
            let packed = unsafe { shared.piece(start, self.panels.width(panel) * units) };
            let matrix = &weights[gate * units * units..][..units * units];
            pack_panel(&self.panels, panel, units, packed, &|row, column| matrix[column * units + row]);
        });
    }
}

/// A run.
struct Job<'a> {
    recurrence: &'a Recurrence,
    sequences: &'a Sequences<'a>,
    weights: &'a [f32],
    zeros: &'a [f32],
    output: Shared<'a, f32>,
    workers: Shared<'a, f32>,
    plan: &'a Plan,
}

impl<'a> Job<'a> {
    fn block(&'a self, task: usize) -> Block<'a> {
        let (batch, blocks) = (self.recurrence.spec.batch, self.plan.blocks);
        let (direction, block) = (task / blocks, task % blocks);
        Block { job: self, direction, rows: block * batch / blocks..(block + 1) * batch / blocks }
    }
}

/// Scratch of a block.
#[derive(Clone, Copy)]
struct Room {
    /// Rows × gates × hidden.
    sums: *mut f32,
    /// Rows × hidden: the state as the reset gate lets it through.
    gated: *mut f32,
    /// Gates × hidden of one row.
    values: *mut f32,
}

// SAFETY: threads that share a block's room write disjoint units of sums and gated, and each has its own values.
unsafe impl Sync for Room {}

// SAFETY: the pointers lead to rows of the input and the result that belong to one block, whose threads write disjoint units.
unsafe impl Sync for Rows {}

/// Sequences of one direction.
struct Block<'a> {
    job: &'a Job<'a>,
    direction: usize,
    rows: Range<usize>,
}

/// The sequences of a block that a step has, and where what they read and write lies.
struct Rows {
    count: usize,
    /// The state before the step.
    before: [*const f32; MAX_ROWS],
    /// The step's input.
    input: [*const f32; MAX_ROWS],
    /// The state behind it.
    after: [*mut f32; MAX_ROWS],
    /// c, if the cell has it: from step to step where it is to lie in the end.
    cell: [*mut f32; MAX_ROWS],
}

impl Block<'_> {
    const fn spec(&self) -> &RecurrenceSpec {
        &self.job.recurrence.spec
    }

    fn length(&self, sequence: usize) -> usize {
        let spec = self.spec();
        self.job.sequences.lengths.map_or(spec.steps, |lengths| lengths[sequence] as usize)
    }

    /// Where a sequence's `step`-th step lies in time.
    fn time(&self, sequence: usize, step: usize) -> usize {
        if self.spec().backwards[self.direction] { self.length(sequence) - 1 - step } else { step }
    }

    /// A sequence's row of the result.
    fn row(&self, time: usize, sequence: usize) -> usize {
        let spec = self.spec();
        ((time * spec.directions + self.direction) * spec.batch + sequence) * spec.hidden
    }

    /// Takes the block's sequences through all steps.
    fn run(&self, worker: usize) {
        let room = self.room(worker, worker);
        let panels = self.job.recurrence.panels.count();
        self.begin();
        for step in 0..self.steps() {
            if step > 0 && cancel::requested() {
                return;
            }
            for phase in 0..self.phases() {
                self.advance(step, phase, 0..panels, room);
            }
        }
        self.end();
    }

    /// As [`Self::run`], with the units of each step in `parts` for the pool's threads.
    fn run_shared(&self, parts: usize, pool: &Pool) {
        let panels = self.job.recurrence.panels.count();
        self.begin();
        for step in 0..self.steps() {
            if cancel::requested() {
                return;
            }
            for phase in 0..self.phases() {
                pool.run(parts, &|part, worker| {
                    let panels = part * panels / parts..(part + 1) * panels / parts;
                    self.advance(step, phase, panels, self.room(0, worker));
                });
            }
        }
        self.end();
    }

    /// The room of the worker `owner`, with the values of `worker`.
    fn room(&self, owner: usize, worker: usize) -> Room {
        let (plan, start) = (self.job.plan, self.job.workers.as_ptr());
        let own = start.wrapping_add(owner * plan.worker());
        Room {
            sums: own,
            gated: own.wrapping_add(plan.sums),
            values: start.wrapping_add(worker * plan.worker() + plan.sums + plan.gated),
        }
    }

    fn steps(&self) -> usize {
        self.rows.clone().map(|sequence| self.length(sequence)).max().unwrap_or(0)
    }

    /// Parts of a step between which all units have to be there.
    fn phases(&self) -> usize {
        if self.spec().cell == CellKind::Gru { 2 } else { 1 }
    }

    /// State `state` of a sequence before its first step.
    fn initial(&self, state: usize, sequence: usize) -> &[f32] {
        let units = self.spec().hidden;
        match self.job.sequences.initial {
            Some(initial) => &initial[self.row(state, sequence)..][..units],
            None => &self.job.zeros[..units],
        }
    }

    /// Fills what no step writes, and sets c.
    fn begin(&self) {
        let spec = self.spec();
        for sequence in self.rows.clone() {
            for time in self.length(sequence)..spec.steps {
                // SAFETY: the row belongs to this block.
                unsafe { self.job.output.piece(self.row(time, sequence), spec.hidden) }.fill(0.0);
            }
            for state in 1..spec.cell.states() {
                // SAFETY: as above.
                let row =
                    unsafe { self.job.output.piece(self.row(spec.steps + state, sequence), spec.hidden) };
                row.copy_from_slice(self.initial(state, sequence));
            }
        }
    }

    /// Puts the last h where it belongs.
    fn end(&self) {
        let spec = self.spec();
        for sequence in self.rows.clone() {
            // SAFETY: the row belongs to this block, and is none of a step's.
            let to = unsafe { self.job.output.piece(self.row(spec.steps, sequence), spec.hidden) };
            match self.length(sequence).checked_sub(1) {
                None => to.copy_from_slice(self.initial(0, sequence)),
                Some(last) => {
                    let from = self.row(self.time(sequence, last), sequence);
                    // SAFETY: as above.
                    to.copy_from_slice(unsafe { self.job.output.piece(from, spec.hidden) });
                }
            }
        }
    }

    /// Of those sequences of the block that one tile has.
    fn rows_of(&self, step: usize, tile: Range<usize>) -> Rows {
        let spec = self.spec();
        let (input, output) = (self.job.sequences.input, self.job.output.as_ptr());
        let mut rows = Rows {
            count: 0,
            before: [std::ptr::null(); MAX_ROWS],
            input: [std::ptr::null(); MAX_ROWS],
            after: [std::ptr::null_mut(); MAX_ROWS],
            cell: [std::ptr::null_mut(); MAX_ROWS],
        };
        for sequence in tile.filter(|&sequence| step < self.length(sequence)) {
            let (time, at) = (self.time(sequence, step), rows.count);
            rows.before[at] = match step.checked_sub(1) {
                None => self.initial(0, sequence).as_ptr(),
                Some(last) => output.wrapping_add(self.row(self.time(sequence, last), sequence)),
            };
            let gate = (time * spec.batch + sequence) * spec.directions + self.direction;
            rows.input[at] = input.as_ptr().wrapping_add(gate * spec.cell.gates() * spec.hidden);
            rows.after[at] = output.wrapping_add(self.row(time, sequence));
            if spec.cell.states() > 1 {
                rows.cell[at] = output.wrapping_add(self.row(spec.steps + 1, sequence));
            }
            rows.count += 1;
        }
        rows
    }

    /// Does a phase of a step for the units of some panels.
    fn advance(&self, step: usize, phase: usize, panels: Range<usize>, room: Room) {
        let (spec, own) = (self.spec(), &self.job.recurrence.panels);
        let (first, count) = (self.rows.start, self.rows.len());
        let tiles = count.div_ceil(own.rows);
        let tile = |tile: usize| {
            let [start, end] = [tile, tile + 1].map(|tile| tile * count / tiles);
            let room = Room {
                sums: room.sums.wrapping_add(start * spec.cell.gates() * spec.hidden),
                gated: room.gated.wrapping_add(start * spec.hidden),
                ..room
            };
            (self.rows_of(step, first + start..first + end), room)
        };
        let units = panels.start * own.columns..(panels.end * own.columns).min(spec.hidden);
        let back = step % 2 == 1;
        if tiles == 1 {
            let (rows, room) = tile(0);
            self.sums(&rows, phase, panels, back, room);
            self.units(&rows, phase, units, room);
            return;
        }
        let panel = spec.cell.gates().saturating_mul(spec.hidden).saturating_mul(own.columns * 4);
        let near = (NEAR / panel.max(1)).max(1);
        let pieces = panels.len().div_ceil(near);
        for piece in 0..pieces {
            let start = panels.start + near * if back { pieces - 1 - piece } else { piece };
            for index in 0..tiles {
                let (rows, room) = tile(index);
                self.sums(&rows, phase, start..panels.end.min(start + near), back, room);
            }
        }
        for index in 0..tiles {
            let (rows, room) = tile(index);
            self.units(&rows, phase, units.clone(), room);
        }
    }

    /// What a phase does behind the sums, for some units of a tile's rows.
    fn units(&self, rows: &Rows, phase: usize, units: Range<usize>, room: Room) {
        for row in 0..rows.count {
            // SAFETY: rows and units of this task alone; the sums, and what the steps before wrote, are there.
            let unit = unsafe { self.unit(rows, row, units.clone(), room) };
            match (self.spec().cell, phase) {
                (CellKind::Simple, _) => unit.simple(),
                (CellKind::Gru, 0) => unit.gru_gates(),
                (CellKind::Gru, _) => unit.gru(),
                (CellKind::LinearGru, _) => unit.linear_gru(),
                (CellKind::Lstm, _) => unit.lstm(),
            }
        }
    }

    /// The sums of a phase's gates, of a tile's rows; `back`: the last panel first.
    fn sums(&self, rows: &Rows, phase: usize, panels: Range<usize>, back: bool, room: Room) {
        let spec = self.spec();
        if rows.count == 0 {
            return;
        }
        match (spec.cell, phase) {
            (CellKind::Gru, 0) => self.products(rows, &rows.before, 0..2, panels, back, room.sums),
            (CellKind::Gru, _) => {
                let mut gated = [std::ptr::null(); MAX_ROWS];
                for (row, gated) in gated.iter_mut().enumerate() {
                    *gated = room.gated.wrapping_add(row * spec.hidden).cast_const();
                }
                self.products(rows, &gated, 2..3, panels, back, room.sums);
            }
            (cell, _) => self.products(rows, &rows.before, 0..cell.gates(), panels, back, room.sums),
        }
    }

    /// sums = limited(x + state · R) of some gates, for the units of some panels; without x and limits where more is to come.
    fn products(
        &self,
        rows: &Rows,
        state: &[*const f32; MAX_ROWS],
        gates: Range<usize>,
        panels: Range<usize>,
        back: bool,
        sums: *mut f32,
    ) {
        let (spec, all) = (self.spec(), self.job.recurrence);
        let (units, own) = (spec.hidden, &all.panels);
        let vectors = self.job.sequences.vectors;
        let mut outputs = [std::ptr::null_mut::<f32>(); MAX_ROWS];
        for (row, output) in outputs.iter_mut().enumerate().take(rows.count) {
            *output = sums.wrapping_add(row * spec.cell.gates() * units);
        }
        let limits = if vectors.is_some() && spec.cell == CellKind::Lstm {
            [f32::NEG_INFINITY, f32::INFINITY]
        } else {
            [-spec.clip, spec.clip]
        };
        // Between the phases of a step the other's weights pass: nothing of one's own stays near.
        let most = if self.phases() > 1 { Panels::TOGETHER } else { own.together(rows.count) };
        let together = (most / gates.len()).max(1);
        let weight = units.saturating_mul(gates.len() * TILE_STEPS);
        let mut bias = [0.0; Panels::TOGETHER * MAX_COLUMNS];
        let mut matrices = [std::ptr::null::<f32>(); Panels::TOGETHER];
        let plain = Finish {
            factors: std::ptr::null(),
            bias: self.job.zeros.as_ptr(),
            residual: rows.input.as_ptr(),
            output: outputs.as_ptr(),
            ahead: outputs.as_ptr(),
            next: 0,
            offset: 0,
            used: 0,
            limits,
        };
        let mut finish = [plain; Panels::TOGETHER];
        for span in spans(panels.len(), weight) {
            let mut left = if back {
                panels.end - span.end..panels.end - span.start
            } else {
                panels.start + span.start..panels.start + span.end
            };
            while !left.is_empty() {
                let near = if back { left.end - 1 } else { left.start };
                let alike = |at: &usize| {
                    own.width(if back { left.end - 1 - at } else { left.start + at }) == own.width(near)
                };
                let count = (0..left.len().min(together)).take_while(alike).count();
                let group = if back { left.end - count..left.end } else { left.start..left.start + count };
                if back {
                    left.end = group.start;
                } else {
                    left.start = group.end;
                }
                let width = own.width(near);
                let mut count = 0;
                for panel in group {
                    for gate in gates.clone() {
                        let matrix = self.direction * spec.cell.gates() + gate;
                        matrices[count] =
                            self.job.weights[matrix * all.gate_len + own.start(panel, units)..].as_ptr();
                        let finish = &mut finish[count];
                        finish.offset = gate * units + panel * own.columns;
                        finish.used = own.used(panel);
                        if spec.cell == CellKind::LinearGru && gate == 2 {
                            // What the reset gate takes to, before the input.
                            finish.residual = std::ptr::null();
                            finish.limits = [f32::NEG_INFINITY, f32::INFINITY];
                            if let Some(vectors) = vectors {
                                let bias = &mut bias[count * MAX_COLUMNS..][..MAX_COLUMNS];
                                let from = self.direction * units + panel * own.columns;
                                bias[..finish.used].copy_from_slice(&vectors[from..][..finish.used]);
                                finish.bias = bias.as_ptr();
                            }
                        }
                        count += 1;
                    }
                }
                let pieces = count.div_ceil(most);
                for piece in 0..pieces {
                    let start = most * if back { pieces - 1 - piece } else { piece };
                    let piece = start..count.min(start + most);
                    let (matrices, finish) = (&matrices[piece.clone()], &finish[piece]);
                    // SAFETY: rows of the state and panels have `units` values each; inputs and sums have a row of gates, of
                    // which the columns from `offset` on are this gate's; biases are as wide as a panel.
                    unsafe { own.tiles(rows.count, width, state.as_ptr(), units, matrices, finish) };
                }
            }
        }
    }

    /// A row's units.
    ///
    /// # Safety
    /// No other task has these units of the row, and no other row has `room.values`; the rows' pointers lead to rows.
    unsafe fn unit<'u>(&'u self, rows: &Rows, row: usize, units: Range<usize>, room: Room) -> Units<'u> {
        let spec = self.spec();
        let (all, start, len) = (spec.hidden, units.start, units.len());
        let gates = spec.cell.gates();
        let vectors = self.job.sequences.vectors.map(|vectors| {
            let own = &vectors[self.direction * spec.cell.vectors() * all..];
            // Of those that the cell does not have there are none.
            std::array::from_fn(|index| {
                own.get(index * all + start..).and_then(|own| own.get(..len)).unwrap_or_default()
            })
        });
        // SAFETY: a row has `hidden` elements for each gate, and these units are this task's alone. What the step before
        // wrote is another row of the result.
        unsafe {
            let read = |from: *const f32, has: bool| {
                std::slice::from_raw_parts(from.wrapping_add(start), if has { len } else { 0 })
            };
            let write = |from: *mut f32, has: bool| {
                std::slice::from_raw_parts_mut(from.wrapping_add(start), if has { len } else { 0 })
            };
            let has = |gate: usize| gate < gates;
            let (input, sums) = (rows.input[row], room.sums.wrapping_add(row * gates * all));
            // The values have no units but these.
            let values = room.values.wrapping_sub(start);
            Units {
                level: self.job.recurrence.level,
                functions: &spec.functions[self.direction],
                clip: spec.clip,
                coupled: spec.coupled,
                input: std::array::from_fn(|gate| read(input.wrapping_add(gate * all), has(gate))),
                sums: std::array::from_fn(|gate| write(sums.wrapping_add(gate * all), has(gate))),
                values: std::array::from_fn(|gate| write(values.wrapping_add(gate * len), has(gate))),
                before: read(rows.before[row], true),
                after: write(rows.after[row], true),
                cell: if spec.cell.states() > 1 { write(rows.cell[row], true) } else { &mut [] },
                gated: write(room.gated.wrapping_add(row * all), spec.cell == CellKind::Gru),
                vectors,
            }
        }
    }
}
