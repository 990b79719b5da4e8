//! Which parameters of which functions have one type, as far as names tell.

use std::collections::HashMap;

use quote::ToTokens;
use syn::{
    FnArg, Signature, Type,
    visit::{self, Visit},
};

/// The parameters' types of every function, by name and number; `self` is none of them.
#[derive(Default)]
pub struct Signatures {
    known: HashMap<(String, usize), Vec<Option<String>>>,
}

impl Signatures {
    /// Adds the functions of a file.
    pub fn read(&mut self, file: &syn::File) {
        self.visit_file(file);
    }

    /// Whether two neighbouring arguments of a call can be swapped.
    pub fn same(&self, function: &str, arguments: usize, first: usize) -> bool {
        let types = self.known.get(&(function.to_owned(), arguments));
        types.is_some_and(|types| types[first].is_some() && types[first] == types[first + 1])
    }
}

impl Visit<'_> for Signatures {
    fn visit_signature(&mut self, signature: &Signature) {
        let types: Vec<Option<String>> = signature
            .inputs
            .iter()
            .filter_map(|input| match input {
                FnArg::Receiver(_) => None,
                // What differs from call to call has no type here.
                FnArg::Typed(each) if matches!(*each.ty, Type::ImplTrait(_)) => Some(None),
                FnArg::Typed(each) => Some(Some(each.ty.to_token_stream().to_string())),
            })
            .collect();
        let name = (signature.ident.to_string(), types.len());
        // Functions of one name agree, or nothing is known.
        self.known
            .entry(name)
            .and_modify(|known| {
                for (known, other) in known.iter_mut().zip(&types) {
                    if known != other {
                        *known = None;
                    }
                }
            })
            .or_insert(types);
        visit::visit_signature(self, signature);
    }
}
