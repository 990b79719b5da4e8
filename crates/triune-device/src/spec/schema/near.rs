//! The word that was likely meant.

/// Of `words`, the nearest to `word` by letters changed, added, left out or exchanged with their neighbour; none if none
/// is near.
pub(super) fn nearest<'w>(word: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let letters: Vec<char> = word.chars().take(64).collect();
    let most = 1 + letters.len() / 4;
    let far = words.map(|each| (distance(&letters, each), each)).filter(|&(far, _)| far <= most);
    far.min().map(|(_, each)| each)
}

fn distance(a: &[char], b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let same = usize::from(a[i - 1] != b[j - 1]);
                let mut least = (rows[i - 1][j - 1] + same).min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    least = least.min(rows[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn misspelt_words_are_found_and_others_are_not() {
        let words = ["columns", "rows", "bytes", "bytes_per_cycle", "bytes_per_second", "reserved"];
        let near = |word| nearest(word, words.into_iter());
        assert_eq!(near("colums"), Some("columns"));
        assert_eq!(near("byte"), Some("bytes"));
        assert_eq!(near("bytse"), Some("bytes"));
        assert_eq!(near("bytes_per_cycles"), Some("bytes_per_cycle"));
        assert_eq!(near("latency"), None);
        assert_eq!(near(""), None);
        assert_eq!(near(&"x".repeat(10_000)), None);
    }
}
