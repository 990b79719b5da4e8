//! Vector operations and microkernels, one file per operand type and instruction set.

pub(crate) mod int8;
#[cfg(target_arch = "x86_64")]
pub(crate) mod int8_amx;
#[cfg(target_arch = "x86_64")]
pub(crate) mod int8_avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod int8_avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) mod int8_neon;
#[cfg(target_arch = "x86_64")]
pub(crate) mod int8_vnni256;
pub(crate) mod lookup;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod transpose;
