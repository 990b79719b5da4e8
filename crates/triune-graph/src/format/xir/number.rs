//! Floating-point numbers as text.

/// The shortest decimal that reads back as `value`: `1`, `0.21537238`, `6.1035156e-05`.
///
/// An exponent stands when the first digit is right of the fourth decimal place or left of the sixteenth place before the
/// point, as files of the vendor's tools have it.
pub(super) fn shortest(value: f32) -> String {
    let plain = value.abs();
    if value.is_nan() {
        return "nan".to_owned();
    }
    if !value.is_finite() || plain == 0.0 {
        return value.to_string();
    }
    let text = even(value);
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    if (1e-4..1e16).contains(&plain) {
        return positional(digits, exponent.parse().unwrap_or(0));
    }
    let (sign, places) = match exponent.strip_prefix('-') {
        Some(places) => ('-', places),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{places:0>2}")
}

/// The shortest digits with an exponent. When two decimals are as near, the one with the even last digit, where the standard
/// library takes the larger one.
fn even(value: f32) -> String {
    let text = format!("{value:e}");
    let places =
        text.split('e').next().map_or(0, |digits| digits.trim_start_matches('-').len().saturating_sub(2));
    let rounded = format!("{value:.places$e}");
    if rounded.parse() == Ok(value) { rounded } else { text }
}

/// `digits` (`-1.25`) times 10^`exponent` without an exponent.
fn positional(digits: &str, exponent: i32) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits),
    };
    let digits: String = digits.chars().filter(|&c| c != '.').collect();
    let point = exponent + 1;
    let count = digits.len() as i32;
    if point <= 0 {
        format!("{sign}0.{}{digits}", "0".repeat(-point as usize))
    } else if point >= count {
        format!("{sign}{digits}{}", "0".repeat((point - count) as usize))
    } else {
        let (whole, rest) = digits.split_at(point as usize);
        format!("{sign}{whole}.{rest}")
    }
}

#[cfg(test)]
mod tests {
    use super::shortest;

    #[test]
    fn numbers_are_written_as_the_vendor_writes_them() {
        let cases: [(f32, &str); 16] = [
            (128.0 / 524_288.0, "0.00024414062"),
            (144.0 / 32_768.0, "0.0043945312"),
            (123_456_792.0, "123456790"),
            (-10.25, "-10.25"),
            (1.0, "1"),
            (0.0, "0"),
            (-128.0, "-128"),
            (0.215_372_38, "0.21537238"),
            (128.0 / 2_097_152.0, "6.1035156e-05"),
            (185.0 / 262_144.0, "0.000705719"),
            (1e-4, "0.0001"),
            (f32::INFINITY, "inf"),
            (f32::NEG_INFINITY, "-inf"),
            (f32::NAN, "nan"),
            (1e16, "1e+16"),
            (-1.5e-30, "-1.5e-30"),
        ];
        for (value, text) in cases {
            assert_eq!(shortest(value), text);
        }
    }

    #[test]
    fn every_number_reads_back() {
        let step = if cfg!(debug_assertions) { 65_521 } else { 251 };
        for bits in (0..=u32::MAX).step_by(step) {
            let value = f32::from_bits(bits);
            let read: f32 = shortest(value).parse().expect("a number");
            assert!(read.to_bits() == bits || value.is_nan(), "{value:e}");
        }
    }
}
