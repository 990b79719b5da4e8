//! What a function may return instead of what it works out.

use syn::{GenericArgument, PathArguments, PathSegment, ReturnType, Type};

/// The values, as source text; none where the type's name does not tell one.
pub fn instead(returned: &ReturnType) -> Vec<String> {
    match returned {
        ReturnType::Default => vec![String::new()],
        ReturnType::Type(_, of) => values(of),
    }
}

fn values(of: &Type) -> Vec<String> {
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    match of {
        Type::Tuple(tuple) => {
            let parts: Option<Vec<String>> =
                tuple.elems.iter().map(|part| values(part).into_iter().next()).collect();
            parts
                .map(|parts| {
                    format!("({})", parts.join(", "))
                })
                .into_iter()
                .collect()
        }
        Type::Array(array) => match values(&array.elem).first() {
            Some(value) => vec![format!("[{value}; _]")],
            None => Vec::new(),
        },
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => named(&["\"\""]),
            Type::Slice(_) => named(&["&[]"]),
            _ => Vec::new(),
        },
        Type::Path(path) => path.path.segments.last().map_or_else(Vec::new, by_name),
        _ => Vec::new(),
    }
}

fn by_name(last: &PathSegment) -> Vec<String> {
    let within = || match &last.arguments {
        PathArguments::AngleBracketed(arguments) => {
            arguments.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(of) => Some(values(of)),
                _ => None,
            })
        }
        _ => None,
    };
    let texts: &[&str] = match last.ident.to_string().as_str() {
        "bool" => &["true", "false"],
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => {
            &["0", "1"]
        }
        "f32" | "f64" => &["0.0", "1.0"],
        "String" => &["String::new()"],
        "Vec" => &["Vec::new()"],
        "Option" => &["None"],
        "HashMap" | "BTreeMap" | "HashSet" | "BTreeSet" | "VecDeque" | "Duration" | "Cow" => &["Default::default()"],
        "Ordering" => &["std::cmp::Ordering::Equal"],
        "Result" | "PyResult" => {
            return within().unwrap_or_default().iter().map(|value| format!("Ok({value})")).collect();
        }
        _ => &[],
    };
    texts.iter().map(|text| (*text).to_owned()).collect()
}
