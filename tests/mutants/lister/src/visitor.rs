//! Walks over functions and notes what can be changed in them.
//!
//! Left out is what the compiler works out by itself (constants, types, patterns, lengths), what belongs to tests, and what
//! macros hold, but for `vec!` and `matches!`: the rest of them either checks what cannot be or words messages.

use std::ops::Range;

use proc_macro2::Span;
use syn::{
    Arm, Attribute, BinOp, Block, Expr, ExprLit, ImplItemFn, Item, ItemImpl, ItemTrait, Lit, Macro, Pat,
    RangeLimits, Signature, Stmt, Token, TraitItemFn, UnOp,
    parse::{ParseStream, Parser},
    punctuated::Punctuated,
    spanned::Spanned,
    visit::{self, Visit},
};

use crate::{
    bodies,
    faults::{Fault, SWITCH},
    signatures::Signatures,
    sources::{Source, compiled},
};

/// Every fault that a file can have.
pub fn faults(source: &Source, signatures: &Signatures) -> Vec<Fault> {
    let mut walk =
        Walk { source, signatures, found: Vec::new(), within: Vec::new(), functions: 0, negated: false };
    walk.visit_file(&source.file);
    walk.found
}

struct Walk<'s> {
    source: &'s Source,
    signatures: &'s Signatures,
    found: Vec<Fault>,
    /// The names of what the place lies in.
    within: Vec<String>,
    /// How many functions it lies in.
    functions: usize,
    /// Whether the expression that comes next stands behind `!`: to negate it once more would be the same fault again.
    negated: bool,
}

impl Walk<'_> {
    fn text(&self, span: Span) -> &str {
        &self.source.text[span.byte_range()]
    }

    fn note(
        &mut self,
        kind: &'static str,
        range: Range<usize>,
        told: (&str, &str),
        around: (String, String),
    ) {
        if self.functions == 0 {
            return;
        }
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        self.found.push(Fault {
            folder: self.source.folder.display().to_string(),
            file: self.source.path.display().to_string(),
            function: self.within.join("::"),
            kind,
            line: self.source.text[..range.start].matches('\n').count() + 1,
            before: one_line(told.0),
            after: one_line(told.1),
            start: range.start,
            end: range.end,
            prefix: around.0,
            suffix: around.1,
        });
    }

    /// One expression instead of another.
    fn replace(&mut self, kind: &'static str, span: Span, after: &str) {
        let before = self.text(span).to_owned();
        self.replace_told(kind, span, (&before, after), after);
    }

    /// One expression instead of another, told in other words.
    fn replace_told(&mut self, kind: &'static str, span: Span, told: (&str, &str), after: &str) {
        let around = (format!("(if {SWITCH} {{ {after} }} else {{ "), " })".to_owned());
        self.note(kind, span.byte_range(), told, around);
    }

    /// Another operator between the same operands.
    fn operator(&mut self, expr: &syn::ExprBinary) {
        let (kind, instead) = match &expr.op {
            BinOp::Add(_) => ("arithmetic", "-"),
            BinOp::Sub(_) | BinOp::Mul(_) => ("arithmetic", "+"),
            BinOp::Div(_) => ("arithmetic", "*"),
            BinOp::Rem(_) => ("arithmetic", "/"),
            BinOp::Shl(_) => ("arithmetic", ">>"),
            BinOp::Shr(_) => ("arithmetic", "<<"),
            BinOp::BitAnd(_) | BinOp::BitXor(_) => ("arithmetic", "|"),
            BinOp::BitOr(_) => ("arithmetic", "&"),
            BinOp::AddAssign(_) => ("arithmetic", "-="),
            BinOp::SubAssign(_) | BinOp::MulAssign(_) => ("arithmetic", "+="),
            BinOp::DivAssign(_) => ("arithmetic", "*="),
            BinOp::RemAssign(_) => ("arithmetic", "/="),
            BinOp::ShlAssign(_) => ("arithmetic", ">>="),
            BinOp::ShrAssign(_) => ("arithmetic", "<<="),
            BinOp::BitAndAssign(_) | BinOp::BitXorAssign(_) => ("arithmetic", "|="),
            BinOp::BitOrAssign(_) => ("arithmetic", "&="),
            BinOp::Lt(_) => ("comparison", "<="),
            BinOp::Le(_) => ("comparison", "<"),
            BinOp::Gt(_) => ("comparison", ">="),
            BinOp::Ge(_) => ("comparison", ">"),
            BinOp::Eq(_) => ("comparison", "!="),
            BinOp::Ne(_) => ("comparison", "=="),
            BinOp::And(_) if !has_let(&expr.left) && !has_let(&expr.right) => ("logic", "||"),
            BinOp::Or(_) => ("logic", "&&"),
            _ => return,
        };
        let span = expr.span();
        let (left, right) = (self.text(expr.left.span()).to_owned(), self.text(expr.right.span()).to_owned());
        let before = self.text(span).to_owned();
        let told = format!("{left} {instead} {right}");
        // Without a place on its left, which must stay one, an operand keeps what it binds.
        let after = if instead.ends_with('=') && kind == "arithmetic" {
            told.clone()
        } else {
            format!("({left}) {instead} ({right})")
        };
        self.replace_told(kind, span, (&before, &told), &after);
    }

    fn literal(&mut self, literal: &ExprLit) {
        let after = match &literal.lit {
            Lit::Int(number) => {
                let Ok(value) = number.base10_parse::<u128>() else { return };
                format!("{}{}", value.wrapping_add(1), number.suffix())
            }
            Lit::Float(number) => {
                let Ok(value) = number.base10_parse::<f64>() else { return };
                format!("{:?}{}", value + 1.0, number.suffix())
            }
            Lit::Bool(value) => (!value.value).to_string(),
            _ => return,
        };
        self.replace("literal", literal.span(), &after);
    }

    /// A condition that always or never holds. `refuses` says whether an error comes where it holds, or where it does not.
    fn condition(&mut self, condition: &Expr, refuses: Option<bool>, can_hold: bool) {
        if has_let(condition) {
            let (kind, end) =
                (if refuses == Some(true) { "refusal" } else { "guard" }, condition.span().byte_range().end);
            let before = self.text(condition.span()).to_owned();
            self.note(kind, end..end, (&before, "false"), (format!(" && !{SWITCH}"), String::new()));
            return;
        }
        if let Some(refusing) = refuses {
            self.replace("refusal", condition.span(), if refusing { "false" } else { "true" });
            return;
        }
        if can_hold {
            self.replace("guard", condition.span(), "true");
        }
        self.replace("guard", condition.span(), "false");
    }

    fn arms(&mut self, arms: &[Arm]) {
        let falls = arms.last().is_some_and(|last| matches!(last.pat, Pat::Wild(_)) && last.guard.is_none());
        for (at, arm) in arms.iter().enumerate().filter(|(_, arm)| compiled(&arm.attrs)) {
            let before = self.text(arm.pat.span()).to_owned();
            let falls = falls && at + 1 < arms.len();
            let Some((_, guard)) = &arm.guard else {
                if falls {
                    let end = arm.pat.span().byte_range().end;
                    self.note("arm", end..end, (&before, "_"), (format!(" if !{SWITCH}"), String::new()));
                }
                continue;
            };
            let refuses = is_refusal(&arm.body).then_some(true);
            self.condition(guard, refuses, true);
            if falls && refuses.is_none() {
                let around = (format!("!{SWITCH} && ("), ")".to_owned());
                self.note("arm", guard.span().byte_range(), (&before, "_"), around);
            }
        }
    }

    fn range(&mut self, range: &syn::ExprRange) {
        let (bound, by) = match (&range.start, &range.end, &range.limits) {
            (_, Some(end), RangeLimits::HalfOpen(_)) => (end, "+ 1"),
            (_, Some(end), RangeLimits::Closed(_)) => (end, "- 1"),
            (Some(start), None, _) => (start, "+ 1"),
            (None, None, _) => return,
        };
        // One more is what becomes of a literal anyway.
        if matches!(**bound, Expr::Lit(_)) && by == "+ 1" {
            return;
        }
        let (whole, part) = (range.span().byte_range(), bound.span().byte_range());
        let before = self.source.text[whole.clone()].to_owned();
        let changed = format!("({}) {by}", self.text(bound.span()));
        let told = format!(
            "{}{changed}{}",
            &self.source.text[whole.start..part.start],
            &self.source.text[part.end..whole.end]
        );
        self.replace_told("range", bound.span(), (&before, &told), &changed);
    }

    /// A call with two neighbouring arguments of one type the other way round.
    fn swaps(&mut self, name: &str, arguments: &Punctuated<Expr, Token![,]>, whole: Span) {
        for first in 0..arguments.len().saturating_sub(1) {
            if !self.signatures.same(name, arguments.len(), first) {
                continue;
            }
            let (one, other) = (arguments[first].span(), arguments[first + 1].span());
            if self.text(one) == self.text(other) {
                continue;
            }
            let (text, whole_at) = (&self.source.text, whole.byte_range());
            let (one, other) = (one.byte_range(), other.byte_range());
            let after = [
                &text[whole_at.start..one.start],
                &text[other.clone()],
                &text[one.end..other.start],
                &text[one],
                &text[other.end..whole_at.end],
            ]
            .concat();
            self.replace("swap", whole, &after);
        }
    }

    /// Another method in a method's place, or none.
    fn method(&mut self, call: &syn::ExprMethodCall, negated: bool) {
        let name = call.method.to_string();
        let (receiver, whole) = (self.text(call.receiver.span()).to_owned(), call.span());
        let instead = match name.as_str() {
            "min" => "max",
            "max" => "min",
            "any" => "all",
            "all" => "any",
            "floor" => "ceil",
            "ceil" | "round" | "round_ties_even" => "floor",
            "first" => "last",
            "last" => "first",
            "starts_with" => "ends_with",
            "ends_with" => "starts_with",
            "to_le_bytes" => "to_be_bytes",
            "to_be_bytes" => "to_le_bytes",
            "wrapping_add" | "saturating_sub" => "wrapping_sub",
            "wrapping_sub" => "wrapping_add",
            "saturating_add" => "saturating_sub",
            "abs" | "rev" if call.args.is_empty() => return self.replace("method", whole, &receiver),
            "rem_euclid" => {
                let after = format!("{receiver} % ({})", self.text(call.args.span()));
                return self.replace("method", whole, &after);
            }
            "div_ceil" => {
                let after = format!("{receiver} / ({})", self.text(call.args.span()));
                return self.replace("method", whole, &after);
            }
            "contains" | "contains_key" | "eq" | "ne" if !negated => {
                let after = format!("!{}", self.text(whole));
                return self.replace("method", whole, &after);
            }
            is if is.starts_with("is_") && !negated => {
                let after = format!("!{}", self.text(whole));
                return self.replace("method", whole, &after);
            }
            _ => return,
        };
        let (whole_at, method) = (whole.byte_range(), call.method.span().byte_range());
        let text = &self.source.text;
        let after = [&text[whole_at.start..method.start], instead, &text[method.end..whole_at.end]].concat();
        self.replace("method", whole, &after);
    }

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block) {
        if !compiled(attributes) || signature.constness.is_some() {
            return;
        }
        self.within.push(signature.ident.to_string());
        self.functions += 1;
        let open = block.brace_token.span.open().byte_range().end;
        let body =
            self.source.text[open..block.brace_token.span.close().byte_range().start].trim().to_owned();
        for value in bodies::instead(&signature.output) {
            if !body.is_empty() && body != value {
                let (before, after) = (format!("fn {} {{…}}", signature.ident), format!("return {value}"));
                let prefix = format!(" if {SWITCH} {{ {after}; }}");
                self.note("body", open..open, (&before, &after), (prefix, String::new()));
            }
        }
        self.visit_block(block);
        self.functions -= 1;
        self.within.pop();
    }

    fn statement(&mut self, expr: &Expr, end: usize) {
        let range = expr.span().byte_range().start..end;
        let kind = match expr {
            Expr::Try(tried) if matches!(*tried.expr, Expr::Call(_) | Expr::MethodCall(_)) => "refusal",
            Expr::Call(call) if is_named(&call.func, "drop") => return,
            Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_) => "statement",
            Expr::Binary(binary) if is_assignment(&binary.op) => "statement",
            _ => return,
        };
        let before = self.source.text[range.clone()].to_owned();
        self.note(kind, range, (&before, "nothing"), (format!("if !{SWITCH} {{ "), " }".to_owned()));
    }

    fn macro_of(&mut self, called: &Macro, whole: Span, negated: bool) {
        if called.path.is_ident("matches") && !negated {
            let after = format!("!{}", self.text(whole));
            self.replace("logic", whole, &after);
        }
        if called.path.is_ident("vec") {
            let list = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(called.tokens.clone());
            let repeated = |input: ParseStream<'_>| -> syn::Result<[Expr; 2]> {
                let value = input.parse()?;
                input.parse::<Token![;]>()?;
                Ok([value, input.parse()?])
            };
            let parts = list.map(|list| list.into_iter().collect::<Vec<_>>());
            for part in
                parts.or_else(|_| repeated.parse2(called.tokens.clone()).map(Vec::from)).unwrap_or_default()
            {
                self.visit_expr(&part);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        let negated = std::mem::take(&mut self.negated);
        match expr {
            Expr::Const(_) => return,
            Expr::Block(block) if !compiled(&block.attrs) => return,
            Expr::Repeat(repeat) => return self.visit_expr(&repeat.expr),
            Expr::Macro(called) => return self.macro_of(&called.mac, called.span(), negated),
            Expr::Binary(binary) => self.operator(binary),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_) | UnOp::Neg(_)) => {
                let after = self.text(unary.expr.span()).to_owned();
                self.replace("logic", unary.span(), &after);
                self.negated = matches!(unary.op, UnOp::Not(_));
            }
            Expr::Lit(literal) => self.literal(literal),
            Expr::If(choice) => {
                let otherwise =
                    choice.else_branch.as_ref().is_some_and(|(_, otherwise)| is_refusal(otherwise));
                let refuses = refuses(&choice.then_branch).then_some(true).or(otherwise.then_some(false));
                self.condition(&choice.cond, refuses, true);
            }
            Expr::While(turns) => self.condition(&turns.cond, None, false),
            Expr::Match(choice) => self.arms(&choice.arms),
            Expr::Range(range) => self.range(range),
            Expr::Call(call) => {
                if let Expr::Path(path) = &*call.func
                    && let Some(last) = path.path.segments.last()
                {
                    self.swaps(&last.ident.to_string(), &call.args, call.span());
                }
            }
            Expr::MethodCall(call) => {
                self.method(call, negated);
                self.swaps(&call.method.to_string(), &call.args, call.span());
            }
            _ => {}
        }
        visit::visit_expr(self, expr);
        self.negated = false;
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        match statement {
            Stmt::Expr(expr, Some(end)) => self.statement(expr, end.span().byte_range().end),
            Stmt::Local(local) if !compiled(&local.attrs) => return,
            Stmt::Macro(called) => return self.macro_of(&called.mac, called.span(), true),
            _ => {}
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        if compiled(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Fn(function) => self.function(&function.attrs, &function.sig, &function.block),
            Item::Mod(module) if compiled(&module.attrs) => visit::visit_item(self, item),
            Item::Impl(implementation) if compiled(&implementation.attrs) => visit::visit_item(self, item),
            Item::Trait(of) if compiled(&of.attrs) => visit::visit_item(self, item),
            _ => {}
        }
    }

    fn visit_item_impl(&mut self, implementation: &'ast ItemImpl) {
        let of = self.text(implementation.self_ty.span()).to_owned();
        let name = implementation
            .trait_
            .as_ref()
            .map_or(of.clone(), |(_, path, _)| format!("<{of} as {}>", self.text(path.span())));
        self.within.push(name);
        visit::visit_item_impl(self, implementation);
        self.within.pop();
    }

    fn visit_item_trait(&mut self, of: &'ast ItemTrait) {
        self.within.push(of.ident.to_string());
        visit::visit_item_trait(self, of);
        self.within.pop();
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.attrs, &function.sig, block);
        }
    }

    // What the compiler works out, or what is none of the program's.
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_path(&mut self, _: &'ast syn::Path) {}
    fn visit_angle_bracketed_generic_arguments(&mut self, _: &'ast syn::AngleBracketedGenericArguments) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
}

/// Whether a condition binds names, so that it is no plain expression.
fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        Expr::Paren(inner) => has_let(&inner.expr),
        _ => false,
    }
}

/// Whether a block ends with an error or with nothing.
fn refuses(block: &Block) -> bool {
    matches!(block.stmts.last(), Some(Stmt::Expr(last, _)) if is_refusal(last))
}

/// Whether an expression is an error, or returns one.
fn is_refusal(expr: &Expr) -> bool {
    match expr {
        Expr::Return(returned) => returned.expr.as_ref().is_some_and(|value| {
            is_refusal(value) || matches!(&**value, Expr::Path(_)) && is_named(value, "None")
        }),
        Expr::Call(call) => {
            is_named(&call.func, "Err") || (is_named(&call.func, "Some") && call.args.iter().any(is_refusal))
        }
        Expr::Block(block) => refuses(&block.block),
        Expr::Paren(inner) => is_refusal(&inner.expr),
        _ => false,
    }
}

fn is_named(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == name))
}

fn is_assignment(operator: &BinOp) -> bool {
    use quote::ToTokens;
    let text = operator.to_token_stream().to_string();
    text.ends_with('=') && !matches!(text.as_str(), "==" | "<=" | ">=" | "!=")
}
