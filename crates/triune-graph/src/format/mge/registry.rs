//! The operators that are read: one line each, the rest is in the family's own file.

use std::{cell::LazyCell, collections::HashMap};

use twox_hash::XxHash64;

use super::{
    node::NodeReader,
    ops::{
        arithmetic, assign, color, conv, convert, image, layout, matrix, norm, pool, recurrent, reduce,
        sample, select, shape, source, spatial,
    },
};
use crate::{Error, ValueId};

/// How one operator type is read.
pub(super) struct Entry {
    /// Fewest and most operands.
    pub(super) inputs: (usize, usize),
    results: Results,
    /// Makes the nodes and gives the value that they end in.
    pub(super) read: fn(&mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error>,
}

/// Which of an operator's variables the reader's value is, and how many there are where the file does not say.
#[derive(Clone, Copy)]
enum Results {
    /// The only one, or the first of this many.
    First(usize),
    /// The last of this many.
    Last(usize),
    /// The one of this number, of this many.
    At(usize, usize),
}

impl Entry {
    /// The number of the result that the reader's value is, of `count`.
    pub(super) fn result(&self, count: usize) -> usize {
        match self.results {
            Results::First(_) => 0,
            Results::Last(_) => count.saturating_sub(1),
            Results::At(number, _) => number,
        }
    }
}

/// Of the hash that makes numbers of names.
const SEED: u64 = 20_160_701;
const ONE: Results = Results::First(1);
const MANY: usize = usize::MAX;

macro_rules! operators {
    ($(($name:literal, $low:expr, $high:expr, $results:expr) => $read:expr;)*) => {
        /// The operator types that are read, in alphabetical order.
        pub const OPERATORS: &[&str] = &[$($name),*];

        /// How operators of the type `kind` are read.
        pub(super) fn find(kind: &str) -> Option<Entry> {
            match kind {
                $($name => Some(Entry { inputs: ($low, $high), results: $results, read: $read }),)*
                _ => None,
            }
        }
    };
}

// Name, fewest and most inputs, results, and who reads it.
operators! {
    ("AdaptivePooling", 2, 2, ONE) => pool::adaptive_pooling;
    ("AdaptivePoolingV1", 2, 2, ONE) => pool::adaptive_pooling;
    ("Argmax", 1, 1, ONE) => reduce::argmax;
    ("Argmin", 1, 1, ONE) => reduce::argmin;
    ("Argsort", 1, 1, Results::First(2)) => select::argsort;
    ("AxisAddRemove", 1, 1, ONE) => shape::axis_add_remove;
    ("BatchNormV1", 5, 5, Results::Last(4)) => arithmetic::batch_norm;
    ("BatchedMatrixMulV2", 2, 2, ONE) => matrix::batched_matrix_mul;
    ("Broadcast", 2, 2, ONE) => shape::broadcast;
    ("Concat", 1, MANY, ONE) => shape::concat;
    ("CondTake", 2, 2, Results::First(2)) => select::cond_take;
    ("ConvBiasForward", 2, 4, ONE) => conv::conv_bias;
    ("Convolution", 2, 2, ONE) => conv::convolution;
    ("Convolution3D", 2, 2, ONE) => spatial::conv3d;
    ("Convolution3DBackwardData", 2, 3, ONE) => spatial::deconv3d;
    ("ConvolutionBackwardData", 2, 3, ONE) => spatial::deconv;
    ("Copy", 1, 1, ONE) => shape::identity;
    ("CumsumV1", 1, 1, ONE) => assign::running_sum;
    ("CvtColor", 1, 1, ONE) => color::convert;
    ("DeformableConvForward", 4, 4, ONE) => sample::deformable_conv;
    ("Diag", 1, 1, ONE) => assign::diagonal;
    ("Dimshuffle", 1, 1, ONE) => shape::dimshuffle;
    ("Dot", 2, 2, ONE) => matrix::dot;
    ("Elemwise", 1, 4, ONE) => arithmetic::elemwise;
    ("ElemwiseMultiType", 1, 3, ONE) => arithmetic::elemwise_multi_type;
    ("Eye", 1, 1, ONE) => assign::eye;
    ("FakeQuant", 3, 3, ONE) => convert::fake_quant;
    ("Flip", 1, 1, ONE) => image::flip;
    ("GeneralNorm", 1, 3, Results::First(3)) => norm::general;
    ("GetVarShapeV1", 1, MANY, ONE) => shape::get_var_shape;
    ("GroupLocalV2", 2, 2, ONE) => spatial::local;
    ("GroupNorm", 1, 3, Results::First(3)) => norm::group;
    ("Host2DeviceCopy", 0, 0, ONE) => source::input;
    ("Identity", 1, 1, ONE) => shape::identity;
    ("Images2Neibs", 1, 1, ONE) => spatial::apart;
    ("ImmutableTensor", 0, 0, ONE) => source::constant;
    ("IncrSubtensor", 2, MANY, ONE) => assign::assign;
    ("IndexingIncrMultiAxisVec", 2, MANY, ONE) => assign::assign;
    ("IndexingMultiAxisVec", 2, MANY, ONE) => shape::indexing;
    ("IndexingOneHot", 2, 2, ONE) => assign::one_hot;
    ("IndexingSetMultiAxisVec", 2, MANY, ONE) => assign::assign;
    ("IndexingSetOneHot", 3, 3, ONE) => assign::set_one_hot;
    ("InstanceNorm", 1, 3, Results::First(3)) => norm::group;
    ("LRN", 1, 1, ONE) => norm::local_response;
    ("LSQ", 4, 4, ONE) => convert::fake_quant;
    ("LSTMCellForward", 7, 7, Results::First(3)) => recurrent::lstm_cell;
    ("LSTMForward", 4, 4, Results::First(4)) => recurrent::lstm;
    ("LayerNorm", 1, 3, Results::First(3)) => norm::layer;
    ("Linspace", 3, 3, ONE) => assign::linspace;
    ("LocalV2", 2, 2, ONE) => spatial::local;
    ("MatrixInverse", 1, 1, ONE) => matrix::inverse;
    ("MatrixMulV2", 2, 2, ONE) => matrix::matrix_mul;
    ("MultipleDeviceTensorHolder", 0, 0, ONE) => source::constants;
    ("MultipleDeviceTensorWithFormatHolder", 0, 0, ONE) => source::constants;
    ("NMSKeep", 1, 1, Results::First(2)) => select::nms_keep;
    ("NMSKeepMGB", 1, 1, Results::First(2)) => select::nms_keep;
    ("NonZero", 1, 1, ONE) => select::non_zero;
    ("Padding", 1, 1, ONE) => shape::padding;
    ("PoolingV1", 1, 1, ONE) => pool::pooling;
    ("PowC", 1, 1, ONE) => recurrent::power;
    ("RNNCellForward", 6, 6, ONE) => recurrent::rnn_cell;
    ("RNNForward", 3, 3, Results::First(3)) => recurrent::rnn;
    ("ROIAlignV1", 2, 2, Results::First(2)) => sample::roi_align;
    ("ROICopy", 1, 1, ONE) => image::region;
    ("ROIPooling", 3, 3, Results::First(2)) => sample::roi_pooling;
    ("ReduceV2", 1, 2, ONE) => reduce::reduce;
    ("RelayoutFormatV1", 1, 1, ONE) => layout::relayout;
    ("RemapV1", 2, 2, ONE) => sample::remap;
    ("ReshapeV1", 2, 2, ONE) => shape::reshape;
    ("ResizeV2", 2, 2, ONE) => image::resize;
    ("Rotate", 1, 1, ONE) => image::rotate;
    ("SVD", 1, 1, Results::At(1, 3)) => matrix::singular_values;
    ("SetSubtensor", 2, MANY, ONE) => assign::assign;
    ("SharedDeviceTensor", 0, 0, ONE) => source::constant;
    ("SharedDeviceTensorWithFormat", 0, 0, ONE) => source::constant;
    ("SlidingWindowTranspose", 1, 1, ONE) => spatial::together;
    ("Softmax", 1, 1, ONE) => arithmetic::softmax;
    ("Split", 2, MANY, Results::First(2)) => assign::split;
    ("Subtensor", 1, MANY, ONE) => shape::subtensor;
    ("TQT", 2, 2, ONE) => convert::fake_quant;
    ("TopK", 2, 2, Results::First(2)) => select::top_k;
    ("TypeCvtV2", 1, 1, ONE) => convert::type_cvt;
    ("WarpAffineV2", 3, 3, ONE) => image::warp_affine;
    ("WarpPerspectiveV2", 3, 4, ONE) => image::warp_perspective;
    ("Where", 3, 3, ONE) => select::choice;
}

/// What an operator does with operands that the file has in blocks of channels.
pub(super) enum Blocks {
    /// Its reader gets the five axes that the file has.
    Opened,
    /// It works element by element: in blocks what is in blocks.
    Kept,
    /// Its reader takes care.
    Own,
}

/// What operators of this type do with operands in blocks of channels.
pub(super) fn blocks(kind: &str) -> Blocks {
    match kind {
        "Elemwise" | "ElemwiseMultiType" | "TypeCvtV2" | "Identity" | "Copy" => Blocks::Kept,
        "AdaptivePooling" | "AdaptivePoolingV1" | "Concat" | "ConvBiasForward" | "Convolution"
        | "PoolingV1" | "RelayoutFormatV1" | "ResizeV2" | "WarpPerspectiveV2" => Blocks::Own,
        _ => Blocks::Opened,
    }
}

/// Whether operators of this type are a network's inputs.
pub(super) fn is_input(kind: &str) -> bool {
    kind == "Host2DeviceCopy"
}

/// Whether operators of this type hold a part of the network that was compiled for some hardware.
pub(super) fn is_machine_code(kind: &str) -> bool {
    kind == "ExternCOprRunner" || kind.ends_with("RuntimeOpr")
}

/// The number of results of a type, for files that do not name them.
pub(super) fn results_of(kind: &str) -> usize {
    find(kind).map_or(1, |entry| match entry.results {
        Results::First(count) | Results::Last(count) | Results::At(_, count) => count,
    })
}

/// Class names of version 1 whose types have another name in version 2.
const RENAMED: &[(&str, &str)] = &[
    ("ConvBiasForwardV4", "ConvBiasForward"),
    ("ConvolutionBackwardDataV2", "ConvolutionBackwardData"),
    ("ConvolutionV2", "Convolution"),
    ("DeformableConvForwardV1", "DeformableConvForward"),
];

/// The number of a type in files of version 2, and the version of the operator's own description.
pub(super) fn id_of(kind: &str) -> (u64, u32) {
    // Classes that were described anew for version 2 keep the zero byte; the others lose their version suffix.
    if matches!(kind, "ImmutableTensor" | "Host2DeviceCopy" | "Convolution" | "ConvBiasForward") {
        return (XxHash64::oneshot(SEED, format!("{kind}\0").as_bytes()), 2);
    }
    let bare = kind.strip_suffix(|c: char| c.is_ascii_digit()).and_then(|stem| stem.strip_suffix('V'));
    (XxHash64::oneshot(SEED, bare.unwrap_or(kind).as_bytes()), 1)
}

/// The name of the type with this number: the XXH64 hash of a class name under upstream's seed. Version 1 hashes the
/// zero byte behind the name, too; version 2 does it for some classes, and leaves out the version suffix for others.
pub(super) fn name_of(id: u64) -> String {
    // One per thread: nobody waits for another's, which a forked child may not have.
    thread_local! { static NAMES: LazyCell<HashMap<u64, &'static str>> = LazyCell::new(names); }
    NAMES.with(|names| names.get(&id).map_or_else(|| format!("type number {id:#x}"), |&name| name.into()))
}

fn names() -> HashMap<u64, &'static str> {
    let mut names = HashMap::new();
    let own = OPERATORS.iter().map(|&name| (name, name));
    for (class, name) in own.chain(RENAMED.iter().copied()) {
        let bare = class.strip_suffix(|c: char| c.is_ascii_digit()).and_then(|stem| stem.strip_suffix('V'));
        for stem in [Some(class), bare].into_iter().flatten() {
            names.insert(XxHash64::oneshot(SEED, stem.as_bytes()), name);
            names.insert(XxHash64::oneshot(SEED, format!("{stem}\0").as_bytes()), name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_their_types() {
        // Numbers as files of upstream 1.13.0 have them.
        for (id, name) in [
            (0x21d0_9889_fd70_9229, "Host2DeviceCopy"),
            (0x60d5_2856_bbd5_a2b1, "ImmutableTensor"),
            (0xd6c4_88c1_1172_ec08, "Elemwise"),
            (0xbc19_3eef_48c2_7b7e, "Convolution"),
            (0xc291_0e49_be9f_970a, "ConvBiasForward"),
            (0x53b8_bba0_2175_dc4f, "BatchNormV1"),
            (0xe95b_d6e9_4fd8_1bd8, "ReduceV2"),
            (0xe6dd_0c8b_5670_e6c2, "AxisAddRemove"),
            (0x3107_308c_558d_e242, "MatrixMulV2"),
            (0x4787_2bbd_ca5f_8c6b, "PoolingV1"),
            (0x108a_555a_9ec4_f635, "GetVarShapeV1"),
            (0x52cb_7ce0_df4c_8825, "Subtensor"),
            (0x806e_9167_b0ba_086b, "Concat"),
            (0xba32_96a9_aa9b_5098, "ReshapeV1"),
            (0x32e6_5278_0d10_8cb9, "TypeCvtV2"),
            (0xffd4_7c23_333d_d94d, "Identity"),
            (0x6827_faf7_90d6_934a, "ElemwiseMultiType"),
            (0x2918_b915_afc1_a872, "ResizeV2"),
            (0xafb8_0bbe_c293_ea6c, "Dimshuffle"),
            // And those of version 1.
            (0xebb3_9bdd_9278_b6da, "Elemwise"),
            (0x74be_6b80_925c_a90e, "BatchNormV1"),
            (0x0589_235f_9727_3d9f, "Convolution"),
            (0x327b_f927_970e_4459, "ConvBiasForward"),
            (0xe920_40b5_c01c_1a61, "ReduceV2"),
            (0xa806_5dd1_54f6_da37, "ReshapeV1"),
        ] {
            assert_eq!(name_of(id), name);
            assert_eq!(name_of(id_of(name).0), name);
        }
        assert_eq!(name_of(7), "type number 0x7");
    }

    /// The table of `docs/megenginelite.md` names every type, and no other.
    #[test]
    fn the_documentation_lists_the_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/megenginelite.md");
        let text = std::fs::read_to_string(path).expect("docs/megenginelite.md is readable");
        let (_, section) = text.split_once("\n## Operators\n").expect("a section on operators");
        let section = section.split("\n## ").next().expect("a section");
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        let names = rows.filter_map(|row| row.split(" |").next());
        let mut names: Vec<&str> =
            names.flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`')).collect();
        names.sort_unstable();
        assert_eq!(names, OPERATORS);
    }

    #[test]
    fn the_list_is_sorted() {
        assert!(OPERATORS.is_sorted());
    }
}
