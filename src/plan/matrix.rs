//! Expands a matrix into its combinations.

use crate::spec::{MatrixAxis, Written};

/// The most combinations of one matrix: a slip of the pen must not become a bill.
pub(super) const MAX_COMBINATIONS: usize = 1_000;

/// One value for each key of a matrix, in the order as written. Empty without a matrix.
pub(super) type Combination = Vec<(String, Written<String>)>;

/// Every combination; the last key varies fastest. `None` when there are more than [`MAX_COMBINATIONS`].
pub(super) fn combinations(axes: &[MatrixAxis]) -> Option<Vec<Combination>> {
    let mut all: Vec<Combination> = vec![Vec::new()];
    for axis in axes {
        if all.len().saturating_mul(axis.values.len()) > MAX_COMBINATIONS {
            return None;
        }
        let with = |value: &Written<String>| (axis.key.value.clone(), value.clone());
        all = all
            .iter()
            .flat_map(|begun| axis.values.iter().map(move |value| begun.iter().cloned().chain([with(value)]).collect()))
            .collect();
    }
    Some(all)
}

/// A combination in words: `file = a.rs, level = 1`.
pub(super) fn shown(combination: &Combination) -> String {
    let pairs: Vec<_> = combination.iter().map(|(key, value)| format!("{key} = {}", value.value)).collect();
    pairs.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Layer, Place, SourceFile};

    fn axis(key: &str, values: &[&str]) -> MatrixAxis {
        let file = SourceFile::new(Layer::Job, "a.toml", "", "");
        let written = |text: &str| Written::new(text.to_owned(), Place::whole(&file));
        MatrixAxis { key: written(key), values: values.iter().map(|value| written(value)).collect() }
    }

    #[test]
    fn the_last_key_varies_fastest() {
        let all = combinations(&[axis("b", &["1", "2"]), axis("a", &["x", "y"])]).unwrap();
        let all: Vec<_> = all.iter().map(shown).collect();
        assert_eq!(all, ["b = 1, a = x", "b = 1, a = y", "b = 2, a = x", "b = 2, a = y"]);
        assert_eq!(combinations(&[]).unwrap(), [Vec::new()]);
    }

    #[test]
    fn a_slip_of_the_pen_does_not_become_a_bill() {
        let values: Vec<_> = (0..101).map(|n| n.to_string()).collect();
        let values: Vec<_> = values.iter().map(String::as_str).collect();
        assert!(combinations(&[axis("a", &values), axis("b", &values[..10])]).is_none());
        assert_eq!(combinations(&[axis("a", &values[..100]), axis("b", &values[..10])]).unwrap().len(), 1_000);
    }
}
