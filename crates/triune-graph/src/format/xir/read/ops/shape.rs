//! The same elements under other axes.

use super::super::{Meaning, View, meaning, node::Reader};
use crate::{
    Error, ValueId,
    format::xir::{Attribute, ElementType},
};
use triune_tensor::text::List;

impl Reader<'_, '_> {
    /// How the open axes of value `to` lie in the open view of value `from`, when its flat axis i is `perm[i]` of it.
    pub(in super::super) fn open_perm(
        &self,
        from: usize,
        to: usize,
        perm: &[usize],
    ) -> Result<Vec<usize>, Error> {
        let (from, to) = (self.typed(from)?.form, self.typed(to)?.form);
        Ok(to.open.iter().map(|&flat| from.open_axis(perm[flat])).collect())
    }

    /// Makes value `to` of what was computed of value `from` element by element, in the open view of `from`.
    pub(in super::super) fn define_like(
        &mut self,
        to: usize,
        from: usize,
        open: ValueId,
    ) -> Result<(), Error> {
        let perm = self.same_axes(from, to)?;
        let perm = self.open_perm(from, to, &perm)?;
        let open = self.transpose(open, &perm)?;
        self.define(to, View::Open, open)
    }

    /// The flat axes of value `from` in the order of those of value `to`.
    fn same_axes(&self, from: usize, to: usize) -> Result<Vec<usize>, Error> {
        let (from, to) = (self.typed(from)?.form, self.typed(to)?.form);
        from.towards(&to).ok_or_else(|| {
            let axes = [from.flat.len(), to.flat.len()];
            self.wrong(format!("an operand of {} axes and a result of {}", axes[0], axes[1]))
        })
    }
}

/// The same reals in another layout, with other padding or another type.
pub(in super::super) fn carry(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let open = node.in_floats(x, View::Open)?;
    node.define_like(y, x, open)
}

/// Another element type, perhaps in another layout. Reals lose their fraction where they become plain integers.
pub(in super::super) fn cast(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let declared = &node.builder.document.values[y].dtype.element;
    let target = match node.attribute("target_dtype") {
        None => None,
        Some(Attribute::Type(target)) => Some(target.element.clone()),
        Some(Attribute::Element(target)) => Some((**target).clone()),
        Some(Attribute::Text(text)) => {
            let scalar = text
                .parse()
                .map_err(|error| node.unsupported(format!("attribute 'target_dtype': {error}")))?;
            Some(ElementType::Scalar(scalar))
        }
        Some(_) => return Err(node.unsupported("attribute 'target_dtype' is not a type")),
    };
    if let Some(target) = target
        && meaning::dtype(target.storage()) != meaning::dtype(declared.storage())
    {
        let (target, declared) = (target.storage(), declared.storage());
        return Err(
            node.wrong(format!("attribute 'target_dtype' is {target}, its result is declared {declared}"))
        );
    }
    let typed = node.typed(y)?;
    let mut open = node.in_floats(x, View::Open)?;
    if typed.meaning == Meaning::Plain {
        open = node.cast(open, typed.dtype)?;
    }
    node.define_like(y, x, open)
}

/// Other extents for the same elements in stored order.
pub(in super::super) fn reshape(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let (from, to) = (node.typed(x)?.form, node.typed(y)?.form);
    // Nothing but blocks counted apart or together.
    let same = from.flat.len() == to.flat.len()
        && from.is_joined()
        && to.is_joined()
        && from.flat.iter().zip(&to.flat).all(|(from, to)| from.total == to.total && from.valid == to.valid);
    if same {
        let perm: Vec<usize> = (0..from.flat.len()).collect();
        let perm = node.open_perm(x, y, &perm)?;
        let open = node.in_floats(x, View::Open)?;
        let open = node.transpose(open, &perm)?;
        return node.define(y, View::Open, open);
    }
    let stored = node.in_floats(x, View::Stored)?;
    let stored = node.reshape(stored, &to.stored)?;
    node.define(y, View::Stored, stored)
}

/// Extents of 1 gone.
pub(in super::super) fn squeeze(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let to = node.typed(y)?.form;
    let stored = node.in_floats(x, View::Stored)?;
    let stored = node.reshape(stored, &to.stored)?;
    node.define(y, View::Stored, stored)
}

/// Stored axes permuted: axis i of the result is axis `dims[i]` of the operand.
pub(in super::super) fn transpose(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let (from, to) = (node.typed(x)?.form, node.typed(y)?.form);
    let rank = from.stored.len();
    let requested = node.needed_ints("dims")?;
    let dims: Option<Vec<usize>> = requested
        .iter()
        .map(|&axis| usize::try_from(if axis < 0 { axis.checked_add(rank as i64)? } else { axis }).ok())
        .collect();
    let mut sorted = dims.clone().unwrap_or_default();
    sorted.sort_unstable();
    let dims = dims.filter(|_| sorted == (0..rank).collect::<Vec<_>>() && to.stored.len() == rank);
    let dims = dims.ok_or_else(|| {
        node.wrong(format!("attribute 'dims' {} does not permute {rank} axes", List(&requested)))
    })?;
    // Whole axes, blocks and padding with them.
    let perm: Option<Vec<usize>> = to
        .flat
        .iter()
        .map(|axis| {
            let lower = axis.lower.map(|lower| dims[lower]);
            from.flat.iter().position(|own| {
                own.upper == dims[axis.upper] && own.lower == lower && own.valid == axis.valid
            })
        })
        .collect();
    if let Some(perm) = perm.filter(|perm| perm.len() == from.flat.len()) {
        let perm = node.open_perm(x, y, &perm)?;
        let open = node.in_floats(x, View::Open)?;
        let open = node.transpose(open, &perm)?;
        return node.define(y, View::Open, open);
    }
    let stored = node.in_floats(x, View::Stored)?;
    let stored = node.transpose(stored, &dims)?;
    node.define(y, View::Stored, stored)
}
