//! The keys.

use super::{Key, Kind, Need, Table};
use crate::spec::{MAX_MEMORIES, MAX_MEMORY_BYTES};

/// As a number of `u32`, from 1.
const COUNT: Kind = Kind::Integer(1, u32::MAX as u64);
/// Bytes per second: up to a petabyte.
const RATE: Kind = Kind::Integer(1, 1_000_000_000_000_000);
/// Nanoseconds: up to a second.
const NANOS: Kind = Kind::Integer(0, 1_000_000_000);
/// Femtojoules: up to a microjoule.
const FEMTOJOULES: Kind = Kind::Integer(0, 1_000_000_000);
/// Up to 100 GHz.
const MEGAHERTZ: [u64; 2] = [1, 100_000];

/// What is absent has no number that means the same.
const ABSENT: &str = "";

const fn key(table: &'static str, name: &'static str, kind: Kind, need: Need, unit: &'static str) -> Key {
    Key { table, name, kind, unit, need, meaning: "" }
}

impl Key {
    const fn means(self, meaning: &'static str) -> Self {
        Self { meaning, ..self }
    }
}

const fn table(name: &'static str, many: bool, need: Need, title: &'static str) -> Table {
    Table { name, many, need, title }
}

/// The tables, in the order in which descriptions have them.
pub const TABLES: &[Table] = &[
    table("", false, Need::Always, "the device"),
    table("array", false, Need::Optional(ABSENT), "the matrix array of a core"),
    table("vector", false, Need::Modelled, "the vector unit of a core"),
    table("memory", true, Need::Always, "the memories; the host reaches the first"),
    table("placement", false, Need::Always, "which memory holds what, unless a plan says otherwise"),
    table("queues", false, Need::Optional(ABSENT), "how loads, computation and stores overlap"),
    table("launch", false, Need::Optional(ABSENT), "fixed costs"),
    table("border", false, Need::Optional(ABSENT), "how tensors lie at a program's border"),
    table("link", false, Need::Optional(ABSENT), "the way to the host"),
    table(
        "energy",
        false,
        Need::Optional(ABSENT),
        "what work costs in energy; each memory has its own beside",
    ),
];

/// The keys, by table, in the order in which descriptions have them.
pub const KEYS: &[Key] = &[
    key("", "name", Kind::Name(48), Need::Always, "").means("what programs and users call it by"),
    key("", "description", Kind::Text(400), Need::Always, "").means("one sentence for listings"),
    key("", "timing", Kind::Word(&["modelled", "none"]), Need::Optional("modelled"), "")
        .means("whether time is computed; with `none` every command takes 0 cycles"),
    key("", "cores", Kind::Integer(1, 64), Need::Always, "").means("cores that can run one program each"),
    key("", "clock_mhz", Kind::Integer(MEGAHERTZ[0], MEGAHERTZ[1]), Need::Modelled, "MHz")
        .means("default clock; must lie within `clocks_mhz`"),
    key("", "clocks_mhz", Kind::Ascending(MEGAHERTZ[0], MEGAHERTZ[1]), Need::Modelled, "MHz")
        .means("clocks: any from the first to the last can be set"),
    key("", "alignment", Kind::Power(64, 1 << 20), Need::Always, "bytes")
        .means("alignment of feature maps and weights"),
    key("", "requantize", Kind::Word(&["float", "fixed"]), Need::Optional("float"), "").means(
        "whether 8-bit arithmetic multiplies with any f32 or with [m·2⁻ⁿ](numerics.md#fixed-point-multipliers)",
    ),
    key("", "int16", Kind::Flag, Need::Optional("false"), "")
        .means("whether programs compute on [16-bit integers](numerics.md#16-bit-integers), too"),
    key("array", "rows", Kind::Integer(1, 1 << 16), Need::Always, "")
        .means("inputs of one tile's inner product (`broadcast`), or the systolic array's height"),
    key("array", "columns", Kind::Integer(1, 1 << 16), Need::Always, "")
        .means("outputs of one tile (`broadcast`), or the systolic array's width"),
    key("array", "dataflow", Kind::Word(&["broadcast", "os", "ws", "is"]), Need::Optional("broadcast"), "")
        .means("`broadcast`, or a systolic array: output, weight, input stationary"),
    key("array", "fold", Kind::Word(&["serial", "pipelined"]), Need::Optional("serial"), "")
        .means("systolic: whether a fold's fill hides behind the stream of the one before"),
    key("array", "depthwise", Kind::Word(&["vector", "window", "groups"]), Need::Optional(ABSENT), "").means(
        "where depthwise convolutions run: `vector`, on the vector unit (default of `broadcast`); systolic: `window`, \
         one filter over the windows of all channels, as SCALE-Sim has it (default), or `groups`, a product per channel",
    ),
    key("array", "groups", Kind::Word(&["apart", "dense"]), Need::Optional("apart"), "").means(
        "convolutions of several groups: `apart`, a product per group, or `dense`, one product of all channels with zeros \
         between groups, which take place and bytes of weights",
    ),
    key("array", "channels", Kind::Integer(1, 4096), Need::Optional(ABSENT), "")
        .means("a pixel's channels enter inner products in blocks of this many; absent: `border.channels`"),
    key("array", "units", Kind::Pair(1, 64), Need::Optional("[1, 1]"), "").means(
        "broadcast: `[rows, columns]` of such arrays; rows share the output pixels, columns the tiles of outputs",
    ),
    key("array", "cycles_per_vector", Kind::Integer(1, 1 << 16), Need::Optional("1"), "cycles")
        .means("broadcast: from one vector to the next at 8 bit; a bit-serial array takes 8"),
    key("array", "cycles_per_vector_16", Kind::Integer(1, 1 << 16), Need::Optional(ABSENT), "cycles")
        .means("from one vector to the next at 16 bit; absent: a `broadcast` array has no 16 bit"),
    key("array", "results_per_cycle", COUNT, Need::Optional(ABSENT), "results/cycle")
        .means("broadcast: i32 results that leave the array; absent: all at once"),
    key("array", "partial_sums_per_cycle", COUNT, Need::Optional(ABSENT), "results/cycle").means(
        "broadcast: results that are added to those of the tile before, when an inner product takes several; absent: \
         for nothing",
    ),
    key("array", "weight_bytes_per_cycle", COUNT, Need::Optional(ABSENT), "bytes/cycle")
        .means("broadcast: weights that enter the array, which does not compute meanwhile; absent: hidden"),
    key("array", "sparsity", Kind::Pair(1, 256), Need::Optional(ABSENT), "").means(
        "`[n, m]`: the array skips zeros of constant weights of which n of m inputs are others; every weight is taken to be so; \
         absent: none is skipped",
    ),
    key("array", "weight_percent", Kind::Integer(1, 100), Need::Optional("100"), "%")
        .means("bytes of constant weights where they lie and move, compressed, of those that enter the array"),
    key("array", "replication", Kind::Integer(1, 64), Need::Optional("1"), "")
        .means("broadcast: most copies of small weights, for neighbouring pixels of a row at once"),
    key("vector", "elements_per_cycle", COUNT, Need::Always, "results/cycle").means("elementwise results"),
    key("vector", "taps_per_cycle", COUNT, Need::Always, "MACs/cycle")
        .means("multiply-accumulates or comparisons of windows, pools and float products"),
    key("vector", "products_per_cycle", COUNT, Need::Optional(ABSENT), "results/cycle")
        .means("products of two quantized maps; absent: as `elements_per_cycle`"),
    key("memory", "name", Kind::Name(32), Need::Always, "").means("unique name, without dots"),
    key("memory", "bytes", Kind::Integer(1, MAX_MEMORY_BYTES), Need::Always, "bytes")
        .means("size, of each core's when `per_core`; address space, pages are committed when touched"),
    key("memory", "reserved", Kind::Integer(0, MAX_MEMORY_BYTES), Need::Optional("0"), "bytes")
        .means("at its start, what programs do not get"),
    key("memory", "per_core", Kind::Flag, Need::Optional("false"), "")
        .means("whether every core has its own (`l1.0`, `l1.1`, …)"),
    key("memory", "bytes_per_cycle", Kind::Pair(1, u32::MAX as u64), Need::Optional(ABSENT), "bytes, cycles").means(
        "`[bytes, cycles]`: bandwidth of one core's port, for memories in the core's clock domain; this or \
         `bytes_per_second` when time is modelled",
    ),
    key("memory", "bytes_per_second", RATE, Need::Optional(ABSENT), "bytes/s")
        .means("bandwidth of the port, for memories with a clock of their own"),
    key("memory", "ports", Kind::Integer(1, 64), Need::Optional("1"), "").means(
        "cores that can have that bandwidth at once; k > `ports` cores at work get `ports`/k of it each; memories \
         that are `per_core` are not shared",
    ),
    key("memory", "latency_cycles", Kind::Integer(0, u32::MAX as u64), Need::Optional("0"), "cycles")
        .means("from a transfer's end to its bytes being usable"),
    key("memory", "burst_bytes", Kind::Power(1, 1 << 16), Need::Optional("1"), "bytes")
        .means("a transfer moves whole bursts of this size"),
    key("memory", "row_bytes", Kind::Power(64, 1 << 24), Need::Optional(ABSENT), "bytes")
        .means("of a row of DRAM, of which a transfer opens as many as it fills or begins; absent: rows cost nothing"),
    key("memory", "row_ns", Kind::Integer(0, 1_000_000), Need::Optional("0"), "ns")
        .means("that opening a row keeps the port busy; needs `row_bytes`"),
    key("memory", "read_fj_per_byte", FEMTOJOULES, Need::Optional(ABSENT), "fJ/byte")
        .means("energy of reading a byte; needed with `[energy]`"),
    key("memory", "write_fj_per_byte", FEMTOJOULES, Need::Optional(ABSENT), "fJ/byte")
        .means("energy of writing one; absent: as reading"),
    key("placement", "instructions", Kind::Memory, Need::Always, "").means("command words"),
    key("placement", "constants", Kind::Memory, Need::Always, "").means("weights, parameters, tables"),
    key("placement", "scratch", Kind::Memory, Need::Always, "")
        .means("feature maps that the near memory does not keep; what a core's share of it has no room for spills to `io`'s"),
    key("placement", "resident", Kind::Memory, Need::Optional(ABSENT), "")
        .means("the near memory, where a plan keeps feature maps; another than `scratch`; absent: none stay"),
    key("placement", "kept", Kind::Word(&["maps", "bands"]), Need::Optional("maps"), "").means(
        "what stays in `resident` from one command to the next: `maps`, those that a plan chooses, or only the `bands` \
         between the commands of a cascade",
    ),
    key("placement", "io", Kind::Memory, Need::Always, "").means("inputs and outputs"),
    key("queues", "buffers", Kind::Integer(1, 8), Need::Optional("2"), "")
        .means("tiles under way at once: with 2, one is loaded or stored beside the computation of another"),
    key("queues", "buffer_bytes", Kind::Integer(4096, MAX_MEMORY_BYTES), Need::Optional(ABSENT), "bytes").means(
        "a core's buffers besides what a program's maps leave of `resident`: the operands and results of all tiles under \
         way have to fit, but for those that lie in `resident`; absent: as large as need be",
    ),
    key("queues", "blocks", Kind::Integer(1, 64), Need::Optional("4"), "").means(
        "without `buffer_bytes`: most equal blocks that a command's work is streamed in, none of less than 4096 bytes \
         moved",
    ),
    key("launch", "program_ns", NANOS, Need::Optional("0"), "ns")
        .means("from a launch to the first command, whatever the clock"),
    key("launch", "command_cycles", Kind::Integer(0, u32::MAX as u64), Need::Optional("0"), "cycles")
        .means("what each command costs its core before it starts"),
    key("launch", "command_cycles_16", Kind::Integer(0, u32::MAX as u64), Need::Optional(ABSENT), "cycles")
        .means("the same at 16 bit; absent: as many"),
    key("launch", "table_cycles", Kind::Integer(0, u32::MAX as u64), Need::Optional("0"), "cycles")
        .means("besides, for a function by table behind a product (SiLU and the like)"),
    key("border", "channels", Kind::Integer(1, 4096), Need::Optional("1"), "")
        .means("channels are rounded up to a multiple of this"),
    key("border", "image_channels", Kind::Integer(0, 64), Need::Optional("0"), "")
        .means("inputs with no more channels than this have exactly as many; 0: none"),
    key("border", "image_columns", Kind::Integer(1, 4096), Need::Optional("1"), "pixels")
        .means("and their rows a multiple of this"),
    key("border", "window_padding", Kind::Flag, Need::Optional("false"), "")
        .means("whether an input's buffer has the padding of the one convolution that reads it"),
    key("link", "bytes_per_second", RATE, Need::Always, "bytes/s").means("in each direction"),
    key("link", "call_ns", NANOS, Need::Always, "ns").means("host work per call"),
    key("energy", "mac_fj", FEMTOJOULES, Need::Always, "fJ").means("a multiply-accumulate of 8-bit integers"),
    key("energy", "mac_16_fj", FEMTOJOULES, Need::Optional(ABSENT), "fJ")
        .means("one of 16-bit integers; absent: four times as much"),
    key("energy", "element_fj", FEMTOJOULES, Need::Always, "fJ")
        .means("a result of the vector unit, or of the array, which passes it"),
    key("energy", "buffer_fj", FEMTOJOULES, Need::Optional("0"), "fJ")
        .means("an element that the array's operand buffers give or take"),
    key("energy", "static_mw", Kind::Integer(0, 1_000_000), Need::Optional("0"), "mW")
        .means("what a core and its part of the device draw whatever they do"),
];

// The page says how many memories there can be.
const _: () = assert!(MAX_MEMORIES == 8);
