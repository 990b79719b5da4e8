//! Composite operators: graphs of primitive ones that are written as functions.
//!
//! A [`Function`] is an operator whose node is replaced by its body when shapes are inferred. The body builds on a [`Scope`],
//! on which every operator that it adds has its type, extents and, where they follow from extents, elements at once: what it
//! builds may depend on them. Nodes of a body know what they are part of ([`crate::Node::origin`]), and errors name that.
//! Nothing here knows a file format; who reads one says what its composite operators are.

pub(crate) mod exact;
pub(crate) mod resample;
pub(crate) mod running;
#[cfg(feature = "megengine")]
pub(crate) mod sample;
mod scope;
pub(crate) mod standard;
pub(crate) mod transposed;
pub(crate) mod volume;

use std::{fmt, sync::Arc};

pub(crate) use scope::Scope;

use crate::{Error, Op, ValueId};

type Body = dyn Fn(&mut Scope<'_, '_>) -> Result<Vec<ValueId>, Error> + Send + Sync;

/// A composite operator.
#[derive(Clone)]
pub struct Function {
    name: &'static str,
    decides: &'static [usize],
    body: Arc<Body>,
}

impl Function {
    /// A function with one result.
    pub(crate) fn new(
        name: &'static str,
        body: impl Fn(&mut Scope<'_, '_>) -> Result<ValueId, Error> + Send + Sync + 'static,
    ) -> Self {
        Self::with_results(name, move |scope| Ok(vec![body(scope)?]))
    }

    /// A function with several results.
    pub(crate) fn with_results(
        name: &'static str,
        body: impl Fn(&mut Scope<'_, '_>) -> Result<Vec<ValueId>, Error> + Send + Sync + 'static,
    ) -> Self {
        Self { name, decides: &[], body: Arc::new(body) }
    }

    /// Says which operands' elements decide about extents, or about what the body is made of.
    pub(crate) fn deciding(self, decides: &'static [usize]) -> Self {
        Self { decides, ..self }
    }

    /// The operator's name in its source format.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn decides(&self) -> &'static [usize] {
        self.decides
    }

    pub(crate) fn body(&self, scope: &mut Scope<'_, '_>) -> Result<Vec<ValueId>, Error> {
        (self.body)(scope)
    }
}

impl From<Function> for Op {
    fn from(function: Function) -> Self {
        Self::Function(function)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Function").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.body, &other.body)
    }
}
