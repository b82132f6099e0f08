//! Layer 0: what one tool result may put into a message.
//!
//! The whole result goes to a file of the run; the message keeps its head, its tail and where the rest is. It is done before the
//! result joins the conversation, so no earlier message changes and bound thinking stays valid.

use crate::query::transcript::ToolResult;

/// A result that was cut, and what is to be kept elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::query) struct Kept {
    /// The file's name in the folder for outputs.
    pub(in crate::query) file: String,
    /// The whole text.
    pub(in crate::query) content: String,
}

/// The least that is left of a result, in bytes: enough for an error message.
const LEAST: usize = 600;

/// Cuts the results of one response: each to `each` bytes, all together to `all`. `None` in `limits` exempts a result.
///
/// `outputs` is the folder as the model is told; `number` makes file names.
pub(in crate::query) fn cap(
    results: &mut [ToolResult],
    limits: &[Option<usize>],
    each: usize,
    all: usize,
    outputs: &str,
    mut number: impl FnMut() -> u64,
) -> Vec<Kept> {
    let counted = limits.iter().filter(|limit| limit.is_some()).count().max(1);
    let total: usize =
        results.iter().zip(limits).filter(|(_, limit)| limit.is_some()).map(|(result, _)| result.content.len()).sum();
    let share = if total > all { each.min(all / counted) } else { each };
    let mut kept = Vec::new();
    for (result, limit) in results.iter_mut().zip(limits) {
        let Some(limit) = limit else { continue };
        let most = share.min(*limit).max(LEAST);
        if result.content.len() <= most {
            continue;
        }
        let file = format!("result-{}.txt", number());
        let content = std::mem::take(&mut result.content);
        result.content = cut(&content, most, &format!("{outputs}/{file}"));
        kept.push(Kept { file, content });
    }
    kept
}

/// Head and tail of a text, at line ends where they are near, and where the whole is.
fn cut(text: &str, most: usize, path: &str) -> String {
    let head = text.floor_char_boundary(most * 2 / 5);
    let head = text[..head].rfind('\n').filter(|end| head - end < 200).unwrap_or(head);
    let tail = text.ceil_char_boundary(text.len() - most * 3 / 5);
    let tail = text[tail..].find('\n').filter(|end| *end < 200).map_or(tail, |end| tail + end + 1);
    let missing = tail.saturating_sub(head);
    format!(
        "{}\n[... {missing} bytes left out here; the whole result is in {path} and can be read in parts ...]\n{}",
        &text[..head],
        &text[tail..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(sizes: &[usize]) -> Vec<ToolResult> {
        let line = |n: usize| {
            let text = format!("{}\n", "é".repeat(20)).repeat(n / 41 + 1);
            text[..text.floor_char_boundary(n)].to_owned()
        };
        sizes
            .iter()
            .enumerate()
            .map(|(at, size)| ToolResult::new(format!("t{at}").into(), line(*size), false))
            .collect()
    }

    fn capped(sizes: &[usize], limits: &[Option<usize>]) -> (Vec<usize>, usize) {
        let mut all = results(sizes);
        let mut number = 0;
        let kept = cap(&mut all, limits, 10_000, 16_000, "/out", || {
            number += 1;
            number
        });
        (all.iter().map(|result| result.content.len() / 100 * 100).collect(), kept.len())
    }

    #[test]
    fn each_result_and_all_of_them_together_are_bounded_and_an_exempt_one_is_not() {
        let whole = Some(usize::MAX);
        assert_eq!(capped(&[5_000, 9_900], &[whole, whole]), (vec![4_900, 9_800], 0));
        assert_eq!(capped(&[50_000], &[whole]), (vec![10_000], 1));
        assert_eq!(capped(&[50_000], &[Some(2_000)]), (vec![2_000], 1));
        assert_eq!(capped(&[50_000], &[None]), (vec![49_900], 0));
        let (sizes, kept) = capped(&[9_000; 8], &[whole; 8]);
        assert!(sizes.iter().sum::<usize>() <= 16_000 + 8 * 200, "{sizes:?}");
        assert_eq!(kept, 8);
    }

    #[test]
    fn a_cut_says_where_the_whole_is() {
        let mut all = results(&[50_000]);
        let kept = cap(&mut all, &[Some(usize::MAX)], 1_000, 1_000, "/run/tools", || 7);
        assert_eq!(kept[0].file, "result-7.txt");
        assert!(kept[0].content.len() >= 49_999);
        assert!(all[0].content.contains("the whole result is in /run/tools/result-7.txt"), "{}", all[0].content);
    }
}
