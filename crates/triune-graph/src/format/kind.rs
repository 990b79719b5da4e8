//! Which format bytes are in, told by how they begin; so that one that a build leaves out is still told from the rest.

/// A size-prefixed FlatBuffer of MegEngine, version 2.
pub(crate) const MEGENGINE_2: &[u8; 4] = b"mgv2";
/// The beginning of MegEngine's container of version 1.
const MEGENGINE_1: &[u8; 4] = b"MGBC";

/// A format of model files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Whatever is none of the others: a protocol buffer begins with anything.
    Onnx,
    /// A bare MegEngine model in a container of this version.
    MegEngine(u32),
    /// An XIR document.
    Xir,
}

impl Kind {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        if bytes.get(8..12) == Some(MEGENGINE_2) {
            return Self::MegEngine(2);
        }
        if bytes.starts_with(MEGENGINE_1) {
            return Self::MegEngine(1);
        }
        let text = bytes.trim_ascii_start();
        let key = b"\"icraft::xir::Network\"";
        if text.starts_with(b"{") && text.windows(key.len()).any(|window| window == key) {
            return Self::Xir;
        }
        Self::Onnx
    }
}
