//! What a run costs, layer by layer, and the records of it that a board writes into its memory.

use super::{LayerTime, Settings};
use crate::timing::{CommandTime, Timeline};

/// Bytes of a layer's record that the timer writes.
pub const TIMER_RECORD_BYTES: u64 = 16;
/// Bytes of a layer's record that the profiler writes.
pub const PROFILER_RECORD_BYTES: u64 = 64;

/// Bytes that move as one: what a command moves is counted in tiles, the last of which may be smaller.
const TILE_BYTES: u64 = 4096;

/// What one layer costs. Times in cycles from the job's launch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layer {
    pub(super) start: u64,
    pub(super) end: u64,
    compute: u64,
    load_stall: u64,
    store_stall: u64,
    read: u64,
    written: u64,
    macs: u64,
}

/// What a job costs at some settings.
#[derive(Clone, Debug, Default)]
pub(super) struct Cost {
    pub(super) cycles: u64,
    pub(super) nanoseconds: u64,
    /// Cycles from the launch to the first command.
    pub(super) launch: u64,
    pub(super) layers: Vec<Layer>,
    /// Tiles moved from and to the far memory.
    pub(super) read_tiles: u64,
    pub(super) written_tiles: u64,
}

impl Cost {
    /// Adds up the timeline of layers with `counts` commands each; `far` is the far memory's index.
    pub(super) fn new(timeline: &Timeline, counts: impl Iterator<Item = usize>, far: usize) -> Self {
        let mut cost = Self {
            cycles: timeline.total_cycles,
            nanoseconds: timeline.nanos_up(timeline.total_cycles),
            launch: timeline.launch_cycles,
            ..Self::default()
        };
        let tiles = |bytes: u64| bytes.div_ceil(TILE_BYTES);
        for command in &timeline.commands {
            cost.read_tiles = cost.read_tiles.saturating_add(tiles(command.bytes_read[far]));
            cost.written_tiles = cost.written_tiles.saturating_add(tiles(command.bytes_written[far]));
        }
        let (mut rest, mut last) = (timeline.commands.as_slice(), timeline.launch_cycles);
        for count in counts {
            let (own, behind) = rest.split_at(count.min(rest.len()));
            let layer = Layer::new(own, last, far);
            (rest, last) = (behind, layer.end);
            cost.layers.push(layer);
        }
        cost
    }
}

impl Layer {
    /// Adds up a layer's commands; one without any takes no time behind the one before.
    fn new(commands: &[CommandTime], last: u64, far: usize) -> Self {
        let sum = |part: &dyn Fn(&CommandTime) -> u64| {
            commands.iter().map(part).fold(0, |sum: u64, each| sum.saturating_add(each))
        };
        Self {
            start: commands.iter().map(|command| command.start).min().unwrap_or(last),
            end: commands.iter().map(|command| command.end).max().unwrap_or(last),
            compute: sum(&|command| command.compute),
            load_stall: sum(&|command| command.load_stall),
            store_stall: sum(&|command| command.stall - command.load_stall),
            read: sum(&|command| command.bytes_read[far]),
            written: sum(&|command| command.bytes_written[far]),
            macs: sum(&|command| command.macs),
        }
    }

    pub(super) const fn time(&self) -> LayerTime {
        LayerTime { start: self.start, end: self.end }
    }

    /// The timer's record; `clock` is the cycle of the job's launch.
    fn timer(&self, clock: u64) -> [u64; 2] {
        [clock.saturating_add(self.start), clock.saturating_add(self.end)]
    }

    /// The profiler's record.
    fn profiler(&self, clock: u64) -> [u64; 8] {
        let [start, end] = self.timer(clock);
        [start, end, self.compute, self.load_stall, self.store_stall, self.read, self.written, self.macs]
    }
}

/// What a run writes: first byte and bytes of each range that `settings` ask for. `first` layers and `clock` cycles have passed
/// since the last reset.
pub(super) fn records(
    settings: &Settings,
    layers: &[Layer],
    first: u64,
    clock: u64,
) -> Vec<(super::Records, u64, Vec<u8>)> {
    let mut found = Vec::new();
    let mut put = |wanted: Option<super::Records>, size: u64, bytes: &dyn Fn(&Layer) -> Vec<u8>| {
        let Some(wanted) = wanted else { return };
        let room = (wanted.bytes / size).saturating_sub(first);
        let fit = usize::try_from(room).unwrap_or(usize::MAX).min(layers.len());
        if fit > 0 {
            // Below `wanted.bytes`, as there is room behind.
            let start = wanted.start + first * size;
            found.push((wanted, start, layers[..fit].iter().flat_map(bytes).collect()));
        }
    };
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    put(settings.timer, TIMER_RECORD_BYTES, &|layer| words(&layer.timer(clock)));
    put(settings.profiler, PROFILER_RECORD_BYTES, &|layer| words(&layer.profiler(clock)));
    found
}
