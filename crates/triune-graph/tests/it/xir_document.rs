//! XIR documents: what is written reads back, the vendor's strings and a vendor's file keep their form, damage is named.

use crate::xir_common::{document, layout, mem, merged, ratios, scalar, scale, target};
use bytes::Bytes;
use proptest::prelude::*;
use triune_graph::format::xir::{
    Axis, Document, ExpScale, Fill, Layout, Mem, MergedDistr, Runs, Scalar, Scale, Target, md5, raw_table,
};
use triune_testing::test_data;

/// The document as a reader has it: values in the order of first use, those that nothing uses left out.
fn read_back(document: &Document) -> Document {
    let mut read = Document::read(document.write_json().as_bytes(), None).expect("its own text");
    for value in &mut read.values {
        let same = document.values.iter().find(|other| other.v_id == value.v_id).expect("the value");
        value.params.clone_from(&same.params);
        assert_eq!(value, same);
    }
    read
}

proptest! {
    #[test]
    fn documents_read_back(document in document()) {
        let mut document = read_back(&document);
        let (json, raw) = document.write().expect("a document that can be written");
        document.params_bytes = raw.len() as u64;
        document.params_md5 = md5(&raw);
        let again = Document::read(json.as_bytes(), Some(raw.into())).expect("its own files");
        prop_assert_eq!(&again, &document);
        prop_assert_eq!(again.write_json(), json);
    }

    #[test]
    fn strings_read_back(
        scalar in scalar(), layout in layout(), merged in merged(), mem in mem(), target in target(),
        scale in scale(), ratios in ratios(),
    ) {
        prop_assert_eq!(scalar.to_string().parse::<Scalar>().unwrap(), scalar);
        prop_assert_eq!(layout.to_string().parse::<Layout>().unwrap(), layout.clone());
        prop_assert_eq!(format!("@layout({layout})").parse::<Layout>().unwrap(), layout);
        prop_assert_eq!(merged.to_string().parse::<MergedDistr>().unwrap(), merged);
        prop_assert_eq!(mem.to_string().parse::<Mem>().unwrap(), mem);
        prop_assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
        prop_assert_eq!(scale.to_string().parse::<Scale>().unwrap(), scale);
        prop_assert_eq!(Runs::parse_ratios(&ratios.ratios_text()).unwrap(), ratios);
    }

    #[test]
    fn any_string_is_read_or_refused(text in "[@a-z0-9(),*/:\\[\\]{}^=. -]{0,40}") {
        let _ = text.parse::<Scalar>();
        let _ = text.parse::<Layout>();
        let _ = text.parse::<MergedDistr>();
        let _ = text.parse::<Mem>();
        let _ = text.parse::<Target>();
        let _ = text.parse::<Scale>();
        let _ = Runs::parse_ratios(&text);
    }

    #[test]
    fn damaged_documents_are_refused_or_read(
        document in document(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        in_json in any::<bool>(),
    ) {
        let (json, raw) = document.write().expect("a document");
        let (mut json, mut raw) = (json.into_bytes(), raw);
        let bytes = if in_json || raw.is_empty() { &mut json } else { &mut raw };
        for (index, value) in changes {
            let index = index.index(bytes.len());
            bytes[index] = value;
        }
        let _ = raw_table(&raw);
        let _ = Document::read(&json, Some(raw.into()));
    }
}

#[test]
fn the_strings_that_files_have_are_read() {
    assert_eq!("@fp(32)".parse::<Scalar>().unwrap(), Scalar::Float(32));
    assert_eq!("sint(8)".parse::<Scalar>().unwrap(), Scalar::Signed(8));
    assert_eq!("@uint(12)".parse::<Scalar>().unwrap(), Scalar::Unsigned(12));
    let axis = |name, unit| Axis { name, unit };
    let blocked = [axis('N', 0), axis('C', 0), axis('H', 0), axis('W', 0), axis('c', 32)];
    assert_eq!("@layout(NCHWc32)".parse::<Layout>().unwrap().axes, blocked);
    assert_eq!("*".parse::<Layout>().unwrap().axes, [axis('*', 0)]);
    assert!("@layout()".parse::<Layout>().unwrap().axes.is_empty());
    let empty = Scale::Plain(Runs { axis: -1, runs: Vec::new() });
    assert_eq!("@scales([axis=-1])".parse::<Scale>().unwrap(), empty);
    assert_eq!(empty.to_string(), "@scales([axis=-1])");
    let plain = "@scales([axis=-1]3*2.007629)".parse::<Scale>().unwrap();
    assert_eq!(plain, Scale::Plain(Runs { axis: -1, runs: vec![(3, 2.007_629)] }));
    let exp = "@exp_scales([axis=4]128/21/6.1035156e-05,2*180/16/0.002746582)";
    let Scale::Exp(runs) = exp.parse().unwrap() else { panic!("a list of exponents") };
    assert_eq!((runs.axis, runs.total()), (4, 3));
    assert_eq!(runs.runs[1], (2, ExpScale { m: 180, exp: 16, origin: 180.0 / 65536.0 }));
    assert_eq!(Scale::Exp(runs.clone()).to_string(), exp);
    assert_eq!(runs.expanded(2), None);
    assert_eq!(runs.expanded(3).unwrap()[2].m, 180);
    let text = "@merged_distr([1, 4]^ZERO:{v:[0, 20), u:[20, 32)})";
    let merged = text.parse::<MergedDistr>().unwrap();
    assert_eq!(
        (merged.axes.as_slice(), merged.fill, merged.sections.len()),
        (&[1, 4][..], Some(Fill::Zero), 2)
    );
    assert_eq!(merged.to_string(), text);
    let old = "merged_distr([2, 3]:{u:[0, 100), v:[100, 1024)})".parse::<MergedDistr>().unwrap();
    assert_eq!(old.fill, None);
    assert_eq!("@chunk(1234@100)".parse::<Mem>().unwrap(), Mem::Chunk(1234, 100));
    assert_eq!("@zhuget(330)".parse::<Target>().unwrap().to_string(), "@zhuget(330)");
}

#[test]
fn wrong_strings_are_refused_with_the_reason() {
    let cases: [(String, &str); 15] = [
        ("@fp(31)".parse::<Scalar>().unwrap_err().to_string(), "there is no fp of 31 bits"),
        ("@sint(65)".parse::<Scalar>().unwrap_err().to_string(), "1 to 64 bits"),
        ("@sint".parse::<Scalar>().unwrap_err().to_string(), "bits is missing"),
        ("@int(8)".parse::<Scalar>().unwrap_err().to_string(), "the kinds are"),
        ("@fp(32))".parse::<Scalar>().unwrap_err().to_string(), "is too much"),
        ("NQHW".parse::<Layout>().unwrap_err().to_string(), "'Q' is not an axis"),
        ("N4".parse::<Layout>().unwrap_err().to_string(), "axis N is not split"),
        ("NCc".parse::<Layout>().unwrap_err().to_string(), "above 0 should follow c"),
        ("NCc99999999999999999999".parse::<Layout>().unwrap_err().to_string(), "above 0 should follow c"),
        ("@scales([axis=-1]0*1)".parse::<Scale>().unwrap_err().to_string(), "repeated 0 times"),
        ("@scales([axis=-1]1,x)".parse::<Scale>().unwrap_err().to_string(), "'x' is not a number"),
        (
            "@scales([axis=-1]18446744073709551615*1,1)".parse::<Scale>().unwrap_err().to_string(),
            "too many values",
        ),
        (
            "@merged_distr([1]:{v:[0, 4), u:[5, 6)})".parse::<MergedDistr>().unwrap_err().to_string(),
            "cannot follow what ends at 4",
        ),
        ("@etm(-1)".parse::<Mem>().unwrap_err().to_string(), "'-1' is not a number"),
        ("@zhuget(331)".parse::<Target>().unwrap_err().to_string(), "330, 340 and 30S"),
    ];
    for (message, reason) in cases {
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn a_huge_count_costs_nothing() {
    let text = "@norm_ratios([axis=-1]18446744073709551615*0.5)";
    let runs = Runs::parse_ratios(text).unwrap();
    assert_eq!(runs.total(), u64::MAX);
    assert_eq!(runs.expanded(1 << 20), None);
    assert_eq!(runs.ratios_text(), text);
}

/// A network of `Input`, `ReLU` and `Output` with a constant of 4 bytes.
fn small() -> String {
    let value = |v_id: u32| {
        format!(
            r#"{{"_type_key": "icraft::xir::Value", "v_id": {v_id}, "name": "", "mtype": "@hostm", "tags": {{}}, "dtype":
            {{"_type_key": "icraft::xir::TensorType", "element_dtype": "@fp(32)", "layout": "@layout(NC)",
            "merged_distrs": [], "shape": [1, 4]}}}}"#
        )
    };
    let params = r#"{"_type_key": "icraft::xir::Params", "_allow_no_data": false, "v_id": 9, "name": "", "mtype": "@hostm",
        "tags": {}, "dtype": {"_type_key": "icraft::xir::TensorType", "element_dtype": "@uint(8)", "layout": "@layout(*)",
        "merged_distrs": [], "shape": [4]}}"#;
    let op = |key: &str, id: u32, inputs: &str, outputs: &str, more: &str| {
        format!(
            r#"{{"_type_key": "icraft::xir::{key}", "op_id": {id}, "name": "", "compile_target": "@hostt", "tags": {{}},
            "inputs": [{inputs}], "outputs": [{outputs}]{more}}}"#
        )
    };
    let relu = format!(r#", "max_value": "inf", "table": {params}"#);
    format!(
        r#"{{"_type_key": "icraft::xir::Network", "name": "n", "ops": [{}, {}, {}], "params_bytes": 32, "params_md5": "",
        "framework_kind": "ONNX", "framework_version": "1", "icraft_version": "v3.33.1", "icraft_xir_version": "3.33.1.0",
        "tags": {{}}}}"#,
        op("Input", 0, "", &value(0), ""),
        op("ReLU", 1, &value(0), &value(1), &relu),
        op("Output", 2, &value(1), "", ""),
    )
}

fn raw(entries: &[(u32, u64)], data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\xA5ICRAFT_RAW\xA5".to_vec();
    bytes.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    for (v_id, offset) in entries {
        bytes.extend_from_slice(&v_id.to_le_bytes());
        bytes.extend_from_slice(&offset.to_le_bytes());
    }
    bytes.extend_from_slice(data);
    bytes
}

#[test]
fn raw_data_get_to_their_constants() {
    let bytes = raw(&[(9, 28)], &[1, 2, 3, 4]);
    let document = Document::read(small().as_bytes(), Some(bytes.clone().into())).unwrap();
    let constant = document.values.iter().find(|value| value.v_id == 9).unwrap();
    assert_eq!(constant.params.as_ref().unwrap().data, Some(Bytes::from_static(&[1, 2, 3, 4])));
    let (json, written) = document.write().unwrap();
    assert_eq!(written, bytes);
    assert!(json.contains(&md5(&bytes)), "{json}");
    assert!(json.contains("\"params_bytes\": 32"), "{json}");
    assert_eq!(md5(b""), "d41d8cd98f00b204e9800998ecf8427e");
}

#[test]
fn wrong_raw_files_are_named() {
    let good = raw(&[(9, 28)], &[1, 2, 3, 4]);
    let cases: [(Vec<u8>, &str); 8] = [
        (good[..31].to_vec(), "has 31 bytes, params_bytes says 32"),
        ([b"\xA5ICRAFT_ROW\xA5", &good[12..]].concat(), "does not start with"),
        (raw(&[(9, 29)], &[1, 2, 3, 4]), "bytes 28 to 29 are of no constant"),
        (raw(&[(9, 27)], &[1, 2, 3, 4]), "starts at byte 27"),
        (raw(&[(9, u64::MAX)], &[1, 2, 3, 4]), "starts at byte 18446744073709551615"),
        (raw(&[(8, 28)], &[1, 2, 3, 4]), "no data of constant 9"),
        ([&good[..12], &u32::MAX.to_le_bytes(), &good[16..]].concat(), "does not fit"),
        (Vec::new(), "has 0 bytes"),
    ];
    for (bytes, reason) in cases {
        let error = Document::read(small().as_bytes(), Some(bytes.into())).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let two = raw(&[(9, 40), (3, 40)], &[1, 2, 3, 4]);
    let json = small().replace("\"params_bytes\": 32", "\"params_bytes\": 44");
    let error = Document::read(json.as_bytes(), Some(two.into())).unwrap_err().to_string();
    assert!(error.contains("no operation has its constant 3"), "{error}");
    let long = raw(&[(9, 28)], &[1, 2, 3, 4, 5]);
    let json = small().replace("\"params_bytes\": 32", "\"params_bytes\": 33");
    let error = Document::read(json.as_bytes(), Some(long.into())).unwrap_err().to_string();
    assert!(error.contains("constant 9 has 5 bytes, its type has 4"), "{error}");
    let twice = raw(&[(9, 40), (9, 40)], &[1, 2, 3, 4]);
    assert!(raw_table(&twice).unwrap_err().to_string().contains("in the table twice"));
    assert!(raw_table(b"").unwrap().is_empty());
}

#[test]
fn wrong_documents_are_refused_with_operation_operand_and_key() {
    let cases = [
        (
            "\"@layout(NC)\"",
            "\"@layout(NX)\"",
            "operation 0 (icraft::xir::Input), outputs[0], value 0, dtype: 'layout'",
        ),
        (
            "\"v_id\": 9",
            "\"v_id\": \"9\"",
            "operation 1 (icraft::xir::ReLU), table: 'v_id' is not a whole number",
        ),
        ("\"op_id\": 2", "\"op_id\": 1", "two operations have op_id 1"),
        ("icraft::xir::Network", "icraft::xir::Netwok", "holds a icraft::xir::Netwok"),
        ("\"ops\"", "\"opps\"", "'ops' is missing"),
        (
            "\"max_value\": \"inf\"",
            "\"max_value\": 18446744073709551615",
            "max_value: 18446744073709551615 does not fit",
        ),
        ("\"shape\": [1, 4]", "\"shape\": [1, -4]", "'shape' has the extent -4"),
        ("\"_allow_no_data\": false", "\"_allow_no_data\": 3", "'_allow_no_data' is not a bool"),
        (
            "\"3.33.1.0\"",
            "\"4.0.0.0\"",
            "'icraft_xir_version' \"4.0.0.0\" is not known; up to 3.x can be read",
        ),
        ("\"3.33.1.0\"", "\"soon\"", "'icraft_xir_version' \"soon\" is not known"),
        // The network.
        (
            "\"_type_key\": \"icraft::xir::Network\"",
            "\"_type_key\": 1",
            "the file: '_type_key' is not a string",
        ),
        ("\"_type_key\": \"icraft::xir::Network\", ", "", "the file: '_type_key' is missing"),
        ("\"name\": \"n\"", "\"name\": 1", "the file: 'name' is not a string"),
        ("\"name\": \"n\"", "\"ai_target\": \"@moon\"", "the file: 'ai_target'"),
        (
            "\"framework_kind\": \"ONNX\"",
            "\"framework_kind\": 7",
            "the file: 'framework_kind' is not a string",
        ),
        ("\"params_bytes\": 32", "\"params_bytes\": -1", "the file: 'params_bytes' is not a number of bytes"),
        ("\"params_md5\": \"\"", "\"params_md5\": 5", "the file: 'params_md5' is not a string"),
        (
            "\"3.33.1.0\",\n        \"tags\": {}",
            "\"3.33.1.0\", \"tags\": []",
            "the file: 'tags' is not an object",
        ),
        ("\"ops\": [{", "\"ops\": [3, {", "operation at index 0: it is not an object"),
        // Operations.
        ("\"op_id\": 0", "\"op_id\": 0.5", "operation at index 0: 'op_id' is not a whole number"),
        ("\"op_id\": 0, ", "", "operation at index 0: 'op_id' is missing"),
        ("\"icraft::xir::Input\"", "5", "operation at index 0: '_type_key' is not a string"),
        ("\"inputs\": []", "\"input\": []", "operation 0 (icraft::xir::Input): 'inputs' is missing"),
        ("\"inputs\": []", "\"inputs\": {}", "operation 0 (icraft::xir::Input): 'inputs' is not an array"),
        (
            "\"outputs\": []",
            "\"outputs\": [3]",
            "operation 2 (icraft::xir::Output), outputs[0]: it is not an object",
        ),
        ("\"@hostt\"", "\"@nowhere\"", "operation 0 (icraft::xir::Input): 'compile_target'"),
        (
            "\"@hostt\", \"tags\": {}",
            "\"@hostt\", \"tags\": 0",
            "operation 0 (icraft::xir::Input): 'tags' is not an object",
        ),
        // Values and types.
        (
            "\"icraft::xir::Value\"",
            "\"icraft::xir::Volue\"",
            "value 0: '_type_key' is icraft::xir::Volue, not a Value or Params",
        ),
        ("\"v_id\": 0, ", "", "operation 0 (icraft::xir::Input), outputs[0]: 'v_id' is missing"),
        ("\"v_id\": 0, \"name\": \"\"", "\"v_id\": 0, \"name\": 0", "value 0: 'name' is not a string"),
        ("\"@hostm\"", "\"@moon(3)\"", "outputs[0], value 0: 'mtype'"),
        (
            "\"v_id\": 0,",
            "\"v_id\": 0, \"colour\": 1,",
            "outputs[0], value 0: 'colour' is not a key of a value",
        ),
        ("\"dtype\":", "\"dtipe\":", "outputs[0], value 0: 'dtype' is missing"),
        ("\"element_dtype\": \"@fp(32)\"", "\"element_dtype\": \"@fp(31)\"", "dtype, element_dtype: "),
        (
            "\"element_dtype\": \"@fp(32)\"",
            "\"element_dtype\": 3",
            "dtype, element_dtype: it is not an object",
        ),
        (
            "\"element_dtype\": \"@fp(32)\"",
            "\"element_dtype\": {}",
            "dtype, element_dtype: 'storage_dtype' is missing",
        ),
        (
            "\"element_dtype\": \"@fp(32)\"",
            "\"element_dtype\": {\"_type_key\": \"icraft::xir::QuantType\", \"storage_dtype\": \"@sint(8)\", \
             \"expressed_dtype\": \"@fp(32)\"}",
            "element_dtype: '_type_key' is icraft::xir::QuantType, not an element type",
        ),
        (
            "\"element_dtype\": \"@fp(32)\"",
            "\"element_dtype\": {\"_type_key\": \"icraft::xir::QuantizedType\", \"storage_dtype\": \"@sint(8)\", \
             \"expressed_dtype\": \"@fp(32)\", \"scale\": \"@scales([axis=-1]0*1)\"}",
            "element_dtype: 'scale'",
        ),
        (
            "\"element_dtype\": \"@fp(32)\"",
            "\"element_dtype\": {\"_type_key\": \"icraft::xir::QuantizedType\", \"storage_dtype\": \"@sint(8)\", \
             \"expressed_dtype\": \"@fp(32)\", \"scale\": \"@scales([axis=-1]1)\", \"zero_points\": [0.5]}",
            "element_dtype: 'zero_points' is not a list of whole numbers",
        ),
        (
            "\"element_dtype\": \"@fp(32)\"",
            "\"element_dtype\": {\"_type_key\": \"icraft::xir::NormalizedType\", \"storage_dtype\": \"@sint(8)\", \
             \"expressed_dtype\": \"@fp(32)\", \"normratio\": \"x\"}",
            "element_dtype: 'normratio'",
        ),
        (
            "\"element_dtype\": \"@fp(32)\"",
            "\"element_dtype\": {\"_type_key\": \"icraft::xir::CalibratedType\", \"storage_dtype\": \"@sint(8)\", \
             \"expressed_dtype\": \"@fp(32)\", \"min\": [true]}",
            "element_dtype: 'min' is not a list of numbers",
        ),
        ("\"layout\": \"@layout(NC)\"", "\"layout\": 1", "dtype: 'layout' is not a string"),
        (
            "\"merged_distrs\": []",
            "\"merged_distrs\": [1]",
            "dtype: 'merged_distrs' is not a list of strings",
        ),
        ("\"merged_distrs\": []", "\"merged_distrs\": [\"x\"]", "dtype: 'merged_distrs'"),
        ("\"shape\": [1, 4]", "\"shape\": [1, 4.5]", "dtype: 'shape' is not a list of whole numbers"),
        ("\"shape\": [1, 4]", "\"shape\": 4", "dtype: 'shape' is not an array"),
    ];
    for (from, to, reason) in cases {
        let json = small();
        assert!(json.contains(from), "{from}");
        let error = Document::read(json.replacen(from, to, 1).as_bytes(), None).unwrap_err().to_string();
        assert!(error.contains(reason), "'{reason}': {error}");
    }
    let other = small().replacen("\"v_id\": 0, \"name\": \"\"", "\"v_id\": 0, \"name\": \"x\"", 1);
    let error = Document::read(other.as_bytes(), None).unwrap_err().to_string();
    assert!(error.contains("value 0 was described before with another name"), "{error}");
    let error = Document::read(b"{\"a\": ", None).unwrap_err().to_string();
    assert!(error.contains("line 1 column"), "{error}");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(Document::read(deep.as_bytes(), None).unwrap_err().to_string().contains("recursion limit"));
}

#[test]
fn a_document_without_a_version_is_written_without_one() {
    let json = small().replacen(", \"icraft_xir_version\": \"3.33.1.0\"", "", 1);
    let document = Document::read(json.as_bytes(), None).expect("read");
    assert_eq!(document.icraft_xir_version, "");
    let text = document.write_json();
    assert!(!text.contains("icraft_xir_version"));
    assert_eq!(Document::read(text.as_bytes(), None).expect("its own text").write_json(), text);
}

#[test]
fn the_vendors_file_reads_and_writes_equal_values() {
    let Some(path) = test_data("models/xir/yolov5s_plin_BY.json") else { return };
    let bytes = std::fs::read(path).expect("a readable file");
    let document = Document::read(&bytes, None).expect("the vendor's file");
    assert_eq!((document.ops.len(), document.ai_target), (89, Some(Target::Buyi)));
    let written: serde_json::Value = serde_json::from_str(&document.write_json()).unwrap();
    let original: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert!(written == original, "the written file says something else");
    // The sizes of all constants and the table are the size of the vendor's RAW file.
    let constants: Vec<_> = document.values.iter().filter(|value| value.params.is_some()).collect();
    let data: u64 = constants.iter().map(|value| value.dtype.storage_bytes().unwrap()).sum();
    assert_eq!(16 + 12 * constants.len() as u64 + data, document.params_bytes);
}
