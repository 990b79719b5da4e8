//! What looks at the letters of strings: the numbers of [`Strings`] come in and go out.

use std::sync::Arc;

use triune_device::{Error as DeviceError, cancel};
use triune_graph::{
    Strings,
    ops::{CaseChange, Normalize, StringOp},
    passes::HostStep,
};
use triune_tensor::{
    DType, Shape, memory,
    text::{List, Reason},
};

use super::{Element, Elements, Operands, operands, unique};
use crate::{Error, Tensor, TensorRef};

/// What an element takes by itself: it is found in the table, or added.
const ELEMENT: usize = 256;
/// Most bytes of a string that is made or spelled otherwise, which nothing interrupts: a file of a kilobyte can ask for any.
const LONGEST: usize = 16 << 20;

/// Most bytes of one whose letters change their case, which takes ten times as long as copying it.
const CASED: usize = 4 << 20;
/// Numbers of strings that are laid out at a time.
const ROUND: usize = 1 << 11;

/// When to look again.
struct Pace(cancel::Pace);

impl Pace {
    const fn new() -> Self {
        Self(cancel::Pace::due())
    }

    /// Looks whether the work is to go on, if it is time to, before `bytes` of text are gone through.
    fn step(&mut self, bytes: usize) -> Result<(), Error> {
        if self.0.stops(bytes.saturating_add(ELEMENT)) { Err(DeviceError::Cancelled.into()) } else { Ok(()) }
    }
}

/// Refuses a string that would take too long.
fn expect_length(at: &Operands<'_>, bytes: usize, most: usize) -> Result<(), Error> {
    if bytes > most {
        return Err(
            at.wrong(format!("a string of {bytes} bytes; {most} are the most that one can have here"))
        );
    }
    Ok(())
}

/// Runs the step; new strings are added to the table.
pub(crate) fn run<'a>(
    step: &'a HostStep,
    op: &StringOp,
    strings: &mut Strings,
    arrived: impl Fn(&str) -> Option<TensorRef<'a>>,
) -> Result<Vec<Tensor>, Error> {
    let operands = operands(step, |constant| constant, arrived)?;
    let at = Operands { step, operands: &operands };
    match op {
        StringOp::Concat => concat(&at, strings).map(|joined| vec![joined]),
        StringOp::Split { delimiter, most } => split(&at, strings, delimiter.as_deref(), *most),
        StringOp::Normalize(op) => normalize(&at, strings, op).map(|left| vec![left]),
        StringOp::Parse(to) => parse(&at, strings, *to).map(|parsed| vec![parsed]),
        StringOp::Format => format(&at, strings).map(|spelled| vec![spelled]),
        StringOp::Ranks => ranks(&at, strings),
    }
}

/// The numbers that an operand has for its strings.
fn numbers(at: &Operands<'_>, index: usize) -> Result<Vec<i64>, Error> {
    let tensor = at.input(index)?;
    if tensor.dtype != DType::I64 {
        return Err(at.wrong(format!("operand {index} of type {}; strings are expected", tensor.dtype)));
    }
    let words = tensor.bytes.as_chunks().0;
    let mut numbers = memory::with_room(words.len())?;
    numbers.extend(words.iter().map(|&word| i64::from_le_bytes(word)));
    Ok(numbers)
}

fn text(strings: &Strings, number: i64) -> Result<Arc<str>, Error> {
    strings.text(number).ok_or_else(|| Error::internal(format!("no string has the number {number}")))
}

fn tensor(at: &Operands<'_>, shape: &[usize], numbers: &[i64]) -> Result<Tensor, Error> {
    let (mut bytes, mut pace) = (memory::with_room(numbers.len().saturating_mul(8))?, Pace::new());
    append(&mut bytes, numbers, &mut pace)?;
    of_bytes(at, shape, bytes)
}

/// Appends the bytes of numbers.
fn append(bytes: &mut Vec<u8>, numbers: &[i64], pace: &mut Pace) -> Result<(), Error> {
    for some in numbers.chunks(ROUND) {
        pace.step(size_of_val(some))?;
        bytes.extend(some.iter().flat_map(|number| number.to_le_bytes()));
    }
    Ok(())
}

fn of_bytes(at: &Operands<'_>, shape: &[usize], bytes: Vec<u8>) -> Result<Tensor, Error> {
    let shape = Shape::new(shape).ok_or_else(|| at.wrong("too many dimensions"))?;
    Ok(Tensor { dtype: DType::I64, shape, bytes })
}

/// What `make` says of each element; what it goes through of text, it says to the pace.
fn each(
    count: usize,
    mut make: impl FnMut(usize, &mut Pace) -> Result<i64, Error>,
) -> Result<Vec<i64>, Error> {
    let (mut made, mut pace) = (memory::with_room(count)?, Pace::new());
    for index in 0..count {
        pace.step(0)?;
        made.push(make(index, &mut pace)?);
    }
    Ok(made)
}

fn concat(at: &Operands<'_>, strings: &mut Strings) -> Result<Tensor, Error> {
    let shapes = [at.input(0)?.shape, at.input(1)?.shape];
    let numbers = [numbers(at, 0)?, numbers(at, 1)?];
    let rank = shapes[0].len().max(shapes[1].len());
    let extent =
        |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |own| shape[own]);
    let mut dims = Vec::with_capacity(rank);
    for axis in 0..rank {
        dims.push(match shapes.map(|shape| extent(shape, axis)) {
            [a, b] if a == b => a,
            [1, b] => b,
            [a, 1] => a,
            _ => return Err(at.wrong(format!("{} and {} do not fit", List(shapes[0]), List(shapes[1])))),
        });
    }
    let count = dims.iter().try_fold(1_usize, |count, &extent| count.checked_mul(extent));
    let count = count.ok_or_else(|| at.wrong(format!("{} results are too many", List(&dims))))?;
    let place = |shape: &[usize], mut index: usize| {
        let (mut place, mut stride) = (0, 1);
        for axis in (0..rank).rev() {
            let own = extent(shape, axis);
            if own > 1 {
                place += index % dims[axis] * stride;
                stride *= own;
            }
            index /= dims[axis];
        }
        place
    };
    let joined = each(count, |index, pace| {
        let [a, b] = [0, 1].map(|side| text(strings, numbers[side][place(shapes[side], index)]));
        let (a, b) = (a?, b?);
        expect_length(at, a.len().saturating_add(b.len()), LONGEST)?;
        pace.step(a.len() + b.len())?;
        let mut whole = memory::with_room(a.len() + b.len())?;
        whole.extend_from_slice(a.as_bytes());
        whole.extend_from_slice(b.as_bytes());
        let whole = String::from_utf8(whole).map_err(|_| Error::internal("two strings that are none"))?;
        Ok(strings.number(&whole)?)
    })?;
    tensor(at, &dims, &joined)
}

fn split(
    at: &Operands<'_>,
    strings: &mut Strings,
    delimiter: Option<&str>,
    most: Option<usize>,
) -> Result<Vec<Tensor>, Error> {
    let x = at.input(0)?;
    let numbers = numbers(at, 0)?;
    let most = most.map_or(usize::MAX, |most| most.saturating_add(1));
    // Of all elements, one behind the other.
    let mut parts: Vec<i64> = Vec::new();
    let counts = each(numbers.len(), |index, pace| {
        let whole = text(strings, numbers[index])?;
        let before = parts.len();
        let mut add = |part: &str| -> Result<(), Error> {
            pace.step(part.len())?;
            memory::grow(&mut parts, 1)?;
            parts.push(strings.number(part)?);
            Ok(())
        };
        if let Some(delimiter) = delimiter {
            whole.splitn(most, delimiter).try_for_each(&mut add)?;
        } else {
            let mut rest = whole.trim_start();
            for place in 1..=most {
                let end = if place == most { None } else { rest.find(char::is_whitespace) };
                let (part, behind) = rest.split_at(end.unwrap_or(rest.len()));
                if part.is_empty() {
                    break;
                }
                add(part)?;
                rest = behind.trim_start();
            }
        }
        Ok((parts.len() - before) as i64)
    })?;
    let widest = counts.iter().copied().max().unwrap_or(0) as usize;
    let mut dims = x.shape.to_vec();
    dims.push(widest);
    let total = numbers.len().checked_mul(widest).ok_or_else(|| at.wrong("too many parts"))?;
    let (mut bytes, mut pace) = (memory::with_room(total.saturating_mul(8))?, Pace::new());
    let (nothing, mut rest) = ([0; ROUND], &parts[..]);
    for &count in &counts {
        let (own, behind) = rest.split_at(count as usize);
        append(&mut bytes, own, &mut pace)?;
        let mut missing = widest - own.len();
        while missing > 0 {
            let here = missing.min(ROUND);
            append(&mut bytes, &nothing[..here], &mut pace)?;
            missing -= here;
        }
        rest = behind;
    }
    Ok(vec![of_bytes(at, &dims, bytes)?, tensor(at, x.shape, &counts)?])
}

fn normalize(at: &Operands<'_>, strings: &mut Strings, op: &Normalize) -> Result<Tensor, Error> {
    let x = at.input(0)?;
    if !matches!(x.shape, [_] | [1, _]) {
        return Err(at.wrong(format!("{}; one axis is expected, or one row", List(x.shape))));
    }
    let folded = |text: &str| if op.case_sensitive { text.to_owned() } else { text.to_lowercase() };
    let stopwords: std::collections::HashSet<String> = op.stopwords.iter().map(|word| folded(word)).collect();
    let numbers = numbers(at, 0)?;
    let (mut left, mut pace) = (memory::with_room(numbers.len().max(1))?, Pace::new());
    for &number in &numbers {
        let text = text(strings, number)?;
        if op.case != CaseChange::None || !stopwords.is_empty() {
            expect_length(at, text.len(), CASED)?;
        }
        pace.step(text.len())?;
        // A letter's other case takes three times its bytes at most.
        memory::check_room((text.len() as u64).saturating_mul(3))?;
        if !stopwords.is_empty() && stopwords.contains(&folded(&text)) {
            continue;
        }
        left.push(match op.case {
            CaseChange::None => number,
            CaseChange::Lower => strings.number(&text.to_lowercase())?,
            CaseChange::Upper => strings.number(&text.to_uppercase())?,
        });
    }
    if left.is_empty() {
        left.push(0);
    }
    let mut dims = x.shape.to_vec();
    if let Some(extent) = dims.last_mut() {
        *extent = left.len();
    }
    tensor(at, &dims, &left)
}

/// The bytes of the number that a text says.
pub(crate) fn parsed(text: &str, to: DType) -> Option<[u8; 8]> {
    let mut bytes = [0; 8];
    let text = text.trim();
    if to.is_float() {
        match to {
            DType::F32 => bytes[..4].copy_from_slice(&text.parse::<f32>().ok()?.to_le_bytes()),
            DType::F64 => bytes = text.parse::<f64>().ok()?.to_le_bytes(),
            _ => bytes[..2].copy_from_slice(&to.encode(text.parse().ok()?)?.to_le_bytes()),
        }
        return Some(bytes);
    }
    let number: i128 = text.parse().ok()?;
    let bits = 8 * to.bytes() as u32;
    let signed = matches!(to, DType::I8 | DType::I16 | DType::I32 | DType::I64);
    let range = if signed { -(1 << (bits - 1))..1 << (bits - 1) } else { 0..1 << bits };
    range.contains(&number).then(|| (number as u64).to_le_bytes())
}

fn parse(at: &Operands<'_>, strings: &Strings, to: DType) -> Result<Tensor, Error> {
    let shape = Shape::new(at.input(0)?.shape).ok_or_else(|| at.wrong("too many dimensions"))?;
    let numbers = numbers(at, 0)?;
    let mut bytes = memory::with_room(numbers.len().saturating_mul(to.bytes()))?;
    let mut pace = Pace::new();
    for (index, &number) in numbers.iter().enumerate() {
        let text = text(strings, number)?;
        pace.step(text.len())?;
        let word = parsed(&text, to).ok_or_else(|| {
            at.wrong(format!("element {index}, '{}', does not say a number of {to}", Reason(&text)))
        })?;
        bytes.extend_from_slice(&word[..to.bytes()]);
    }
    Ok(Tensor { dtype: to, shape, bytes })
}

/// A real with eight digits that count, by a power of ten where it is large or small, without zeros at the end.
fn spelled(real: f64) -> String {
    if real.is_nan() {
        return "NaN".into();
    }
    if real.is_infinite() {
        return if real > 0.0 { "INF" } else { "-INF" }.into();
    }
    let scientific = format!("{real:.7e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let without_zeros = |text: &str| {
        let fraction = text.contains('.');
        if fraction { text.trim_end_matches('0').trim_end_matches('.') } else { text }.to_owned()
    };
    if (-4..8).contains(&exponent) {
        return without_zeros(&format!("{real:.*}", (7 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(digits), exponent.unsigned_abs())
}

fn format(at: &Operands<'_>, strings: &mut Strings) -> Result<Tensor, Error> {
    let x = at.input(0)?;
    let mut elements = Elements::of(x);
    let count = x.bytes.len() / x.dtype.bytes();
    let spelled = each(count, |_, _| {
        let text = match elements.next() {
            Some(Element::Float(real)) => spelled(real),
            Some(Element::Integer(integer)) => integer.to_string(),
            Some(Element::Unsigned(integer)) => integer.to_string(),
            None => return Err(Error::internal("fewer elements than there are")),
        };
        Ok(strings.number(&text)?)
    })?;
    tensor(at, x.shape, &spelled)
}

fn ranks(at: &Operands<'_>, strings: &Strings) -> Result<Vec<Tensor>, Error> {
    let numbers = numbers(at, 0)?;
    let mut different = memory::copied(&numbers)?;
    different.sort_unstable();
    different.dedup();
    let mut texts = memory::with_room(different.len())?;
    for &number in &different {
        texts.push((text(strings, number)?, number));
    }
    let mut order = memory::with_room(texts.len())?;
    order.extend(0..texts.len());
    unique::sort(&mut order, |&a, &b| texts[a].cmp(&texts[b]))?;
    let table: Vec<i64> = order.iter().map(|&place| texts[place].1).collect();
    let ranks: std::collections::HashMap<i64, i64> = table.iter().copied().zip(0..).collect();
    let ranked = each(numbers.len(), |index, _| Ok(ranks[&numbers[index]]))?;
    Ok(vec![tensor(at, at.input(0)?.shape, &ranked)?, tensor(at, &[table.len()], &table)?])
}

#[cfg(test)]
mod tests {
    use triune_graph::passes::HostOperand;

    use super::*;

    #[test]
    fn reals_are_spelled_as_c_spells_them_with_eight_digits() {
        let reals = [
            0.1,
            1.0 / 3.0,
            1e-7,
            1e20,
            123_456_789.0,
            -0.0,
            1.0,
            1e5,
            99_999_999.0,
            999_999_999.0,
            5e-324,
            0.00012,
        ];
        let spelled: Vec<String> = reals.iter().map(|&real| spelled(real)).collect();
        let expected = [
            "0.1",
            "0.33333333",
            "1e-07",
            "1e+20",
            "1.2345679e+08",
            "-0",
            "1",
            "100000",
            "99999999",
            "1e+09",
            "4.9406565e-324",
            "0.00012",
        ];
        assert_eq!(spelled, expected);
        assert_eq!([f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(super::spelled), ["NaN", "INF", "-INF"]);
    }

    #[test]
    fn numbers_are_read_in_their_range_only() {
        assert_eq!(parsed(" -128", DType::I8).map(|word| word[0]), Some(128));
        assert_eq!(parsed("18446744073709551615", DType::U64), Some([255; 8]));
        assert_eq!(parsed("-9223372036854775808", DType::I64), Some(i64::MIN.to_le_bytes()));
        for (text, to) in [
            ("128", DType::I8),
            ("-1", DType::U8),
            ("256", DType::U8),
            ("18446744073709551616", DType::U64),
            ("9223372036854775808", DType::I64),
            ("3.0", DType::I32),
            ("", DType::F32),
            ("1x", DType::F32),
        ] {
            assert_eq!(parsed(text, to), None, "{text} as {to}");
        }
        let reals = ["-2e3", "inf", "-INF", "0.1"].map(|text| parsed(text, DType::F32).unwrap());
        let reals = reals.map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        assert_eq!(reals, [-2e3, f32::INFINITY, f32::NEG_INFINITY, 0.1]);
    }

    /// A result's extents and elements.
    type Told = (Vec<usize>, Vec<String>);

    /// Runs the operator on strings of some extents; so many of the results are strings, too, the others numbers.
    fn run(op: &StringOp, given: &[(&[usize], &[&str])], words: usize) -> Result<Vec<Told>, String> {
        let mut strings = Strings::default();
        let numbered: Vec<Vec<u8>> = (given.iter())
            .map(|(_, texts)| {
                let number = |text: &&str| strings.number(text).expect("room").to_le_bytes();
                texts.iter().flat_map(number).collect()
            })
            .collect();
        let operand =
            |index: usize| TensorRef { dtype: DType::I64, shape: given[index].0, bytes: &numbered[index] };
        let step = HostStep {
            name: "letters".into(),
            op: op.clone().into(),
            inputs: (0..given.len()).map(|index| Some(HostOperand::Value(index.to_string()))).collect(),
            outputs: vec![],
        };
        let arrived = |name: &str| Some(operand(name.parse().ok()?));
        let made = super::run(&step, op, &mut strings, arrived).map_err(|error| error.to_string())?;
        let told = |(index, tensor): (usize, Tensor)| {
            let told = |&word: &[u8; 8]| {
                let number = i64::from_le_bytes(word);
                if index < words {
                    strings.text(number).expect("a string").to_string()
                } else {
                    number.to_string()
                }
            };
            (tensor.shape.to_vec(), tensor.bytes.as_chunks().0.iter().map(told).collect())
        };
        Ok(made.into_iter().enumerate().map(told).collect())
    }

    fn told(shape: &[usize], words: &[&str]) -> Told {
        (shape.to_vec(), words.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn strings_are_joined_as_they_broadcast() {
        let join = |a: (&[usize], &[&str]), b: (&[usize], &[&str])| run(&StringOp::Concat, &[a, b], 1);
        let (row, column) = ((&[1, 3][..], &["x", "y", "z"][..]), (&[2, 1][..], &["a", "b"][..]));
        assert_eq!(join(column, row).unwrap(), [told(&[2, 3], &["ax", "ay", "az", "bx", "by", "bz"])]);
        assert_eq!(join(row, column).unwrap(), [told(&[2, 3], &["xa", "ya", "za", "xb", "yb", "zb"])]);
        // As many; one more axis in front; a scalar; three axes, the middle one of which repeats.
        assert_eq!(join((&[2], &["a", ""]), (&[2], &["b", "c"])).unwrap(), [told(&[2], &["ab", "c"])]);
        let whole: (&[usize], &[&str]) = (&[2, 3], &["0", "1", "2", "3", "4", "5"]);
        let joined = told(&[2, 3], &["x0", "y1", "z2", "x3", "y4", "z5"]);
        assert_eq!(join((&[3], row.1), whole).unwrap(), [joined]);
        assert_eq!(join((&[], &["-"]), column).unwrap(), [told(&[2, 1], &["-a", "-b"])]);
        let deep: (&[usize], &[&str]) = (&[2, 1, 2], &["a", "b", "c", "d"]);
        let joined = ["a0", "b1", "a2", "b3", "a4", "b5", "c0", "d1", "c2", "d3", "c4", "d5"];
        assert_eq!(join(deep, (&[3, 2], whole.1)).unwrap(), [told(&[2, 3, 2], &joined)]);
        let error = join((&[2], &["a", "b"]), (&[3], row.1)).unwrap_err();
        assert!(error.contains("[2] and [3] do not fit"), "{error}");
    }

    #[test]
    fn strings_are_cut_into_parts() {
        let split = |delimiter: Option<&str>, most, texts: &[&str]| {
            let op = StringOp::Split { delimiter: delimiter.map(Into::into), most };
            run(&op, &[(&[texts.len()], texts)], 1).unwrap()
        };
        let texts = ["a, b", "", ",c,", "d"];
        let parts = ["a", " b", "", "", "", "", "", "c", "", "d", "", ""];
        let wanted = [told(&[4, 3], &parts), told(&[4], &["2", "1", "3", "1"])];
        assert_eq!(split(Some(","), None, &texts), wanted);
        assert_eq!(split(Some(","), Some(2), &texts), wanted);
        let once =
            [told(&[4, 2], &["a", " b", "", "", "", "c,", "d", ""]), told(&[4], &["2", "1", "2", "1"])];
        assert_eq!(split(Some(","), Some(1), &texts), once);
        assert_eq!(split(Some(","), Some(0), &["a,b"]), [told(&[1, 1], &["a,b"]), told(&[1], &["1"])]);
        // White space of any length, none at the ends; what is not cut any more keeps its own.
        let texts = ["  one\ttwo   three ", " ", "four"];
        let parts = ["one", "two", "three", "", "", "", "four", "", ""];
        assert_eq!(split(None, None, &texts), [told(&[3, 3], &parts), told(&[3], &["3", "0", "1"])]);
        let parts = ["one", "two   three ", "", "", "four", ""];
        assert_eq!(split(None, Some(1), &texts), [told(&[3, 2], &parts), told(&[3], &["2", "0", "1"])]);
        assert_eq!(split(None, None, &[" "]), [told(&[1, 0], &[]), told(&[1], &["0"])]);
    }

    #[test]
    fn strings_are_left_out_and_changed() {
        let normalize = |case, case_sensitive, shape: &[usize], texts: &[&str]| {
            let stopwords = vec!["No".to_owned(), "\u{c4}h".to_owned()];
            run(&StringOp::Normalize(Normalize { case, stopwords, case_sensitive }), &[(shape, texts)], 1)
        };
        let texts = ["Yes", "no", "No", "\u{e4}h", "Stra\u{df}e"];
        for (case, sensitive, left) in [
            (CaseChange::None, true, &["Yes", "no", "\u{e4}h", "Stra\u{df}e"][..]),
            (CaseChange::None, false, &["Yes", "Stra\u{df}e"]),
            (CaseChange::Lower, false, &["yes", "stra\u{df}e"]),
            (CaseChange::Upper, true, &["YES", "NO", "\u{c4}H", "STRASSE"]),
        ] {
            assert_eq!(normalize(case, sensitive, &[5], &texts).unwrap(), [told(&[left.len()], left)]);
            assert_eq!(normalize(case, sensitive, &[1, 5], &texts).unwrap(), [told(&[1, left.len()], left)]);
        }
        // Where none is left, one empty string is.
        assert_eq!(normalize(CaseChange::None, true, &[1], &["No"]).unwrap(), [told(&[1], &[""])]);
        assert_eq!(normalize(CaseChange::None, true, &[0], &[]).unwrap(), [told(&[1], &[""])]);
        for (shape, texts) in [(&[2, 1][..], &["a", "b"][..]), (&[], &["a"]), (&[1, 1, 1], &["a"])] {
            let error = normalize(CaseChange::None, true, shape, texts).unwrap_err();
            assert!(error.contains("one axis is expected, or one row"), "{shape:?}: {error}");
        }
    }

    #[test]
    fn strings_have_ranks_in_their_alphabet() {
        let texts = ["b", "a", "", "b", "ab"];
        let ranks = told(&[5], &["3", "1", "0", "3", "2"]);
        assert_eq!(run(&StringOp::Ranks, &[(&[5], &texts)], 0).unwrap()[0], ranks);
        // The table is of strings.
        assert_eq!(
            run(&StringOp::Ranks, &[(&[5], &texts)], 2).unwrap()[1],
            told(&[4], &["", "a", "ab", "b"])
        );
    }

    /// What does not say a number is named with its place; what says one is read in full.
    #[test]
    fn strings_say_numbers() {
        let parse = |to, texts: &[&str]| run(&StringOp::Parse(to), &[(&[texts.len()], texts)], 0);
        assert_eq!(parse(DType::I64, &["7", " -9 "]).unwrap(), [told(&[2], &["7", "-9"])]);
        let bits = |real: f64| real.to_bits().cast_signed().to_string();
        assert_eq!(parse(DType::F64, &["0.1", "-2"]).unwrap()[0].1, [bits(0.1), bits(-2.0)]);
        let error = parse(DType::I64, &["1", "x"]).unwrap_err();
        assert!(error.contains("element 1, 'x', does not say a number of int64"), "{error}");
        for (text, to, word) in [("-1.5", DType::F16, 0xBE00_u16), ("2", DType::BF16, 0x4000)] {
            assert_eq!(parsed(text, to).map(|word| u16::from_le_bytes([word[0], word[1]])), Some(word));
        }
        assert_eq!(parsed("65535", DType::U16).map(|word| word[..3].to_vec()), Some(vec![255, 255, 0]));
        assert_eq!(parsed("-32769", DType::I16), None);
        assert_eq!(parsed("127", DType::I8).map(|word| word[0]), Some(127));
    }

    #[test]
    fn operands_that_are_no_strings_are_refused() {
        let step = HostStep {
            name: "letters".into(),
            op: StringOp::Ranks.into(),
            inputs: vec![Some(HostOperand::Value("x".into()))],
            outputs: vec![],
        };
        let bytes = [0; 8];
        let arrived = |_: &str| Some(TensorRef { dtype: DType::F64, shape: &[1], bytes: &bytes });
        let error =
            super::run(&step, &StringOp::Ranks, &mut Strings::default(), arrived).unwrap_err().to_string();
        assert!(error.contains("operand 0 of type float64; strings are expected"), "{error}");
    }
}
