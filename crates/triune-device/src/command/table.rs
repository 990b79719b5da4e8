//! What a table of commands becomes: the structs, the opcodes, the encoder, the decoder and the tables of fields.

macro_rules! use_of {
    (in) => {
        Use::In
    };
    (out) => {
        Use::Out
    };
    (const) => {
        Use::Const
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
        Accessing::access(&$command.$field, $made)
    };
    ($command:ident, $made:ident, $field:ident, $at:pat_param, $access:expr) => {{
        let $at = $command;
        Addressed::addr(&$command.$field).map(|addr| (addr, $access))
    }};
}

// A field in front of which `[in]`, `[out]` or `[const]` stands has an address: see `Use`. Behind it may stand how much lies there;
// of a feature map all is read or written, of an operand the extents of what the command makes. `makes` are its results, `taps` how
// many elements each of them takes, where it is more than its own.
macro_rules! commands {
    (($d:tt) $($(#[doc = $doc:literal])+ $name:ident = $code:literal, $mnemonic:literal
        $(, makes(|$made_of:ident| $made:expr))? $(, taps(|$taps_of:ident| $taps:expr))? {
        $($(#[doc = $field_doc:literal])+ $([$use:tt $(; |$at:pat_param| $access:expr)?])? $field:ident: $type:ty,)*
    })+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Copy, Debug, PartialEq)]
            pub struct $name {
                $($(#[doc = $field_doc])+ pub $field: $type,)*
            }

            impl $name {
                const WORDS: usize = HEADER_WORDS $(+ <$type as Field>::WORDS)*;
            }

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
            $($(#[doc = $doc])+ $name = $code,)+
        }

        impl Opcode {
            /// Every opcode, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The command's name in listings and error messages.
            pub const fn mnemonic(self) -> &'static str {
                match self {
                    $(Self::$name => $mnemonic,)+
                }
            }
        }

        /// Length of the longest command in words.
        pub(super) const MAX_WORDS: usize = {
            let (mut most, mut index) = (0, 0);
            let all = [$($name::WORDS),+];
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
            $($(#[doc = $doc])+ $name($name),)+
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
                    $(Self::$name(_) => $name::WORDS,)+
                }
            }

            /// Appends the command's words.
            pub fn encode(&self, words: &mut Vec<u32>) {
                words.extend([u32::from(self.opcode() as u16), self.words() as u32]);
                match self {
                    $(Self::$name(_command) => {
                        $(_command.$field.put(words);)*
                    })+
                }
            }

            /// Calls `f` on every address that the command uses, in the table's order: how, in which field, and the address.
            pub fn addresses(&mut self, f: &mut dyn FnMut(Use, &'static str, &mut Addr)) {
                match self {
                    $(Self::$name(_command) => {
                        $($(
                            if let Some(addr) = _command.$field.addr_mut() {
                                f(use_of!($use), stringify!($field), addr);
                            }
                        )?)*
                    })+
                }
            }

            /// What it makes; nothing of the end of a program.
            pub(crate) fn makes(&self) -> Option<Elements> {
                match self {
                    $(Self::$name(_command) => optional!($({
                        let $made_of = _command;
                        Elements::from($made)
                    })?),)+
                }
            }

            /// How many elements each of its results is made of, where it is more than their own.
            pub(crate) fn taps(&self) -> Option<u64> {
                match self {
                    $(Self::$name(_command) => optional!($({
                        let $taps_of = _command;
                        $taps
                    })?),)+
                }
            }

            /// Calls `f` for every field with an address, in the table's order: how the command uses it, the address, if it has
            /// one, and how much lies there.
            pub(crate) fn accesses(&self, f: &mut dyn FnMut(Use, Option<(Addr, Access)>)) {
                let _made = self.makes();
                match self {
                    $(Self::$name(_command) => {
                        $($(
                            f(use_of!($use), access_of!(_command, _made, $field $(, $at, $access)?));
                        )?)*
                    })+
                }
            }

            /// Decodes the first command of `words`; gives it and its length in words.
            pub(super) fn decode(words: &[u32]) -> Result<(Self, usize), (&'static str, FieldError)> {
                let &[tag, length, ..] = words else {
                    return Err(("?", FieldError::new("the stream ends in the middle of a header").within("header")));
                };
                let length = length as usize;
                match tag as u16 {
                    $($code => {
                        let body = body(words, tag, length, $name::WORDS).map_err(|error| ($mnemonic, error))?;
                        let mut _rest = body;
                        let command = $name {
                            $($field: {
                                let (own, after) = _rest.split_at(<$type as Field>::WORDS);
                                _rest = after;
                                <$type as Field>::get(own)
                                    .map_err(|error| ($mnemonic, error.within(stringify!($field))))?
                            },)*
                        };
                        Ok((Self::$name(command), length))
                    })+
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
                let _ = &random;
                match opcode {
                    $(Opcode::$name => Self::$name($name { $($field: Field::sample(random),)* }),)+
                }
            }
        }

        pub(super) fn structs() -> Vec<(u16, &'static str, super::docs::Struct)> {
            vec![$(($code, $mnemonic, super::docs::Struct {
                name: stringify!($name),
                words: $name::WORDS,
                doc: concat!($($doc, "\n"),+),
                fields: vec![$(super::docs::Row {
                    name: stringify!($field),
                    type_name: <$type as Field>::type_name(),
                    words: <$type as Field>::WORDS,
                    doc: concat!($($field_doc),+),
                },)*],
            }),)+]
        }
    };
}

pub(super) use {access_of, commands, optional, use_of};
