//! The files of a crate that are compiled here, and not for tests.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use syn::{Attribute, Expr, ExprLit, Item, Lit, Meta, punctuated::Punctuated, token::Comma};

/// A file, read.
pub struct Source {
    /// The folder of its crate.
    pub folder: PathBuf,
    /// Its path within that.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// Its items.
    pub file: syn::File,
}

/// Every file of a crate that its library reaches.
pub fn of_crate(folder: &Path) -> Result<Vec<Source>, Box<dyn Error>> {
    let mut found = Vec::new();
    // A file, and where its modules lie.
    let mut todo = vec![(folder.join("src/lib.rs"), folder.join("src"))];
    while let Some((path, beside)) = todo.pop() {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let file = syn::parse_file(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        modules(&file.items, &beside, path.parent().unwrap_or(folder), &mut todo);
        let path = path.strip_prefix(folder)?.to_owned();
        found.push(Source { folder: folder.to_owned(), path, text, file });
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// Adds the files that items name as modules.
fn modules(items: &[Item], beside: &Path, parent: &Path, todo: &mut Vec<(PathBuf, PathBuf)>) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        if !compiled(&module.attrs) {
            continue;
        }
        let name = module.ident.to_string();
        if let Some((_, items)) = &module.content {
            modules(items, &beside.join(&name), &beside.join(&name), todo);
            continue;
        }
        let within = beside.join(&name);
        let elsewhere = module.attrs.iter().find_map(path_of);
        let (flat, nested) = (beside.join(format!("{name}.rs")), within.join("mod.rs"));
        match elsewhere {
            Some(path) => todo.push((parent.join(path), within)),
            None if flat.is_file() => todo.push((flat, within)),
            None => todo.push((nested, within)),
        }
    }
}

/// What `#[path = "…"]` says.
fn path_of(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    match &pair.value {
        Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) if pair.path.is_ident("path") => Some(path.value()),
        _ => None,
    }
}

/// Whether an item is there in a build for this machine that has every feature and is no test.
pub fn compiled(attributes: &[Attribute]) -> bool {
    attributes.iter().all(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            syn::parse2::<Meta>(list.tokens.clone()).map_or(true, |meta| holds(&meta))
        }
        Meta::Path(path) => !path.is_ident("test"),
        _ => true,
    })
}

/// Whether a condition of `cfg` holds.
fn holds(meta: &Meta) -> bool {
    let each = |list: &syn::MetaList| -> Vec<bool> {
        let parts = list.parse_args_with(Punctuated::<Meta, Comma>::parse_terminated);
        parts.map_or_else(|_| Vec::new(), |parts| parts.iter().map(holds).collect())
    };
    match meta {
        Meta::Path(path) => !["test", "doc", "doctest", "miri", "windows"].iter().any(|no| path.is_ident(no)),
        Meta::List(list) if list.path.is_ident("not") => !each(list).iter().any(|part| *part),
        Meta::List(list) if list.path.is_ident("any") => each(list).iter().any(|part| *part),
        Meta::List(list) => each(list).iter().all(|part| *part),
        Meta::NameValue(pair) => {
            let Expr::Lit(ExprLit { lit: Lit::Str(value), .. }) = &pair.value else { return true };
            let here = [("target_arch", std::env::consts::ARCH), ("target_os", std::env::consts::OS)];
            here.iter().all(|(name, what)| !pair.path.is_ident(name) || value.value() == *what)
        }
    }
}
