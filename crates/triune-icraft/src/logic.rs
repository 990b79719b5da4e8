//! Operators in programmable logic beside an accelerator, put in from the adapted stage on: `ImageMake` in front, which makes the
//! accelerator's operand of a picture's bytes, and `DetPost` behind, which gathers a detector's candidates.

use std::collections::HashSet;

use triune_graph::{
    NodeId, ValueId,
    format::xir::{Attribute, Chip, Scalar, Target},
};
use triune_tensor::QuantParams;

use super::{
    Accelerator,
    accelerated::{Accelerated, between},
    commands::STRIDES,
    emit::{Emitter, Stored, ints},
    form::{Form, layout, stored, tensor},
    source::Source,
};
use crate::Error;

/// Channels of the block that `ImageMake` writes.
const IMAGE_CHANNELS: usize = 4;
/// Bytes that `DetPost` counts channels in.
const UNIT_BYTES: usize = 64;
/// How far the logic's integers may be from those that rounding gives.
const MOST_STEPS: f64 = 2.0;

/// Which operators in logic a network gets.
#[derive(Clone, Debug, Default)]
pub struct Logic {
    /// `ImageMake`, for pictures whose pixels mean this.
    pub image_make: Option<Pixels>,
    /// `DetPost`, for results that are a detector's heads.
    pub det_post: Option<DetPost>,
}

/// What pixels of 0 to 255 mean: (pixel / scale − mean) / std, one for all channels or one for each.
#[derive(Clone, Debug)]
pub struct Pixels {
    /// Divisors.
    pub scale: Vec<f64>,
    /// What is subtracted then.
    pub mean: Vec<f64>,
    /// Divisors after that.
    pub std: Vec<f64>,
    /// Whether blue is the first channel.
    pub bgr: bool,
}

/// How a detector's heads lie in its results, and which candidates stay. The results are the parts of each level, level by level:
/// feature maps whose channels fill whole units of 64 bytes for each anchor.
#[derive(Clone, Debug)]
pub struct DetPost {
    /// The score that a candidate has to exceed.
    pub threshold: f64,
    /// The same as an integer of each level's compared part.
    pub thresholds: Vec<i64>,
    /// Anchors at each position.
    pub anchors: i64,
    /// Units of one anchor in each part, 1 to 3 of them.
    pub parts: Vec<i64>,
    /// Words of 8 bytes of the last unit that are read.
    pub valid: i64,
    /// Units that are compared, the first of them.
    pub compared: i64,
    /// Channels of the last of them that are not compared, a bit each.
    pub mask: [i32; 2],
}

/// Where the picture enters.
#[derive(Clone, Debug)]
pub(super) struct Image {
    /// The network's input.
    input: ValueId,
    /// What the accelerator takes.
    value: ValueId,
    /// Operators that `ImageMake` stands for.
    pub(super) replaced: HashSet<NodeId>,
    /// Per channel, what is added and what is divided by.
    mean: Vec<f64>,
    scale: Vec<f64>,
    /// Steps that the logic's integers are at most away from rounded ones.
    steps: f64,
}

impl Image {
    /// Finds it.
    pub(super) fn new(
        pixels: &Pixels,
        core: &Accelerated,
        source: &Source,
        accelerator: Accelerator,
    ) -> Result<Self, Error> {
        if accelerator != Accelerator::Buyi {
            return Err(Error::argument(
                "ImageMake is logic of BUYI's boards: networks for zg330 take a picture's bytes themselves (--input-format)",
            ));
        }
        let graph = &source.graph;
        let refuse = |problem: String| Err(Error::argument(format!("ImageMake: {problem}")));
        let [input] = graph.inputs[..] else {
            return refuse(format!("the model has {} inputs, not one picture", graph.inputs.len()));
        };
        let given = core.turns.given.min(core.graph.inputs.len());
        let taken: Vec<Option<ValueId>> =
            core.graph.inputs[..given].iter().map(|&id| core.value(id)).collect();
        let [Some(value)] = taken[..] else {
            return refuse(format!(
                "the accelerator takes {} operands at first, not one picture",
                taken.len()
            ));
        };
        let replaced: HashSet<NodeId> =
            between(graph, &[input], &[value], &HashSet::new()).into_iter().collect();
        // What only names or quantizes; arithmetic is what the picture options are for.
        for id in &replaced {
            let node = &graph.nodes[id.0 as usize];
            if !matches!(node.op, triune_graph::Op::Identity(_)) {
                return refuse(format!(
                    "'{}' ({}) computes on the picture before the accelerator does; what pixels mean has to be said by options \
                     instead (--scale, --mean, --std), and the model to begin behind it",
                    node.name,
                    node.op.name()
                ));
            }
        }
        let made: HashSet<ValueId> = replaced
            .iter()
            .flat_map(|id| graph.nodes[id.0 as usize].outputs.iter().flatten().copied())
            .collect();
        for (node, index) in graph.nodes.iter().zip(0..) {
            let reads = |id: &ValueId| *id != value && (*id == input || made.contains(id));
            if !replaced.contains(&NodeId(index)) && node.inputs.iter().flatten().any(reads) {
                return refuse(format!("'{}' reads the picture, too, on the host", node.name));
            }
        }
        let Some(meaning) = source.meaning(value) else {
            return refuse("the accelerator does not take integers first".to_owned());
        };
        let dims =
            graph.value(value).fixed_shape().filter(|dims| dims.rank() == 4 && (1..=4).contains(&dims[1]));
        let Some(dims) = dims else {
            return refuse(
                "the input is no picture of 1 to 4 channels, (1, channels, rows, columns)".to_owned(),
            );
        };
        let spread = |values: &[f64]| -> Result<Vec<f64>, Error> {
            match values {
                [one] => Ok(vec![*one; dims[1]]),
                all if all.len() == dims[1] => Ok(all.to_vec()),
                all => {
                    Err(Error::argument(format!("ImageMake: {} values for {} channels", all.len(), dims[1])))
                }
            }
        };
        let [scales, means, stds] = [spread(&pixels.scale)?, spread(&pixels.mean)?, spread(&pixels.std)?];
        let QuantParams { scale: step, zero_point } = meaning.params;
        let divisors: Vec<f64> =
            scales.iter().zip(&stds).map(|(scale, std)| f64::from(step) * scale * std).collect();
        let added: Vec<f64> = divisors
            .iter()
            .zip(scales.iter().zip(&means))
            .map(|(divisor, (scale, mean))| f64::from(zero_point) * divisor - mean * scale)
            .collect();
        let (low, high) =
            meaning.dtype.int_range().map_or((0.0, 255.0), |(low, high)| (low as f64, high as f64));
        let mut steps = 0.0_f64;
        let (mut means, mut scales) = (Vec::new(), Vec::new());
        for (added, divisor) in added.iter().zip(&divisors) {
            // Whoever sets the registers cuts off fractions: what they are given has none.
            let (mean, factor) = ((-added).round(), (1024.0 / divisor).round());
            if !(1.0..32768.0).contains(&factor) || !(-32768.0..32768.0).contains(&mean) {
                return refuse(format!(
                    "pixels have {added} added and are divided by {divisor}; the logic's registers have 16 bits for the integer \
                     that is subtracted and for 1024 divided by the divisor"
                ));
            }
            for pixel in 0..256 {
                let pixel = f64::from(pixel);
                let rounded = ((pixel + added) / divisor).round_ties_even().clamp(low, high);
                let made = ((pixel - mean) * factor / 1024.0).floor().clamp(low, high);
                steps = steps.max((rounded - made).abs());
            }
            means.push(0.0 - mean);
            scales.push(divisor_of(factor));
        }
        if steps > MOST_STEPS {
            return refuse(format!(
                "its integers would be {steps} steps from rounded ones, as it subtracts whole numbers and divides by 1024 / whole \
                 number: calibrate with a mean that is whole in pixels, or leave ImageMake out (--input-format)"
            ));
        }
        Ok(Self { input, value, replaced, mean: means, scale: scales, steps })
    }
}

/// The 32-bit float by which 1024 divided, fractions cut off, is a whole number.
fn divisor_of(factor: f64) -> f64 {
    let mut divisor = (1024.0 / factor) as f32;
    while (1024.0 / f64::from(divisor)).trunc() < factor || (1.0 / divisor * 1024.0).trunc() < factor as f32 {
        divisor = f32::from_bits(divisor.to_bits() - 1);
    }
    f64::from(divisor)
}

impl Emitter<'_> {
    /// The picture's bytes as the network's input, and `ImageMake`, which makes the accelerator's operand of them.
    pub(super) fn image_make(&mut self, image: &Image) -> Result<(), Error> {
        let dims = self.dims(image.value)?;
        let (rows, columns, channels) = (dims[2], dims[3], dims[1]);
        let bytes = tensor(
            triune_graph::format::xir::ElementType::Scalar(Scalar::Unsigned(8)),
            &[1, rows, columns, channels],
            layout("NHWC"),
        );
        let name = self.source.graph.value(image.input).name.clone();
        // The number that the input has in the stages before.
        let picture = self.value(&name, bytes, None);
        self.document.values[picture].name = name;
        self.push("Input", "Input", Vec::new(), vec![picture], Vec::new());
        self.tag("imagemake", true);
        let meaning = self.meaning(image.value);
        let form = Form::blocked(4, IMAGE_CHANNELS);
        let element = self.element(image.value, meaning, &form)?;
        let made = self.value("ImageMake:made", stored(element, dims, &form), None);
        let floats =
            |values: &[f64]| Attribute::List(values.iter().map(|&value| Attribute::Float(value)).collect());
        let attributes = vec![
            ("input_bits", Attribute::Int(8)),
            ("input_port", Attribute::Int(0)),
            ("no_imkpad", Attribute::Bool(true)),
            ("one_fast", Attribute::Bool(false)),
            ("pad_size", ints([0; 4])),
            ("pre_mean_data", floats(&image.mean)),
            ("pre_nop", Attribute::Bool(false)),
            ("pre_scale_data", floats(&image.scale)),
            ("reg_base", Attribute::Int(0)),
            ("sleep_time", Attribute::Int(0)),
        ];
        self.in_logic("ImageMake", vec![Some(picture)], vec![made], attributes, [false, true]);
        if let Some(op) = self.document.ops.last_mut() {
            op.tags.insert("steps_off".to_owned(), image.steps.into());
        }
        self.makers.insert(image.value, self.hardware_target());
        let own = Stored { index: made, form, meaning };
        self.values.insert(image.value, vec![own]);
        Ok(())
    }

    /// `DetPost` behind the results, and what it makes: one value for each level.
    pub(super) fn det_post(&mut self, post: &DetPost) -> Result<Vec<Option<usize>>, Error> {
        let outputs = self.source.graph.outputs.clone();
        let refuse = |problem: String| Err(Error::argument(format!("DetPost: {problem}")));
        let parts = post.parts.len();
        if !(1..=3).contains(&parts) || !outputs.len().is_multiple_of(parts) {
            return refuse(format!("{} results are no levels of {parts} parts", outputs.len()));
        }
        if post.thresholds.len() != outputs.len() / parts {
            return refuse(format!(
                "{} thresholds for {} levels",
                post.thresholds.len(),
                outputs.len() / parts
            ));
        }
        let mut operands = Vec::with_capacity(outputs.len());
        let mut levels = Vec::with_capacity(outputs.len() / parts);
        for level in outputs.chunks(parts) {
            let mut channels = 0;
            let first = self.dims(level[0])?;
            for (&id, &units) in level.iter().zip(&post.parts) {
                let (name, dims) = (self.source.graph.value(id).name.clone(), self.dims(id)?);
                let Some(meaning) = self.meaning(id).filter(|meaning| meaning.params.zero_point == 0) else {
                    return refuse(format!("'{name}' has no integers with zero point 0"));
                };
                let bytes = meaning.dtype.bytes();
                let signed = matches!(meaning.dtype, triune_tensor::DType::I8 | triune_tensor::DType::I16);
                let wanted = usize::try_from(units * post.anchors).unwrap_or(0) * UNIT_BYTES / bytes;
                if !signed || dims.rank() != 4 || dims[1] != wanted || dims[2..] != first[2..] {
                    return refuse(format!(
                        "'{name}' is no feature map of {wanted} channels of signed integers and the level's rows and columns"
                    ));
                }
                channels += dims[1];
                let block =
                    self.dialect.hardware.as_ref().map_or(UNIT_BYTES / 2, |hardware| hardware.block_bytes);
                let id = self.renames(id).map_or(id, |(_, named)| named);
                let index = self.operand(id, &Form::blocked(4, block / bytes), Some(meaning))?;
                if self.document.values[index].tags.contains_key(STRIDES) {
                    return refuse(format!("'{name}' has gaps between its elements"));
                }
                operands.push(Some(index));
            }
            let mut meaning = self.meaning(level[0]);
            let zhuge = matches!(self.hardware_target(), Target::Zhuge(Chip::Zg330));
            if let Some(meaning) = meaning.as_mut().filter(|_| zhuge) {
                // As in the vendor's networks: clients take the operands' scales.
                meaning.params.scale = 1.0;
            }
            let form = Form::image();
            let dims = triune_tensor::Shape::from([1, channels, first[2], first[3]]);
            let element = match (self.dialect.style, meaning) {
                (Some(style), Some(meaning)) => style.activation(meaning, channels),
                _ => return refuse("the network has no integers".to_owned()),
            };
            let key = format!("{}:candidates", self.source.graph.value(level[0]).name);
            levels.push(self.value(&key, stored(element, dims, &form), None));
        }
        let mut units = post.parts.clone();
        units.resize(3, 0);
        let attributes = vec![
            ("anchor_num", Attribute::Int(post.anchors)),
            ("chn_1st", Attribute::Int(units[0])),
            ("chn_2nd", Attribute::Int(units[1])),
            ("chn_3rd", Attribute::Int(units[2])),
            ("cmp_chn", Attribute::Int(post.compared)),
            ("cmp_en", Attribute::Int(1)),
            ("cmp_mask0", Attribute::Int(post.mask[0].into())),
            ("cmp_mask1", Attribute::Int(post.mask[1].into())),
            ("data_thr", ints(post.thresholds.iter().copied())),
            ("layer_en", Attribute::Int((1 << parts) - 1)),
            ("reg_base", Attribute::Int(0)),
            ("sleep_time", Attribute::Int(0)),
            ("thr_f", Attribute::Float(f64::from(post.threshold as f32))),
            ("valid_chn", Attribute::Int(post.valid)),
        ];
        let zhuge = matches!(self.hardware_target(), Target::Zhuge(_));
        let kind = if zhuge { "DetPostZG" } else { "DetPost" };
        self.in_logic(kind, operands, levels.clone(), attributes, [true, false]);
        Ok(levels.into_iter().map(Some).collect())
    }

    /// Who runs the accelerator's operators.
    fn hardware_target(&self) -> Target {
        self.dialect.hardware.as_ref().map_or(Target::Host, |hardware| hardware.target)
    }

    /// Appends an operator in logic; `far` says whether its operands and its results lie in the accelerator's memory.
    fn in_logic(
        &mut self,
        kind: &str,
        inputs: Vec<Option<usize>>,
        outputs: Vec<usize>,
        attributes: Vec<(&str, Attribute)>,
        far: [bool; 2],
    ) {
        let target = std::mem::replace(&mut self.target, Target::Fpga);
        self.push(kind, &format!("logic {kind}"), inputs, outputs, attributes);
        self.target = target;
        if let Some(op) = self.document.ops.last_mut() {
            op.type_key = format!("customop::{kind}");
        }
        self.tag("input_etm", far[0]);
        self.tag("output_etm", far[1]);
    }

    /// Puts a note on the last operator.
    pub(super) fn tag(&mut self, key: &str, value: bool) {
        if let Some(op) = self.document.ops.last_mut() {
            op.tags.insert(key.to_owned(), value.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the precision of whoever sets the registers, double or single.
    #[test]
    fn divisors_give_their_factors_back() {
        for factor in 1..32768 {
            let divisor = divisor_of(factor.into());
            assert_eq!((1024.0 / divisor) as i32, factor);
            assert_eq!((1.0 / divisor as f32 * 1024.0) as i32, factor);
        }
        assert!((divisor_of(1024.0) - 1.0).abs() < f64::EPSILON);
    }
}
