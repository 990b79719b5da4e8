//! Errors over the wire: those whose fields a program looks at keep them, the others have their class and their text.

use triune_device::{Error, ErrorClass};

use super::{Fields, FrameError, Kind, fields::Put};

/// An error's bytes.
pub fn encode_error(error: &Error) -> Vec<u8> {
    let mut out = Vec::new();
    match error {
        Error::OutOfMemory { region, length, alignment, live, size } => {
            out.put_u8(1);
            out.put_text(region);
            out.put_u64s(&[*length, *alignment, *live, *size]);
        }
        Error::OutOfRegion { region, start, length, size } => {
            out.put_u8(2);
            out.put_text(region);
            out.put_u64s(&[*start, *length, *size]);
        }
        Error::NotAllocated { region, start } => {
            out.put_u8(3);
            out.put_text(region);
            out.put_u64(*start);
        }
        Error::Segment { segment, problem } => {
            out.put_u8(4);
            out.put_u64(*segment as u64);
            out.put_text(problem);
        }
        Error::UnknownMemory { device, name, known } => {
            out.put_u8(5);
            for text in [device, name, known] {
                out.put_text(text);
            }
        }
        Error::Overlap(text) => {
            out.put_u8(6);
            out.put_text(text);
        }
        Error::Timing(text) => {
            out.put_u8(7);
            out.put_text(text);
        }
        Error::Stale => out.put_u8(8),
        Error::Link(text) => {
            out.put_u8(9);
            out.put_text(text);
        }
        Error::InUse(text) => {
            out.put_u8(10);
            out.put_text(text);
        }
        Error::Cancelled => out.put_u8(11),
        Error::Board(_) => {
            out.put_u8(0);
            out.put_text(&error.to_string());
        }
        other => {
            out.put_u8(12);
            out.put_u8(other.class() as u8);
            out.put_u8(u8::from(other.operand().is_some()));
            if let Some(operand) = other.operand() {
                out.put_text(operand);
            }
            out.put_u8(u8::from(other.layer().is_some()));
            if let Some(layer) = other.layer() {
                out.put_u64(layer as u64);
            }
            out.put_text(&other.to_string());
        }
    }
    out
}

/// Reads what [`encode_error`] wrote.
///
/// # Errors
/// [`FrameError::Payload`].
pub fn decode_error(payload: &[u8]) -> Result<Error, FrameError> {
    let mut fields = Fields::new(Kind::Failed, payload);
    let error = match fields.u8()? {
        0 => Error::Board(fields.text()?),
        1 => Error::OutOfMemory {
            region: fields.text()?,
            length: fields.u64()?,
            alignment: fields.u64()?,
            live: fields.u64()?,
            size: fields.u64()?,
        },
        2 => Error::OutOfRegion {
            region: fields.text()?,
            start: fields.u64()?,
            length: fields.u64()?,
            size: fields.u64()?,
        },
        3 => Error::NotAllocated { region: fields.text()?, start: fields.u64()? },
        4 => Error::Segment {
            segment: usize::try_from(fields.u64()?).map_err(|_| fields.fail("no index of a segment"))?,
            problem: fields.text()?,
        },
        5 => Error::UnknownMemory { device: fields.text()?, name: fields.text()?, known: fields.text()? },
        6 => Error::Overlap(fields.text()?),
        7 => Error::Timing(fields.text()?),
        8 => Error::Stale,
        9 => Error::Link(fields.text()?),
        10 => Error::InUse(fields.text()?),
        11 => Error::Cancelled,
        12 => {
            let class = usize::from(fields.u8()?);
            let class = ErrorClass::ALL.get(class).copied();
            let class = class.ok_or_else(|| fields.fail("the error's class is unknown"))?;
            let operand = if fields.flag()? { Some(fields.text()?) } else { None };
            let layer = if fields.flag()? { Some(fields.u64()? as usize) } else { None };
            Error::Far { class, operand, layer, text: fields.text()? }
        }
        other => return Err(fields.fail(format!("the error {other} is unknown"))),
    };
    fields.end()?;
    Ok(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_back() {
        let errors = [
            Error::OutOfMemory { region: "ddr".into(), length: 1, alignment: 2, live: 3, size: 4 },
            Error::OutOfRegion { region: "ocm".into(), start: 1, length: 2, size: 3 },
            Error::NotAllocated { region: "ddr".into(), start: 64 },
            Error::Segment { segment: 3, problem: "no".into() },
            Error::UnknownMemory { device: "a".into(), name: "b".into(), known: "c".into() },
            Error::Overlap("a".into()),
            Error::Timing("b".into()),
            Error::Stale,
            Error::Link("c".into()),
            Error::InUse("d".into()),
            Error::Cancelled,
            Error::Board("ü".into()),
        ];
        for error in errors {
            let bytes = encode_error(&error);
            assert_eq!(decode_error(&bytes).unwrap(), error);
            for length in 0..bytes.len() {
                assert!(decode_error(&bytes[..length]).is_err());
            }
        }
    }

    /// What becomes of the others keeps what they mean: its class, its operand and its text, over any number of servers.
    #[test]
    fn classes_come_back() {
        for (number, class) in ErrorClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, number);
        }
        let work = Error::TooMuchWork { index: 1, mnemonic: "reduce", work: 2, total: 3, limit: 1 };
        let text = "layer 3: indices: index 7 is outside of axis 0 of extent 3".to_owned();
        let (operand, layer) = (Some("indices".to_owned()), Some(3));
        for (error, class) in [
            (work.clone(), ErrorClass::Unsupported),
            (Error::Layer { layer: 3, source: Box::new(work) }, ErrorClass::Unsupported),
            (Error::Scratch { need: 1, got: 2 }, ErrorClass::Internal),
            (Error::ProgramTooLarge { bytes: 2, limit: 1 }, ErrorClass::Argument),
            (Error::Far { class: ErrorClass::Argument, operand, layer, text }, ErrorClass::Argument),
        ] {
            let bytes = encode_error(&error);
            let far = decode_error(&bytes).unwrap();
            assert_eq!((far.class(), error.class()), (class, class), "{error:?}");
            assert_eq!(far.to_string(), error.to_string());
            assert_eq!((far.operand(), far.layer()), (error.operand(), error.layer()));
            assert_eq!(decode_error(&encode_error(&far)).unwrap(), far);
            for length in 0..bytes.len() {
                assert!(decode_error(&bytes[..length]).is_err());
            }
        }
        assert!(decode_error(&[12, ErrorClass::ALL.len() as u8, 0, 0, 0, 0, 0, 0]).is_err());
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let Error::Board(text) = decode_error(&encode_error(&Error::Board("ü€".repeat(9999)))).unwrap()
        else {
            panic!("another error")
        };
        // What a message shows of a long text has both of its ends.
        assert!(text.len() > 200 && text.len() <= 2048, "{} bytes", text.len());
        assert!(text.starts_with("ü€ü") && text.ends_with("€ü€"), "{text}");
    }
}
