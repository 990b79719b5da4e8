//! How a value's stored axes relate to the axes that operators are about.
//!
//! Three views of one tensor: *stored* as the document has it, blocks and padding included; *flat* with split axes joined and
//! padding gone, in the order of the layout's upper-case axes; *open* like flat, but with channels behind the first axis, which
//! is the graph's own order of images.

use super::super::{Layout, MergedDistr, TensorType};
use triune_tensor::text::List;

/// Extents as messages show them, `?` where one is open.
pub(super) fn shown(extents: &[Option<usize>]) -> Vec<String> {
    extents.iter().map(|extent| extent.map_or_else(|| "?".to_owned(), |extent| extent.to_string())).collect()
}

/// One axis of the flat view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlatAxis {
    /// The layout's upper-case name, or `*`.
    pub(super) name: char,
    /// The stored axis with that name.
    pub(super) upper: usize,
    /// The stored axis that counts inside of a block, when the axis is split.
    pub(super) lower: Option<usize>,
    /// Elements with padding; `None` when the network decides.
    pub(super) total: Option<usize>,
    /// The elements that are not padding, as ranges in order; all when there is no padding.
    pub(super) valid: Vec<(usize, usize)>,
}

impl FlatAxis {
    /// Elements without padding; `None` when the network decides.
    pub(super) fn extent(&self) -> Option<usize> {
        if self.valid.is_empty() {
            self.total
        } else {
            Some(self.valid.iter().map(|(start, end)| end - start).sum())
        }
    }

    /// The positions of the valid elements among all.
    pub(super) fn positions(&self) -> Option<Vec<usize>> {
        match self.total {
            _ if !self.valid.is_empty() => {
                Some(self.valid.iter().flat_map(|&(start, end)| start..end).collect())
            }
            Some(total) => Some((0..total).collect()),
            None => None,
        }
    }
}

/// The axes of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// Stored extents; `None` for one that the network decides about.
    pub(super) stored: Vec<Option<usize>>,
    /// The flat view's axes.
    pub(super) flat: Vec<FlatAxis>,
    /// For every axis of the open view, which one it is of the flat view.
    pub(super) open: Vec<usize>,
}

impl Form {
    /// The axes of a type; the error says what does not fit together.
    pub(super) fn of(dtype: &TensorType) -> Result<Self, String> {
        let TensorType { shape, layout, merged, .. } = dtype;
        let rank = shape.len();
        if layout.axes.len() != rank {
            return Err(format!("layout {layout} does not name the axes of shape {}", List(shape)));
        }
        let stored: Vec<Option<usize>> = shape.iter().map(|&extent| usize::try_from(extent).ok()).collect();
        let mut flat: Vec<FlatAxis> = Vec::new();
        for (position, axis) in layout.axes.iter().enumerate().filter(|(_, axis)| axis.unit == 0) {
            let mut own = FlatAxis {
                name: axis.name,
                upper: position,
                lower: None,
                total: stored[position],
                valid: Vec::new(),
            };
            if let Some((position, unit)) = split(layout, axis.name)? {
                if stored[position] != usize::try_from(unit).ok() {
                    return Err(format!(
                        "layout {layout} has blocks of {unit}, shape {} has not",
                        List(shape)
                    ));
                }
                own.lower = Some(position);
                own.total = match (own.total, stored[position]) {
                    (Some(blocks), Some(unit)) => Some(
                        blocks
                            .checked_mul(unit)
                            .ok_or_else(|| format!("shape {} is out of range", List(shape)))?,
                    ),
                    _ => return Err(format!("the blocks of {layout} have no fixed number")),
                };
            }
            flat.push(own);
        }
        if let Some(lost) = layout
            .axes
            .iter()
            .find(|axis| axis.unit > 0 && !flat.iter().any(|own| own.name == axis.name.to_ascii_uppercase()))
        {
            return Err(format!("layout {layout} has blocks {} of no axis", lost.name));
        }
        for distribution in merged {
            apply(distribution, &mut flat, rank)?;
        }
        let channels: Vec<usize> = (0..flat.len()).filter(|&axis| flat[axis].name == 'C').collect();
        let mut open: Vec<usize> = (0..flat.len()).collect();
        if let (&[channels], true) = (channels.as_slice(), flat.len() > 2)
            && channels > 1
        {
            open.remove(channels);
            open.insert(1, channels);
        }
        Ok(Self { stored, flat, open })
    }

    /// Whether the stored view is the flat one.
    pub(super) fn is_plain(&self) -> bool {
        self.flat.iter().all(|axis| axis.lower.is_none() && axis.valid.is_empty())
    }

    /// The extents of the flat view.
    pub(super) fn flat_extents(&self) -> Vec<Option<usize>> {
        self.flat.iter().map(FlatAxis::extent).collect()
    }

    /// The extents of the open view.
    pub(super) fn open_extents(&self) -> Vec<Option<usize>> {
        self.open.iter().map(|&axis| self.flat[axis].extent()).collect()
    }

    /// The flat axis of a stored one, which is counted from the back when negative; `None` for the inner part of a split axis.
    pub(super) fn flat_axis(&self, stored: i64) -> Option<usize> {
        let rank = self.stored.len() as i64;
        let stored = if stored < 0 { stored.checked_add(rank)? } else { stored };
        let stored = usize::try_from(stored).ok()?;
        self.flat.iter().position(|axis| axis.upper == stored)
    }

    /// The open axis of a flat one.
    pub(super) fn open_axis(&self, flat: usize) -> usize {
        self.open.iter().position(|&axis| axis == flat).unwrap_or(flat)
    }

    /// The flat axis that is alone in being called `name`.
    pub(super) fn named(&self, name: char) -> Option<usize> {
        let mut found = (0..self.flat.len()).filter(|&axis| self.flat[axis].name == name);
        found.next().filter(|_| found.next().is_none())
    }

    /// For each flat axis of `to`, the one of `self` that it is: by their names when these tell, else in order. `None` when the
    /// numbers of axes differ.
    pub(super) fn towards(&self, to: &Self) -> Option<Vec<usize>> {
        if self.flat.len() != to.flat.len() {
            return None;
        }
        let by_name: Option<Vec<usize>> = to
            .flat
            .iter()
            .map(|axis| self.named(axis.name).filter(|_| axis.name != '*' && to.named(axis.name).is_some()))
            .collect();
        Some(by_name.unwrap_or_else(|| (0..to.flat.len()).collect()))
    }

    /// Whether every split axis has its inner part right behind it, so that joining it moves nothing.
    pub(super) fn is_joined(&self) -> bool {
        self.flat.iter().all(|axis| axis.lower.is_none_or(|lower| lower == axis.upper + 1))
    }
}

/// Where the inner part of the axis `name` lies, and its length.
fn split(layout: &Layout, name: char) -> Result<Option<(usize, u64)>, String> {
    let is_inner = |axis: &super::super::Axis| axis.unit > 0 && axis.name == name.to_ascii_lowercase();
    let mut inner = layout.axes.iter().enumerate().filter(|(_, axis)| is_inner(axis));
    let Some((position, axis)) = inner.next() else { return Ok(None) };
    let outer = layout.axes.iter().filter(|axis| axis.unit == 0 && axis.name == name).count();
    if inner.next().is_some() || outer > 1 {
        return Err(format!("layout {layout} splits {name} more than once"));
    }
    Ok(Some((position, axis.unit)))
}

fn apply(distribution: &MergedDistr, flat: &mut [FlatAxis], rank: usize) -> Result<(), String> {
    if distribution.sections.iter().all(|section| section.valid) {
        return Ok(());
    }
    let axes: Option<Vec<usize>> = distribution
        .axes
        .iter()
        .map(|&axis| usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok())
        .collect();
    let own = axes.as_deref().and_then(|axes| {
        flat.iter_mut().find(|own| match own.lower {
            Some(lower) => axes == [own.upper, lower],
            None => axes == [own.upper],
        })
    });
    let Some(own) = own else {
        return Err(format!("{distribution} is about axes that do not belong together"));
    };
    let end = distribution.sections.last().map_or(0, |section| section.end);
    if own.total.map(|total| total as u64) != Some(end) {
        return Err(format!("{distribution} does not cover its axes"));
    }
    own.valid = distribution
        .sections
        .iter()
        .filter(|section| section.valid)
        .map(|section| (section.start as usize, section.end as usize))
        .collect();
    if own.valid.is_empty() {
        return Err(format!("{distribution} has nothing valid"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::xir::{ElementType, Scalar};

    fn form(layout: &str, shape: &[i64], merged: &[&str]) -> Result<Form, String> {
        Form::of(&TensorType {
            element: ElementType::Scalar(Scalar::Signed(8)),
            shape: shape.to_vec(),
            layout: layout.parse().unwrap(),
            merged: merged.iter().map(|text| text.parse().unwrap()).collect(),
        })
    }

    #[test]
    fn channels_open_behind_the_first_axis() {
        let image = form("NHWC", &[1, 4, 5, 3], &[]).unwrap();
        assert_eq!(image.open, [0, 3, 1, 2]);
        let merged = ["@merged_distr([1, 4]^ZERO:{v:[0, 20), u:[20, 64)})"];
        let blocked = form("NCHWc32", &[1, 2, 4, 5, 32], &merged).unwrap();
        assert_eq!(blocked.open, [0, 1, 2, 3]);
        assert_eq!(blocked.flat_extents(), [Some(1), Some(20), Some(4), Some(5)]);
        assert_eq!((blocked.is_plain(), blocked.is_joined()), (false, false));
        assert_eq!(
            form("*C**c3", &[1, 1, 4, 5, 3], &[]).unwrap().open_extents(),
            [Some(1), Some(3), Some(4), Some(5)]
        );
        assert_eq!(form("NC", &[2, 7], &[]).unwrap().open, [0, 1]);
        assert_eq!(form("N**", &[-1, 7, 2], &[]).unwrap().flat_extents(), [None, Some(7), Some(2)]);
        // By name where names tell, else in order.
        assert_eq!(image.towards(&blocked), Some(vec![0, 3, 1, 2]));
        assert_eq!(image.towards(&form("***C", &[1, 4, 5, 3], &[]).unwrap()), Some(vec![0, 1, 2, 3]));
        assert_eq!(blocked.flat_axis(-1), None);
        assert_eq!(blocked.flat_axis(1), Some(1));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let cases: [(&str, &[i64], &[&str], &str); 6] = [
            ("NHWC", &[1, 2], &[], "does not name the axes"),
            ("NCc4", &[1, 2, 8], &[], "has blocks of 4"),
            ("Nc4", &[1, 4], &[], "blocks c of no axis"),
            ("NCc4c4", &[1, 2, 4, 4], &[], "splits C more than once"),
            ("NC", &[1, 8], &["@merged_distr([1]:{v:[0, 4), u:[4, 9)})"], "does not cover"),
            ("NC", &[1, 8], &["@merged_distr([0, 1]:{v:[0, 4), u:[4, 8)})"], "do not belong together"),
        ];
        for (layout, shape, merged, reason) in cases {
            let error = form(layout, shape, merged).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
