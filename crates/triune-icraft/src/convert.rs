//! Values in the form that an operator wants: types, orders of axes, blocks of channels.

use std::collections::BTreeMap;

use triune_graph::{
    ValueId,
    format::xir::{Attribute, ElementType, Scalar, TensorType},
};
use triune_tensor::{Shape, text::List};

use super::{
    emit::{Emitter, Stored, ints},
    form::{Form, padded, stored, tensor},
    source::Meaning,
};
use crate::Error;

impl Emitter<'_> {
    /// The value in a form and with a meaning; converted on the way if it is not there yet.
    pub(crate) fn operand(
        &mut self,
        id: ValueId,
        form: &Form,
        meaning: Option<Meaning>,
    ) -> Result<usize, Error> {
        if let Some(constant) = self.constant(id) {
            return self.place_constant(id, constant, form);
        }
        let stored = self.values.get(&id).cloned().unwrap_or_default();
        if let Some(found) = stored.iter().find(|each| each.form == *form && each.meaning == meaning) {
            return Ok(found.index);
        }
        let first = stored.into_iter().next().ok_or_else(|| {
            let name = &self.source.graph.value(id).name;
            Error::internal(format!("'{name}' is read before anything makes it"))
        })?;
        let dims = self.dims(id)?;
        let target = self.target;
        if first.form.block.is_none() {
            // What the host made, the host lays out for the accelerator.
            self.target = self.makers.get(&id).copied().unwrap_or_default();
        }
        let at = self.converted(id, dims, first, form, meaning);
        self.target = target;
        Ok(at?.index)
    }

    fn converted(
        &mut self,
        id: ValueId,
        dims: Shape,
        mut at: Stored,
        form: &Form,
        meaning: Option<Meaning>,
    ) -> Result<Stored, Error> {
        if at.form != *form && at.form.block.is_some() {
            at = self.unblock(id, dims, &at)?;
        }
        if at.meaning != meaning {
            at = self.cast(id, dims, &at, meaning)?;
        }
        if at.form.order != form.order {
            at = self.transpose(id, dims, &at, &form.order)?;
        }
        if at.form != *form {
            at = self.block(id, dims, &at, form)?;
        }
        Ok(at)
    }

    /// Keeps a converted form for the next who wants it.
    fn keep(&mut self, id: ValueId, stored: Stored) -> Stored {
        let all = self.values.entry(id).or_default();
        if !all.iter().any(|each| each.form == stored.form && each.meaning == stored.meaning) {
            all.push(stored.clone());
        }
        stored
    }

    fn key(&self, id: ValueId, what: &str) -> String {
        format!("{}:{what}", self.source.graph.value(id).name)
    }

    fn element_like(&self, id: ValueId, at: &Stored, channels: usize) -> Result<ElementType, Error> {
        match (self.dialect.style, at.meaning) {
            (Some(style), Some(meaning)) => Ok(style.activation(meaning, channels)),
            _ => self.element(id, None, &at.form),
        }
    }

    /// The value with another meaning, in the same form.
    pub(super) fn cast(
        &mut self,
        id: ValueId,
        dims: Shape,
        at: &Stored,
        meaning: Option<Meaning>,
    ) -> Result<Stored, Error> {
        let to = Stored { meaning, ..at.clone() };
        let element = match meaning {
            Some(_) => self.element_like(id, &to, at.form.channels(&dims))?,
            None => ElementType::Scalar(Scalar::Float(32)),
        };
        let key = self.key(id, if meaning.is_some() { "quantized" } else { "real" });
        let dtype = stored(element, dims, &at.form);
        let attributes = vec![("target_dtype", Attribute::Type(Box::new(dtype.clone())))];
        let index = self.value(&key, dtype, None);
        self.push("Cast", &key, vec![Some(at.index)], vec![index], attributes);
        Ok(self.keep(id, Stored { index, ..to }))
    }

    fn transpose(&mut self, id: ValueId, dims: Shape, at: &Stored, order: &[usize]) -> Result<Stored, Error> {
        let form = Form { order: order.to_vec(), block: None };
        let perm: Vec<usize> = order.iter().map(|&axis| at.form.position(axis)).collect();
        let to = Stored { form, ..at.clone() };
        let element = self.element_like(id, &to, to.form.channels(&dims))?;
        let key = self.key(id, &List(order).to_string());
        let dtype = stored(element, dims, &to.form);
        let index = self.move_axes(&key, at.index, &perm, dtype);
        Ok(self.keep(id, Stored { index, ..to }))
    }

    /// Fills up channels to whole blocks, splits them, and puts the rows and columns of an image between.
    fn block(&mut self, id: ValueId, dims: Shape, at: &Stored, form: &Form) -> Result<Stored, Error> {
        let (Some(block), Some(&axis)) = (form.block, at.form.order.last()) else {
            return Err(Error::target(format!(
                "a scalar has no channels: '{}'",
                self.source.graph.value(id).name
            )));
        };
        let key = |part: &str| format!("{}:c{block}{part}", self.source.graph.value(id).name);
        let (aligned, split, whole) = (key(":aligned"), key(":split"), key(""));
        let all = form.channels(&dims);
        let element = self.element_like(id, at, all)?;
        let mut extents = at.form.stored(&dims);
        let last = extents.len() - 1;
        extents[last] = all;
        let mut dtype = tensor(element.clone(), &extents, at.form.layout());
        dtype.merged = vec![padded(vec![last as i64], dims[axis], all)];
        let unit = BTreeMap::from([
            ("_type_key".to_owned(), Attribute::Text("icraft::xir::AlignedUnit".to_owned())),
            ("index".to_owned(), ints([last as i64])),
            ("unit".to_owned(), ints([block as i64])),
        ]);
        let units = vec![("aligned_units", Attribute::List(vec![Attribute::Map(unit)]))];
        let index = self.value(&aligned, dtype, None);
        self.push("AlignAxis", &aligned, vec![Some(at.index)], vec![index], units);
        extents[last] = all / block;
        extents.push(block);
        let mut names = at.form.layout();
        names.axes.extend(form.layout().axes.last().copied());
        let mut dtype = tensor(element.clone(), &extents, names);
        dtype.merged = vec![padded(vec![last as i64, last as i64 + 1], dims[axis], all)];
        let is_whole = form.blocks_at() == last;
        let index = self.reshape(if is_whole { &whole } else { &split }, index, dtype);
        let index = if is_whole {
            index
        } else {
            let mut perm: Vec<usize> = (0..last).collect();
            perm.insert(form.blocks_at(), last);
            perm.push(last + 1);
            self.move_axes(&whole, index, &perm, stored(element, dims, form))
        };
        Ok(self.keep(id, Stored { index, form: form.clone(), meaning: at.meaning }))
    }

    /// The opposite of [`Self::block`].
    fn unblock(&mut self, id: ValueId, dims: Shape, at: &Stored) -> Result<Stored, Error> {
        let form = at.form.unblocked();
        let Some(&axis) = form.order.last() else { return Ok(at.clone()) };
        let key = |part: &str| format!("{}:{part}", self.source.graph.value(id).name);
        let (moved, joined, pruned) = (key("moved"), key("joined"), key("pruned"));
        let all = at.form.channels(&dims);
        let element = self.element_like(id, at, all)?;
        let mut extents = form.stored(&dims);
        let last = extents.len() - 1;
        let mut index = at.index;
        let blocks = at.form.blocks_at();
        if blocks != last {
            let mut perm: Vec<usize> = (0..=last).filter(|&axis| axis != blocks).collect();
            perm.extend([blocks, last + 1]);
            let stored = at.form.shape(&dims);
            let extents: Vec<usize> = perm.iter().map(|&axis| stored[axis]).collect();
            let mut names = form.layout();
            names.axes.extend(at.form.layout().axes.last().copied());
            let mut dtype = tensor(element.clone(), &extents, names);
            dtype.merged = vec![padded(vec![last as i64, last as i64 + 1], dims[axis], all)];
            index = self.move_axes(&moved, index, &perm, dtype);
        }
        extents[last] = all;
        let mut dtype = tensor(element, &extents, form.layout());
        dtype.merged = vec![padded(vec![last as i64], dims[axis], all)];
        index = self.reshape(&joined, index, dtype);
        let to = Stored { index, form, meaning: at.meaning };
        let element = self.element_like(id, &to, dims[axis])?;
        let index = self.value(&pruned, stored(element, dims, &to.form), None);
        let attributes = vec![("index", ints([last as i64]))];
        self.push("PruneAxis", &pruned, vec![Some(to.index)], vec![index], attributes);
        Ok(self.keep(id, Stored { index, ..to }))
    }

    /// A `Transpose` of stored axes.
    pub(crate) fn move_axes(&mut self, key: &str, from: usize, perm: &[usize], dtype: TensorType) -> usize {
        let dims = ints(perm.iter().map(|&axis| axis as i64));
        let attributes = vec![("dims", dims), ("layout", text_of(&dtype))];
        let index = self.value(key, dtype, None);
        self.push("Transpose", key, vec![Some(from)], vec![index], attributes);
        index
    }

    /// A `Reshape` of stored extents.
    pub(crate) fn reshape(&mut self, key: &str, from: usize, dtype: TensorType) -> usize {
        let index = self.value(key, dtype, None);
        self.reshape_into(key, from, index);
        index
    }

    /// A `Reshape` that makes a value that is there.
    pub(crate) fn reshape_into(&mut self, key: &str, from: usize, to: usize) {
        let dtype = &self.document.values[to].dtype;
        let attributes = vec![("layout", text_of(dtype)), ("shape", ints(dtype.shape.iter().copied()))];
        self.push("Reshape", key, vec![Some(from)], vec![to], attributes);
    }
}

/// A tensor's layout as an attribute.
fn text_of(dtype: &TensorType) -> Attribute {
    Attribute::Text(format!("@layout({})", dtype.layout))
}
