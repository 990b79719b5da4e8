//! What a table of commands becomes: the structs, the opcodes, the encoder, the decoder and the tables of fields.

use super::{
    Command, Use,
    access::{Access, Elements},
    codec::{Field, FieldError, body},
    docs,
    set::with_command,
    types::Addr,
};

/// A command's own struct, and what its table says of it.
pub(crate) trait Body: Copy {
    /// Its opcode's number.
    const CODE: u16;
    /// Its name in listings and error messages.
    const MNEMONIC: &'static str;
    /// Its length in words, header included.
    const WORDS: usize;

    /// Appends the words behind the header.
    fn put(&self, words: &mut Vec<u32>);

    /// Takes the words behind the header.
    fn get(words: &[u32]) -> Result<Self, FieldError>;

    /// Calls `f` on every address, in the table's order: how it is used, in which field, and the address.
    fn addresses(&mut self, f: &mut dyn FnMut(Use, &'static str, &mut Addr));

    /// What it makes; nothing of the end of a program.
    fn makes(&self) -> Option<Elements>;

    /// How many elements each of its results is made of, where it is more than their own.
    fn taps(&self) -> Option<u64>;

    /// Calls `f` for every field with an address, in the table's order: how the command uses it, the address, if it has one, and how
    /// much lies there.
    fn accesses(&self, f: &mut dyn FnMut(Use, Option<(Addr, Access)>));

    /// How the documentation has it.
    fn documented() -> docs::Struct;

    /// A random command.
    #[cfg(test)]
    fn sample(random: &mut dyn FnMut() -> u64) -> Self;
}

impl Command {
    /// Appends the command's words.
    pub fn encode(&self, words: &mut Vec<u32>) {
        words.extend([u32::from(self.opcode() as u16), self.words() as u32]);
        with_command!(self, own => own.put(words));
    }

    /// Calls `f` on every address that the command uses, in the table's order: how, in which field, and the address.
    pub fn addresses(&mut self, f: &mut dyn FnMut(Use, &'static str, &mut Addr)) {
        with_command!(self, own => own.addresses(f));
    }

    /// What it makes; nothing of the end of a program.
    pub(crate) fn makes(&self) -> Option<Elements> {
        with_command!(self, own => own.makes())
    }

    /// How many elements each of its results is made of, where it is more than their own.
    pub(crate) fn taps(&self) -> Option<u64> {
        with_command!(self, own => own.taps())
    }

    /// Calls `f` for every field with an address, in the table's order: how the command uses it, the address, if it has one, and how
    /// much lies there.
    pub(crate) fn accesses(&self, f: &mut dyn FnMut(Use, Option<(Addr, Access)>)) {
        with_command!(self, own => own.accesses(f));
    }
}

/// Decodes the command at the beginning of `words`, whose header has been read.
pub(super) fn decode_body<B: Body + Into<Command>>(
    words: &[u32],
    tag: u32,
    length: usize,
) -> Result<(Command, usize), (&'static str, FieldError)> {
    let command = body(words, tag, length, B::WORDS).and_then(B::get);
    command.map(|command| (command.into(), length)).map_err(|error| (B::MNEMONIC, error))
}

/// The next field of a body.
pub(super) fn next_field<F: Field>(name: &'static str, rest: &mut &[u32]) -> Result<F, FieldError> {
    let (own, after) = rest.split_at(F::WORDS);
    *rest = after;
    F::get(own).map_err(|error| error.within(name))
}

/// The field's row in the documentation.
pub(super) fn row<F: Field>(name: &'static str, doc: &'static str) -> docs::Row {
    docs::Row { name, type_name: F::type_name(), words: F::WORDS, doc }
}

macro_rules! use_of {
    (in) => {
        $crate::command::Use::In
    };
    (out) => {
        $crate::command::Use::Out
    };
    (const) => {
        $crate::command::Use::Const
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($some:expr) => {
        Some($some)
    };
}

/// The address of a field, and how much lies there.
macro_rules! access_of {
    ($command:ident, $made:ident, $field:ident) => {
        $crate::command::access::Accessing::access(&$command.$field, $made)
    };
    ($command:ident, $made:ident, $field:ident, $at:pat_param, $access:expr) => {{
        let $at = $command;
        $crate::command::types::Addressed::addr(&$command.$field).map(|addr| (addr, $access))
    }};
}

// A field in front of which `[in]`, `[out]` or `[const]` stands has an address: see `Use`. Behind it may stand how much lies there;
// of a feature map all is read or written, of an operand the extents of what the command makes. `makes` are its results, `taps` how
// many elements each of them takes, where it is more than its own.
macro_rules! commands {
    ($list:ident ($d:tt) $($(#[doc = $doc:literal])+ $name:ident = $code:literal, $mnemonic:literal
        $(, makes(|$made_of:ident| $made:expr))? $(, taps(|$taps_of:ident| $taps:expr))? {
        $($(#[doc = $field_doc:literal])+ $([$use:tt $(; |$at:pat_param| $access:expr)?])? $field:ident: $type:ty,)*
    })+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Copy, Debug, PartialEq)]
            pub struct $name {
                $($(#[doc = $field_doc])+ pub $field: $type,)*
            }

            impl $crate::command::table::Body for $name {
                const CODE: u16 = $code;
                const MNEMONIC: &'static str = $mnemonic;
                const WORDS: usize = $crate::command::codec::HEADER_WORDS
                    $(+ <$type as $crate::command::codec::Field>::WORDS)*;

                fn put(&self, _words: &mut Vec<u32>) {
                    $($crate::command::codec::Field::put(&self.$field, _words);)*
                }

                fn get(words: &[u32]) -> Result<Self, $crate::command::codec::FieldError> {
                    let mut _rest = words;
                    Ok(Self { $($field: $crate::command::table::next_field(stringify!($field), &mut _rest)?,)* })
                }

                fn addresses(
                    &mut self,
                    _f: &mut dyn FnMut($crate::command::Use, &'static str, &mut $crate::command::Addr),
                ) {
                    $($(
                        if let Some(addr) = $crate::command::types::Addressed::addr_mut(&mut self.$field) {
                            _f($crate::command::table::use_of!($use), stringify!($field), addr);
                        }
                    )?)*
                }

                fn makes(&self) -> Option<$crate::command::access::Elements> {
                    $crate::command::table::optional!($({
                        let $made_of = self;
                        $crate::command::access::Elements::from($made)
                    })?)
                }

                fn taps(&self) -> Option<u64> {
                    $crate::command::table::optional!($({
                        let $taps_of = self;
                        $taps
                    })?)
                }

                fn accesses(
                    &self,
                    _f: &mut dyn FnMut(
                        $crate::command::Use,
                        Option<($crate::command::Addr, $crate::command::access::Access)>,
                    ),
                ) {
                    let _made = self.makes();
                    $($(
                        _f(
                            $crate::command::table::use_of!($use),
                            $crate::command::table::access_of!(self, _made, $field $(, $at, $access)?),
                        );
                    )?)*
                }

                fn documented() -> $crate::command::docs::Struct {
                    $crate::command::docs::Struct {
                        name: stringify!($name),
                        words: Self::WORDS,
                        doc: concat!($($doc, "\n"),+),
                        fields: vec![$(
                            $crate::command::table::row::<$type>(stringify!($field), concat!($($field_doc),+)),
                        )*],
                    }
                }

                #[cfg(test)]
                fn sample(_random: &mut dyn FnMut() -> u64) -> Self {
                    Self { $($field: $crate::command::codec::Field::sample(_random),)* }
                }
            }
        )+

        macro_rules! $list {
            (($d dollar:tt) $d next:ident $d($d more:ident)* ; $d($d before:ident)*) => {
                $d next! { ($d dollar) $d($d more)* ; $d($d before)* $($name)+ }
            };
        }
        pub(super) use $list;
    };
}

// The opcodes and the command of those whose structs are named, in the order of the documentation. Each family's list puts its names
// behind those that it is given and hands all on to the next.
macro_rules! command_set {
    (($d:tt) ; $($name:ident)+) => {
        $(
            impl From<$name> for Command {
                fn from(command: $name) -> Self {
                    Self::$name(command)
                }
            }
        )+

        /// Which command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Opcode {
            $(#[doc = concat!("That of [`", stringify!($name), "`](struct@", stringify!($name), ").")]
            $name = <$name as Body>::CODE,)+
        }

        impl Opcode {
            /// Every opcode, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The command's name in listings and error messages.
            pub const fn mnemonic(self) -> &'static str {
                match self {
                    $(Self::$name => <$name as Body>::MNEMONIC,)+
                }
            }
        }

        /// Length of the longest command in words.
        pub(super) const MAX_WORDS: usize = {
            let (mut most, mut index) = (0, 0);
            let all = [$(<$name as Body>::WORDS),+];
            while index < all.len() {
                if all[index] > most {
                    most = all[index];
                }
                index += 1;
            }
            most
        };

        /// One command of a program.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Command {
            $(#[doc = concat!("See [`", stringify!($name), "`](struct@", stringify!($name), ").")] $name($name),)+
        }

        impl Command {
            /// Which command it is.
            pub const fn opcode(&self) -> Opcode {
                match self {
                    $(Self::$name(_) => Opcode::$name,)+
                }
            }

            /// Length of the encoded command in words, header included.
            pub const fn words(&self) -> usize {
                match self {
                    $(Self::$name(_) => <$name as Body>::WORDS,)+
                }
            }

            /// Decodes the first command of `words`; gives it and its length in words.
            pub(super) fn decode(words: &[u32]) -> Result<(Self, usize), (&'static str, FieldError)> {
                let &[tag, length, ..] = words else {
                    return Err(("?", FieldError::new("the stream ends in the middle of a header").within("header")));
                };
                match tag as u16 {
                    $(<$name as Body>::CODE => decode_body::<$name>(words, tag, length as usize),)+
                    other => Err(("?", FieldError::new(format!("{other:#06x} is no opcode")).within("opcode"))),
                }
            }
        }

        /// Evaluates an expression with a command's own struct, whichever it is.
        macro_rules! with_command {
            ($d command:expr, $d own:ident => $d body:expr) => {
                match $d command {
                    $($crate::Command::$name($d own) => $d body,)+
                }
            };
        }
        pub(crate) use with_command;

        #[cfg(test)]
        impl Command {
            /// A random command.
            pub(super) fn sample(opcode: Opcode, random: &mut dyn FnMut() -> u64) -> Self {
                match opcode {
                    $(Opcode::$name => Self::$name(Body::sample(random)),)+
                }
            }
        }

        pub(super) fn structs() -> Vec<(u16, &'static str, super::docs::Struct)> {
            vec![$((<$name as Body>::CODE, <$name as Body>::MNEMONIC, <$name as Body>::documented()),)+]
        }
    };
}

pub(super) use {access_of, command_set, commands, optional, use_of};
