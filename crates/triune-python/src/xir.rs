//! The strings and the RAW container of XIR documents.

use std::collections::BTreeMap;

use pyo3::{buffer::PyBuffer, prelude::*, pybacked::PyBackedBytes, types::PyBytes};
use triune::internals::graph::format::xir::{
    self, ExpScale, Fill, Layout, Mem, MergedDistr, Runs, Scalar, Scale, Section, Target, raw_table_of,
};

use crate::error;
use crate::list::{List, bytes, to_bytes};

/// (kind, axis, runs), a run being (count, value): a number, or (m, exp, origin).
type Array = (&'static str, i64, Vec<(u64, Item)>);

/// One value of an array.
#[derive(FromPyObject, IntoPyObject)]
pub(crate) enum Item {
    Exp((i64, i64, f64)),
    Plain(f64),
}

type Sections<T> = Vec<(T, u64, u64)>;

fn wrong(error: triune::internals::graph::Error) -> PyErr {
    error::argument(match error {
        triune::internals::graph::Error::Malformed { reason, .. } => reason,
        triune::internals::graph::Error::Memory(none) => return error::out_of_memory(none),
        other => other.to_string(),
    })
}

/// Kind and bits of a number format such as `@fp(32)`; the kinds are fp, bf, tf, fpe6m9, fpe7m8, sint, uint and bool.
///
/// Raises `ArgumentError` for another text.
#[pyfunction]
pub(crate) fn xir_parse_scalar(text: &str) -> PyResult<(&'static str, u16)> {
    let scalar: Scalar = text.parse().map_err(wrong)?;
    let kind = match scalar {
        Scalar::Float(_) => "fp",
        Scalar::BFloat(_) => "bf",
        Scalar::TFloat(_) => "tf",
        Scalar::Split { exponent: 6, .. } => "fpe6m9",
        Scalar::Split { .. } => "fpe7m8",
        Scalar::Signed(_) => "sint",
        Scalar::Unsigned(_) => "uint",
        Scalar::Bool => "bool",
    };
    Ok((kind, scalar.bits()))
}

/// The axes of a layout such as `@layout(NCHWc32)` or `NCHWc32`: (name, length), the length 0 where the axis is not the inner
/// part of a split one.
///
/// Raises `ArgumentError` for another text.
#[pyfunction]
pub(crate) fn xir_parse_layout(text: &str) -> PyResult<Vec<(char, u64)>> {
    let layout: Layout = text.parse().map_err(wrong)?;
    Ok(layout.axes.iter().map(|axis| (axis.name, axis.unit)).collect())
}

/// An array such as `@norm_ratios([axis=-1]32*0.2,0.5)`: its kind (`norm_ratios`, `scales` or `exp_scales`), its axis, and
/// runs (count, value). A value of `exp_scales` is (m, exp, origin). Numbers have the precision of float32.
///
/// Raises `ArgumentError` for another text.
#[pyfunction]
pub(crate) fn xir_parse_array(text: &str) -> PyResult<Array> {
    fn plain(runs: Runs<f32>) -> (i64, Vec<(u64, Item)>) {
        let items = runs.runs.into_iter().map(|(count, value)| (count, Item::Plain(f64::from(value))));
        (runs.axis, items.collect())
    }
    if text.trim_start().trim_start_matches('@').starts_with("norm_ratios") {
        let (axis, runs) = plain(Runs::parse_ratios(text).map_err(wrong)?);
        return Ok(("norm_ratios", axis, runs));
    }
    Ok(match text.parse().map_err(wrong)? {
        Scale::Plain(runs) => {
            let (axis, runs) = plain(runs);
            ("scales", axis, runs)
        }
        Scale::Exp(runs) => {
            let item = |(count, ExpScale { m, exp, origin })| (count, Item::Exp((m, exp, f64::from(origin))));
            ("exp_scales", runs.axis, runs.runs.into_iter().map(item).collect())
        }
    })
}

/// The text that `xir_parse_array` reads; numbers are rounded to float32 and written with as few digits as it takes.
///
/// Raises `ArgumentError` for an unknown kind, for values of another kind, and for a count of 0.
#[pyfunction]
pub(crate) fn xir_format_array(kind: &str, axis: i64, runs: List<(u64, Item)>) -> PyResult<String> {
    if runs.iter().any(|(count, _)| *count == 0) {
        return Err(error::argument("runs: expected counts above 0, got 0"));
    }
    let plain = || -> PyResult<Runs<f32>> {
        let items = runs.iter().map(|(count, item)| match item {
            Item::Plain(value) => Ok((*count, *value as f32)),
            Item::Exp(_) => Err(error::argument(format!("runs: {kind} has plain numbers"))),
        });
        Ok(Runs { axis, runs: items.collect::<Result<_, _>>()? })
    };
    match kind {
        "norm_ratios" => Ok(plain()?.ratios_text()),
        "scales" => Ok(Scale::Plain(plain()?).to_string()),
        "exp_scales" => {
            let items = runs.iter().map(|(count, item)| match *item {
                Item::Exp((m, exp, origin)) => Ok((*count, ExpScale { m, exp, origin: origin as f32 })),
                Item::Plain(_) => Err(error::argument("runs: exp_scales has values (m, exp, origin)")),
            });
            Ok(Scale::Exp(Runs { axis, runs: items.collect::<Result<_, _>>()? }).to_string())
        }
        _ => {
            let text = format!("kind: expected norm_ratios, scales or exp_scales, got {kind}");
            Err(error::argument(text))
        }
    }
}

/// A distribution such as `@merged_distr([1, 4]^ZERO:{v:[0, 20), u:[20, 32)})`: the merged axes, what the padding holds
/// (`ZERO`, `NONE`, or `None` where the text does not say), and sections (`v` or `u`, start, end).
///
/// Raises `ArgumentError` for another text, and for sections that do not follow one another from 0.
#[pyfunction]
pub(crate) fn xir_parse_merged_distr(
    text: &str,
) -> PyResult<(Vec<i64>, Option<&'static str>, Sections<&'static str>)> {
    let merged: MergedDistr = text.parse().map_err(wrong)?;
    let fill = merged.fill.map(|fill| match fill {
        Fill::Zero => "ZERO",
        Fill::None => "NONE",
    });
    let section = |section: &Section| (if section.valid { "v" } else { "u" }, section.start, section.end);
    Ok((merged.axes, fill, merged.sections.iter().map(section).collect()))
}

/// The text that `xir_parse_merged_distr` reads.
///
/// Raises `ArgumentError` for an unknown filling or kind of section, and as `xir_parse_merged_distr`.
#[pyfunction]
#[pyo3(signature = (axes, fill, sections))]
pub(crate) fn xir_format_merged_distr(
    axes: List<i64>,
    fill: Option<&str>,
    sections: List<(String, u64, u64)>,
) -> PyResult<String> {
    let fill = match fill {
        None => None,
        Some("ZERO") => Some(Fill::Zero),
        Some("NONE") => Some(Fill::None),
        Some(other) => {
            return Err(error::argument(format!("fill: expected ZERO, NONE or None, got {other}")));
        }
    };
    let sections = sections.into_iter().map(|(kind, start, end)| match kind.as_str() {
        "v" | "u" => Ok(Section { valid: kind == "v", start, end }),
        _ => Err(error::argument(format!("sections: expected v or u, got {kind}"))),
    });
    let text = MergedDistr { axes: axes.0, fill, sections: sections.collect::<Result<_, _>>()? }.to_string();
    // The reader knows which sections can follow one another.
    text.parse::<MergedDistr>().map_err(wrong)?;
    Ok(text)
}

/// A place in memory: (`hostm`, []), (`ocm`, [address]), (`etm`, [address]) or (`chunk`, [id, offset]).
///
/// Raises `ArgumentError` for another text.
#[pyfunction]
pub(crate) fn xir_parse_mem(text: &str) -> PyResult<(&'static str, Vec<u64>)> {
    Ok(match text.parse().map_err(wrong)? {
        Mem::Host => ("hostm", Vec::new()),
        Mem::OnChip(address) => ("ocm", vec![address]),
        Mem::External(address) => ("etm", vec![address]),
        Mem::Chunk(id, offset) => ("chunk", vec![u64::from(id), offset]),
    })
}

/// A compile target: hostt, fpgat, customt, buyit, zhuget or wolongt, and the chip (`330`, `340`, `30S`) of a zhuget.
///
/// Raises `ArgumentError` for another text.
#[pyfunction]
pub(crate) fn xir_parse_target(text: &str) -> PyResult<(&'static str, Option<String>)> {
    Ok(match text.parse().map_err(wrong)? {
        Target::Host => ("hostt", None),
        Target::Fpga => ("fpgat", None),
        Target::Custom => ("customt", None),
        Target::Buyi => ("buyit", None),
        Target::Wolong => ("wolongt", None),
        Target::Zhuge(chip) => ("zhuget", Some(chip.to_string())),
    })
}

/// The table of a RAW file, in its order: (`v_id`, offset, length). The length is up to where the next constant starts, or the
/// file ends: what the constant has, or nothing when it is one without elements. Only the table is looked at.
///
/// `size` is that of the file, if `buffer` has only its start, with the table.
///
/// Raises `ArgumentError` for what is not a RAW file: another start, a table or an offset outside of the file, a `v_id`
/// given twice. An empty file has an empty table.
#[pyfunction]
#[pyo3(signature = (buffer, size=None))]
pub(crate) fn xir_raw_table(
    py: Python<'_>,
    buffer: PyBuffer<u8>,
    size: Option<u64>,
) -> PyResult<Vec<(u32, u64, u64)>> {
    let cells = buffer.as_slice(py).ok_or_else(|| error::argument("buffer: expected contiguous bytes"))?;
    let copy = |count: u64| -> Vec<u8> {
        let count = usize::try_from(count).map_or(cells.len(), |count| count.min(cells.len()));
        cells[..count].iter().map(pyo3::buffer::ReadOnlyCell::get).collect()
    };
    let head = copy(xir::raw_table_bytes(&copy(16)));
    let entries = raw_table_of(&head, size.unwrap_or(cells.len() as u64)).map_err(wrong)?;
    Ok(entries.iter().map(|entry| (entry.v_id, entry.offset, entry.length)).collect())
}

/// Where data lie in a file, (offset, length), by the `v_id` of their constants.
type Places = BTreeMap<i64, (usize, usize)>;

/// A network in FlatBuffers form: its JSON, and for each constant that has data where they lie, (`v_id`: (offset, length)).
///
/// Raises `ArgumentError` for what is no such file.
#[pyfunction]
pub(crate) fn xir_read_flat(py: Python<'_>, data: &Bound<'_, PyBytes>) -> PyResult<(String, Places)> {
    let file = data.as_bytes();
    py.detach(|| {
        let (document, places) = xir::Document::read_flat_places(file)?;
        let placed = document.values.iter().zip(places);
        let places =
            placed.filter_map(|(value, place)| place.map(|place| (value.v_id, (place.start, place.len()))));
        let places = places.collect();
        Ok((document.write_json(), places))
    })
    .map_err(wrong)
}

/// The FlatBuffers form of a network's JSON, with the data of its constants by `v_id`; the others have none.
///
/// Raises `ArgumentError` for what is no network, for data of another size than a constant's, and for what the form cannot
/// hold.
#[pyfunction]
pub(crate) fn xir_write_flat(
    py: Python<'_>,
    json: PyBackedBytes,
    data: BTreeMap<i64, PyBuffer<u8>>,
) -> PyResult<Bound<'_, PyBytes>> {
    let data = data.iter().map(|(&v_id, buffer)| Ok((v_id, bytes(py, buffer)?)));
    let data = data.collect::<PyResult<Vec<(i64, Vec<u8>)>>>()?;
    let made = py
        .detach(|| {
            let mut document = xir::Document::read(&json, None)?;
            for (v_id, own) in data {
                document.give(v_id, own.into())?;
            }
            document.write_flat()
        })
        .map_err(wrong)?;
    to_bytes(py, &made)
}
