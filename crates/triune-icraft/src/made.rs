//! Which bytes a row of operators makes: what a device's sanitizer has to forget before they run, so that nothing of an earlier
//! run passes for theirs.

use std::collections::HashSet;

use super::{
    hardops::rows,
    load::{HardNetwork, Step},
};
use crate::Error;

/// Bytes without a gap: the segment, the first of them, and how many.
pub(super) type Span = (u16, u64, u64);

/// The bytes that steps make, less those that they read what was there before from; `at` says where a value begins.
pub(super) fn made<'a>(
    network: &HardNetwork,
    steps: impl Iterator<Item = &'a Step>,
    at: impl Fn(i64) -> Option<(u16, u64)>,
) -> Result<Vec<Span>, Error> {
    let (mut own, mut read) = (HashSet::new(), HashSet::new());
    for step in steps {
        read.extend(step.inputs.iter().filter(|v_id| !own.contains(*v_id)).copied());
        own.extend(step.outputs.iter().copied());
    }
    let spans = |values: &HashSet<i64>| -> Result<Vec<Span>, Error> {
        let mut all = Vec::new();
        for v_id in values {
            let Some((place, (segment, first))) = network.values.get(v_id).zip(at(*v_id)) else { continue };
            rows(place, &mut |offset, bytes| {
                all.push((segment, first + (offset - place.offset), bytes as u64));
                Ok(())
            })?;
        }
        Ok(joined(all))
    };
    Ok(without(&spans(&own)?, &spans(&read)?))
}

/// The same bytes in ascending order, in as few spans as can be.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut all: Vec<Span> = Vec::new();
    for (segment, first, bytes) in spans {
        match all.last_mut() {
            Some(last) if last.0 == segment && first <= last.1 + last.2 => {
                last.2 = last.2.max(first + bytes - last.1);
            }
            _ => all.push((segment, first, bytes)),
        }
    }
    all
}

/// The bytes of some joined spans that are not among those of others.
fn without(spans: &[Span], others: &[Span]) -> Vec<Span> {
    let mut left = Vec::new();
    for &(segment, first, bytes) in spans {
        let (mut at, end) = (first, first + bytes);
        let from = others.partition_point(|other| (other.0, other.1 + other.2) <= (segment, first));
        for other in others[from..].iter().take_while(|other| other.0 == segment && other.1 < end) {
            if at < other.1 {
                left.push((segment, at, other.1 - at));
            }
            at = at.max(other.1 + other.2);
        }
        if at < end {
            left.push((segment, at, end - at));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Byte by byte.
    fn bytes(spans: &[Span]) -> HashSet<(u16, u64)> {
        spans
            .iter()
            .flat_map(|&(segment, first, bytes)| (first..first + bytes).map(move |at| (segment, at)))
            .collect()
    }

    proptest! {
        #[test]
        fn spans_are_sets_of_bytes(
            a in prop::collection::vec((0_u16..3, 0_u64..40, 1_u64..9), 0..9),
            b in prop::collection::vec((0_u16..3, 0_u64..40, 1_u64..9), 0..9),
        ) {
            let (x, y) = (joined(a.clone()), joined(b.clone()));
            prop_assert_eq!(bytes(&x), bytes(&a));
            prop_assert!(x.windows(2).all(|pair| (pair[0].0, pair[0].1 + pair[0].2) < (pair[1].0, pair[1].1)), "{x:?}");
            let left = without(&x, &y);
            prop_assert_eq!(bytes(&left), bytes(&a).difference(&bytes(&b)).copied().collect::<HashSet<_>>());
            prop_assert_eq!(left.iter().map(|span| span.2 as usize).sum::<usize>(), bytes(&left).len());
        }
    }
}
