//! What becomes of an element when another one is put on it.

use super::coded;

coded! {
    /// What becomes of an element when another one is put on it.
    ScatterKind, "What becomes of an element when another one is put on it." {
        /// The new one; of several, the last.
        Set = 0, "The new one; of several, the last.";
        /// Their sum; integers wrap around in their type.
        Add = 1, "Their sum.";
        /// Their product; integers wrap around in their type.
        Mul = 2, "Their product.";
        /// The smaller; NaN when either is.
        Min = 3, "The smaller; NaN when either is.";
        /// The larger; NaN when either is.
        Max = 4, "The larger; NaN when either is.";
    }
}
