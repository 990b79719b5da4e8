//! Which instruction sets this machine has, asked once.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// An instruction set that kernels are written for; the order is from slowest to fastest, those of one kind of machine after those
/// of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Portable Rust: the specification of all others.
    Scalar,
    /// x86-64 with AVX2 and FMA.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL.
    Avx512,
    /// [`Isa::Avx512`] with VNNI (`vpdpbusd`).
    Avx512Vnni,
    /// [`Isa::Avx512Vnni`] with tiles of bytes (AMX), which the system lets the process use.
    Amx,
    /// 64-bit Arm with NEON, as all of them have.
    Neon,
    /// [`Isa::Neon`] with dot products of bytes (`sdot`).
    NeonDot,
}

impl Isa {
    /// Every instruction set, slowest first.
    pub const ALL: [Self; 7] =
        [Self::Scalar, Self::Avx2, Self::Avx512, Self::Avx512Vnni, Self::Amx, Self::Neon, Self::NeonDot];

    /// The fastest instruction set of this machine, capped by the environment variable `TRIUNE_ISA`
    /// (`scalar`, `avx2`, `avx512`, `avx512vnni`, `amx`, `neon`, `neondot`; other values are ignored, and so are those of another kind of
    /// machine but for `scalar`). Detected once.
    pub fn best() -> Self {
        // Threads that ask first at the same time all find out, and nobody waits for them: not in a forked child, either.
        static BEST: AtomicUsize = AtomicUsize::new(usize::MAX);
        if let Some(&best) = Self::ALL.get(BEST.load(Relaxed)) {
            return best;
        }
        let cap = std::env::var("TRIUNE_ISA")
            .ok()
            .and_then(|name| Self::ALL.into_iter().find(|isa| isa.name() == name))
            .filter(|isa| isa.is_native())
            .unwrap_or(Self::NeonDot);
        let index = Self::ALL.iter().rposition(|&isa| isa <= cap && isa.is_available()).unwrap_or(0);
        BEST.store(index, Relaxed);
        Self::ALL[index]
    }

    /// The instruction sets that this machine has, slowest first, whatever the environment says.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_available())
    }

    /// The name that `TRIUNE_ISA` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Vnni => "avx512vnni",
            Self::Amx => "amx",
            Self::Neon => "neon",
            Self::NeonDot => "neondot",
        }
    }

    /// Whether the instruction set is one of machines of this kind.
    const fn is_native(self) -> bool {
        match self {
            Self::Scalar => true,
            Self::Avx2 | Self::Avx512 | Self::Avx512Vnni | Self::Amx => cfg!(target_arch = "x86_64"),
            Self::Neon | Self::NeonDot => cfg!(target_arch = "aarch64"),
        }
    }

    /// Whether this machine has the instruction set.
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            match self {
                Self::Scalar => true,
                Self::Avx2 => has!("avx2") && has!("fma"),
                Self::Avx512 => {
                    Self::Avx2.is_available()
                        && has!("avx512f")
                        && has!("avx512bw")
                        && has!("avx512dq")
                        && has!("avx512vl")
                }
                Self::Avx512Vnni => Self::Avx512.is_available() && has!("avx512vnni"),
                Self::Amx => Self::Avx512Vnni.is_available() && crate::arch::int8_amx::is_available(),
                Self::Neon | Self::NeonDot => false,
            }
        }
        #[cfg(target_arch = "aarch64")]
        {
            match self {
                Self::Scalar | Self::Neon => true,
                Self::NeonDot => std::arch::is_aarch64_feature_detected!("dotprod"),
                Self::Avx2 | Self::Avx512 | Self::Avx512Vnni | Self::Amx => false,
            }
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            self == Self::Scalar
        }
    }
}
