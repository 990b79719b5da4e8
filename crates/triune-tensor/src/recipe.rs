//! Bytes that are made of others when somebody wants them, and are known without being made.

use std::{fmt, sync::Arc};

use bytes::Bytes;

use crate::Buffer;

/// How bytes are made of a file's.
///
/// Weights that a model stores narrow are widened before they are packed for a kernel. Who has packed them already knows them
/// by their recipe, and makes nothing.
#[derive(Clone)]
pub struct Recipe {
    of: Bytes,
    how: Arc<[u8]>,
    len: usize,
    fill: Arc<Fill>,
}

/// Writes the made bytes from a place on, as many as it is given zeros for: whole elements.
type Fill = dyn Fn(usize, &mut [u8]) + Send + Sync;

impl Recipe {
    /// A recipe for `len` bytes made of `of`, which `fill` writes into zeros, any part of them: the first byte's place, whose elements
    /// are whole, comes with the zeros. `how` tells it from every other that is made of
    /// the same: two with equal ones make equal bytes.
    pub fn new(
        of: Bytes,
        how: Vec<u8>,
        len: usize,
        fill: impl Fn(usize, &mut [u8]) + Send + Sync + 'static,
    ) -> Self {
        Self { of, how: how.into(), len, fill: Arc::new(fill) }
    }

    /// How many bytes it makes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it makes none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What they are made of.
    pub fn source(&self) -> &Bytes {
        &self.of
    }

    /// What tells the recipe from others that are made of the same.
    pub fn how(&self) -> &[u8] {
        &self.how
    }

    /// The bytes; `None` when there is no memory for them. In pages of their own where they are many, which go back at once.
    pub fn made(&self) -> Option<Bytes> {
        let mut bytes = Buffer::zeroed(self.len)?;
        (self.fill)(0, &mut bytes);
        Some(Bytes::from_owner(bytes))
    }

    /// Makes the bytes from a place on, as many as there are zeros for: whole elements.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn part(&self, from: usize, zeros: &mut [u8]) {
        assert!(from.checked_add(zeros.len()).is_some_and(|end| end <= self.len), "a part of {}", self.len);
        (self.fill)(from, zeros);
    }

    /// A promise of the bytes, whose memory is set aside now and touched when it is kept. `None` when there is none.
    pub fn promise(&self) -> Option<impl FnOnce() -> Bytes + Send + 'static> {
        let (zeros, fill) = (Buffer::later(self.len)?, Arc::clone(&self.fill));
        Some(move || {
            let mut bytes = zeros();
            fill(0, &mut bytes);
            Bytes::from_owner(bytes)
        })
    }
}

impl PartialEq for Recipe {
    /// Whether both make the same bytes: of the same place in memory as a rule, else of equal bytes.
    fn eq(&self, other: &Self) -> bool {
        let same = self.of.as_ptr() == other.of.as_ptr() && self.of.len() == other.of.len();
        self.len == other.len && self.how == other.how && (same || self.of == other.of)
    }
}

impl Eq for Recipe {}

impl fmt::Debug for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipe({} bytes of {})", self.len, self.of.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubled(of: &Bytes, how: u8) -> Recipe {
        let source = of.clone();
        Recipe::new(of.clone(), vec![how], 2 * of.len(), move |from, to| {
            to.chunks_exact_mut(2).zip(&source[from / 2..]).for_each(|(to, &from)| to.fill(from));
        })
    }

    #[test]
    fn made_once_or_kept_as_a_promise() {
        let of = Bytes::from(vec![3, 4]);
        let recipe = doubled(&of, 0);
        assert_eq!((recipe.len(), recipe.is_empty()), (4, false));
        assert_eq!(recipe.source(), &of);
        assert_eq!(recipe.made().unwrap(), [3, 3, 4, 4].as_slice());
        assert_eq!((recipe.promise().unwrap())(), recipe.made().unwrap());
        let mut part = [0; 2];
        recipe.part(2, &mut part);
        assert_eq!(part, [4, 4]);
        assert_eq!(format!("{recipe:?}"), "Recipe(4 bytes of 2)");
    }

    #[test]
    fn known_by_what_they_are_made_of_and_how() {
        let of = Bytes::from(vec![3, 4]);
        assert_eq!(doubled(&of, 0), doubled(&of.clone(), 0));
        assert_ne!(doubled(&of, 0), doubled(&of, 1));
        assert_eq!(doubled(&of, 0), doubled(&Bytes::from(vec![3, 4]), 0), "equal bytes elsewhere");
        assert_ne!(doubled(&of, 0), doubled(&Bytes::from(vec![3, 5]), 0));
        assert_ne!(doubled(&of, 0), doubled(&of.slice(..1), 0));
    }

    #[test]
    fn what_there_is_no_memory_for_is_not_promised() {
        let recipe = Recipe::new(Bytes::new(), Vec::new(), 1 << 55, |_, _| {});
        assert!(recipe.made().is_none());
        assert!(recipe.promise().is_none());
    }
}
