//! One body, several instruction sets: the compiler vectorises the same Rust for each. Knows no kernels.
//!
//! Rust never contracts or reorders float arithmetic, so a body compiled with AVX-512 gives the bits that it gives
//! without; `f32::mul_add` is one instruction where the machine has it and a correctly rounded library call where not.

use crate::Isa;

/// Proof that the machine has an instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level(Isa);

impl Level {
    /// The best instruction set up to `isa` that this machine has.
    pub(crate) fn new(isa: Isa) -> Self {
        let best = Isa::ALL.into_iter().rev().find(|&have| have <= isa && have.is_available());
        Self(best.unwrap_or(Isa::Scalar))
    }

    /// The instruction set.
    pub(crate) const fn isa(self) -> Isa {
        self.0
    }

    /// Whether there are 32 vector registers.
    pub(crate) fn has_many_registers(self) -> bool {
        matches!(self.0, Isa::Avx512 | Isa::Avx512Vnni | Isa::Amx | Isa::Neon | Isa::NeonDot)
    }

    /// Whether 512-bit registers may be used.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn is_512(self) -> bool {
        self.0 >= Isa::Avx512
    }
}

/// Declares `fn name(level: Level, arguments)` whose body is compiled once per instruction set.
///
/// Everything that should be vectorised with the body must be inlined into it: mark it `#[inline(always)]`. Closures cannot be
/// marked; the body is written out once per instruction set, so that each closure in it has one caller, which takes it in. One
/// that is called from several places, or from what several bodies call, is a function of its own without their instructions.
macro_rules! multiversion {
    ($(#[$meta:meta])* $vis:vis unsafe fn $name:ident $([$($generic:ident : $bound:path),+])? ($($arg:ident : $ty:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        $vis unsafe fn $name $(<$($generic: $bound),+>)? (level: $crate::dispatch::Level, $($arg: $ty),*) {
            #[inline(always)]
            unsafe fn body $(<$($generic: $bound),+>)? ($($arg: $ty),*) $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn avx2 $(<$($generic: $bound),+>)? ($($arg: $ty),*) $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn avx512 $(<$($generic: $bound),+>)? ($($arg: $ty),*) $body

            // SAFETY: a `Level` is only made for instruction sets that the machine has; the rest is passed on.
            unsafe {
                match level.isa() {
                    #[cfg(target_arch = "x86_64")]
                    $crate::Isa::Avx512 | $crate::Isa::Avx512Vnni | $crate::Isa::Amx => avx512($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::Isa::Avx2 => avx2($($arg),*),
                    _ => body($($arg),*),
                }
            }
        }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident $([$($generic:ident : $bound:path),+])? ($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name $(<$($generic: $bound),+>)? (level: $crate::dispatch::Level, $($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body $(<$($generic: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2 $(<$($generic: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512 $(<$($generic: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? $body

            match level.isa() {
                // SAFETY: a `Level` is only made for instruction sets that the machine has.
                #[cfg(target_arch = "x86_64")]
                $crate::Isa::Avx512 | $crate::Isa::Avx512Vnni | $crate::Isa::Amx => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::Isa::Avx2 => unsafe { avx2($($arg),*) },
                _ => body($($arg),*),
            }
        }
    };
}
pub(crate) use multiversion;
