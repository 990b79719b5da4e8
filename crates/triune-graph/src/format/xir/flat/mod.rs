//! Networks in FlatBuffers form: one file with the network and its constants, which the vendor's tools call `.fb`.
//!
//! Reading makes the same [`Document`] as JSON and RAW do, writing takes it, so that everything behind is shared. What the
//! schema leaves open is the text inside of its strings: tags and `device_info` hold what the JSON has for them, and an
//! operator without a table is an `Unknown` whose `json_info` holds its JSON (inferred: the header has the fields, no file
//! of the vendor's tools is public).

mod read;
mod schema;
mod write;

use std::ops::Range;

use bytes::Bytes;

use super::{Document, malformed};
use crate::Error;

/// Where the data of a value lie in the file, if it has some.
type Place = Option<Range<usize>>;

impl Document {
    /// Reads a network in FlatBuffers form; its constants share `bytes`.
    ///
    /// # Errors
    /// What is not such a file: the message names operation, operand and attribute.
    pub fn read_flat(bytes: &Bytes) -> Result<Self, Error> {
        let (mut document, places) = Self::read_flat_places(bytes)?;
        for (value, place) in document.values.iter_mut().zip(places) {
            if let (Some(params), Some(place)) = (&mut value.params, place) {
                params.data = Some(bytes.slice(place));
            }
        }
        Ok(document)
    }

    /// As [`Document::read_flat`], with where each value's data lie instead of the data.
    ///
    /// # Errors
    /// As [`Document::read_flat`].
    pub fn read_flat_places(bytes: &[u8]) -> Result<(Self, Vec<Place>), Error> {
        read::document(bytes)
    }

    /// The network in FlatBuffers form, `params_bytes` and `params_md5` as the document has them; constants without data
    /// are written without.
    ///
    /// # Errors
    /// What the form cannot hold: keys of the network and attributes of operators that its tables do not have, more than
    /// 2 GiB; attributes that an operator of its class must have and does not; a lack of memory for what is written out.
    pub fn write_flat(&self) -> Result<Vec<u8>, Error> {
        let written = write::Written::default();
        write::file(self, &written).map_err(|reason| {
            let none = || malformed(format!("FlatBuffers file: {reason}"));
            written.claims.refused().map_or_else(none, Error::Memory)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Attribute, ElementType, Runs, Scalar, Scale},
        *,
    };

    /// A small network with a constant, an operator without a table, and one inside of another.
    fn small() -> Document {
        let tensor = |shape: &str, layout: &str| {
            format!(
                r#"{{"_type_key":"icraft::xir::TensorType","element_dtype":"@sint(8)","layout":"@layout({layout})","merged_distrs":["@merged_distr([0]^ZERO:{{v:[0, 3), u:[3, 4)}})"],"shape":{shape}}}"#
            )
        };
        let value = |v_id: i64, kind: &str, dtype: &str| {
            format!(
                r#"{{"_type_key":"icraft::xir::{kind}","dtype":{dtype},"mtype":"@chunk(3@64)","name":"n{v_id}","tags":{{"a":[1,"b"]}},"v_id":{v_id}}}"#
            )
        };
        let op = |kind: &str, op_id: i64, inputs: &str, outputs: &str, more: &str| {
            format!(
                r#"{{"_type_key":"{kind}","compile_target":"@buyit","inputs":[{inputs}],"name":"","op_id":{op_id},"outputs":[{outputs}],"tags":{{}}{more}}}"#
            )
        };
        let (x, y) = (value(1, "Value", &tensor("[4]", "C")), value(2, "Value", &tensor("[4]", "C")));
        let words = value(3, "Params", &tensor("[2,2]", "Cc2"));
        let inner = r#","instr":[],"params":[],"origin_ops_id":[7],"device_info":{},"layer_count":2,"sub_hard_ops":[]"#;
        let inner = op("icraft::xir::HardOp", 9, "", "", inner);
        let more = format!(
            r#","instr":[{words}],"params":[],"origin_ops_id":[7,8],"device_info":{{"io":3}},"layer_count":1,"sub_hard_ops":[{inner}]"#
        );
        let hard = op("icraft::xir::HardOp", 2, &format!("{x},null"), &y, &more);
        let custom = op("customop::Own", 3, &y, &x.replace(":1}", ":4}"), r#","k":[1.5,{"z":null}]"#);
        let ops = [op("icraft::xir::Input", 1, "", &x, ""), hard, custom].join(",");
        let json = format!(
            r#"{{"_type_key":"icraft::xir::Network","ai_target":"@zhuget(30S)","framework_kind":"ONNX","framework_version":"1","icraft_version":"v3","icraft_xir_version":"3.33.1.0","name":"small","ops":[{ops}],"params_bytes":0,"params_md5":"","tags":{{}}}}"#
        );
        let mut document = Document::read(json.as_bytes(), None).expect("a network");
        document.give(3, Bytes::from_static(b"abcd")).expect("its size");
        document
    }

    #[test]
    fn what_is_written_is_read() {
        let document = small();
        let file = Bytes::from(document.write_flat().unwrap());
        let found = Document::read_flat(&file).unwrap();
        assert_eq!(found, document);
        assert_eq!(found.write_flat().unwrap(), file);
        // The data are the file's, at the start of a page.
        let places = Document::read_flat_places(&file).unwrap().1;
        let place = places.into_iter().flatten().next().unwrap();
        assert_eq!((place.start % 4096, &file[place]), (0, &b"abcd"[..]));
    }

    #[test]
    fn what_is_used_often_is_read_once() {
        // Far more is there at the uses than in the file.
        let mut document = small();
        let (factors, op) = (vec![0.5; 4096], document.ops[1].clone());
        document.values[0].dtype.element = ElementType::Quantized {
            storage: Scalar::Signed(8),
            expressed: Scalar::Float(32),
            scale: Scale::Plain(Runs::from_values(0, factors)),
            zero_points: Vec::new(),
        };
        document.ops[1].inputs = vec![op.inputs[0]; 500];
        let file = Bytes::from(document.write_flat().unwrap());
        assert_eq!(Document::read_flat(&file).unwrap(), document);
    }

    #[test]
    fn a_number_that_32_bits_do_not_hold_is_refused() {
        let mut document = small();
        document.ops[2].type_key = "icraft::xir::ELU".to_owned();
        for (alpha, refused) in [(1e39, true), (f64::INFINITY, false), (f64::from(f32::MAX), false)] {
            document.ops[2].attributes = [("alpha".to_owned(), Attribute::Float(alpha))].into();
            assert_eq!(document.write_flat().is_err(), refused, "{alpha}");
        }
    }

    #[test]
    fn damage_is_an_error_or_another_network() {
        let file = small().write_flat().unwrap();
        // What lies in between is nothing.
        let network = file.iter().rposition(|&byte| byte != 0).unwrap();
        for index in (0..file.len()).filter(|&index| index < 2200 || index + 300 > network) {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = file.clone();
                changed[index] = byte;
                if let Ok(document) = Document::read_flat(&changed.into()) {
                    let _ = document.write_flat();
                }
            }
        }
        for length in (0..2200).step_by(3) {
            assert!(Document::read_flat(&file[..length].to_vec().into()).is_err(), "cut to {length}");
        }
    }

    #[test]
    fn every_class_has_its_number() {
        let place =
            |name: &str| schema::OPERATORS.iter().position(|(class, _)| *class == name).map(|at| at + 1);
        // By the vendor's header.
        for (name, number) in
            [("Input", 1), ("Conv2d", 25), ("HardOp", 42), ("ReLU", 76), ("Unknown", 101), ("Where", 105)]
        {
            assert_eq!(place(name), Some(number), "{name}");
        }
        let mut names: Vec<_> = schema::OPERATORS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), schema::OPERATORS.len());
    }
}
