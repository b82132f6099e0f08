//! A patch, file by file, coloured and bounded.

use super::door::{Html, size};
use crate::clean::clean;
use crate::report::cut;

/// The most of one file, in bytes.
const FILE_MAX: usize = 24_000;
/// The longest line, in bytes.
const LINE_MAX: usize = 600;
/// The most files that are named.
const FILES_MAX: usize = 200;

/// One file of a patch.
#[derive(Debug, Default)]
struct File<'a> {
    name: String,
    /// What is said of it besides its lines: new, deleted, renamed, a mode.
    notes: Vec<&'a str>,
    added: usize,
    removed: usize,
    lines: Vec<&'a str>,
    binary: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Hunk,
    Added,
    Removed,
    Same,
}

/// Draws a patch in at most about `max` bytes. `unread` bytes of it were not handed over.
pub(super) fn draw(html: &mut Html, patch: &str, unread: usize, max: usize, open: bool) {
    let patch = clean(patch);
    let files = parse(&patch);
    if files.is_empty() {
        return;
    }
    let (added, removed) =
        files.iter().fold((0, 0), |(added, removed), file| (added + file.added, removed + file.removed));
    html.raw("<section><h3>Changes <small>").show(files.len()).raw(if files.len() == 1 {
        " file, "
    } else {
        " files, "
    });
    counts(html, added, removed);
    html.raw("</small></h3>");
    if unread > 0 {
        html.raw("<p class=\"cut\">The last ").text(&size(unread)).raw(" of the patch are not looked at here.</p>");
    }
    let begin = html.len();
    for (index, file) in files.iter().enumerate() {
        let left = max.saturating_sub(html.len() - begin);
        if index == FILES_MAX || left < 200 {
            html.raw("<p class=\"cut\">")
                .show(files.len() - index)
                .raw(" more files are left out here: see the patch.</p>");
            break;
        }
        one(html, file, FILE_MAX.min(left), open && index < 3);
    }
    html.raw("</section>");
}

fn one(html: &mut Html, file: &File<'_>, max: usize, open: bool) {
    html.raw(if open {
        "<details open class=\"file\"><summary><code>"
    } else {
        "<details class=\"file\"><summary><code>"
    });
    html.line(&file.name, 300).raw("</code> <small>");
    for note in &file.notes {
        html.line(note, 200).raw(" · ");
    }
    counts(html, file.added, file.removed);
    html.raw("</small></summary>");
    if file.binary {
        html.raw("<p class=\"dim\">binary</p></details>");
        return;
    }
    html.raw("<pre class=\"diff\">");
    let begin = html.len();
    let mut last = Kind::Same;
    let mut shown = 0;
    for line in &file.lines {
        if html.len() - begin > max {
            break;
        }
        let kind = kind(line);
        if kind != last {
            html.raw(closing(last)).raw(opening(kind));
            last = kind;
        }
        html.text(&cut::marked_head(line, LINE_MAX)).raw("\n");
        shown += 1;
    }
    html.raw(closing(last));
    if shown < file.lines.len() {
        html.raw("<i class=\"cut\">").show(file.lines.len() - shown).raw(" more lines are left out here</i>");
    }
    html.raw("</pre></details>");
}

fn counts(html: &mut Html, added: usize, removed: usize) {
    html.raw("<span class=\"plus\">+").show(added).raw("</span> <span class=\"minus\">−").show(removed).raw("</span>");
}

fn kind(line: &str) -> Kind {
    match line.as_bytes().first() {
        Some(b'@') => Kind::Hunk,
        Some(b'+') => Kind::Added,
        Some(b'-') => Kind::Removed,
        Some(_) | None => Kind::Same,
    }
}

const fn opening(kind: Kind) -> &'static str {
    match kind {
        Kind::Hunk => "<b>",
        Kind::Added => "<ins>",
        Kind::Removed => "<del>",
        Kind::Same => "",
    }
}

const fn closing(kind: Kind) -> &'static str {
    match kind {
        Kind::Hunk => "</b>",
        Kind::Added => "</ins>",
        Kind::Removed => "</del>",
        Kind::Same => "",
    }
}

/// The files of a patch as git writes it. Lines of a hunk are counted, so that no line of a file is taken for a head.
fn parse(patch: &str) -> Vec<File<'_>> {
    let mut files: Vec<File<'_>> = Vec::new();
    let (mut old, mut new) = (0_usize, 0_usize);
    for line in patch.lines() {
        if let Some(rest) = line.strip_prefix("diff --git ") {
            (old, new) = (0, 0);
            files.push(File { name: name(rest), ..File::default() });
            continue;
        }
        let Some(file) = files.last_mut() else { continue };
        if old > 0 || new > 0 {
            match kind(line) {
                Kind::Added => {
                    file.added += 1;
                    new = new.saturating_sub(1);
                }
                Kind::Removed => {
                    file.removed += 1;
                    old = old.saturating_sub(1);
                }
                Kind::Hunk | Kind::Same => (old, new) = (old.saturating_sub(1), new.saturating_sub(1)),
            }
            file.lines.push(line);
        } else if let Some((before, after)) = hunk(line) {
            (old, new) = (before, after);
            file.lines.push(line);
        } else if line.starts_with('\\') {
            // "No newline at end of file" belongs to the line before it.
            file.lines.push(line);
        } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
            file.binary = true;
        } else if ["new file", "deleted file", "rename ", "copy ", "old mode", "new mode"]
            .iter()
            .any(|word| line.starts_with(word))
        {
            file.notes.push(line);
        }
    }
    files
}

/// The path in `a/PATH b/PATH`.
fn name(rest: &str) -> String {
    let path = rest.rsplit_once(" b/").or_else(|| rest.rsplit_once(" \"b/")).map_or(rest, |(_, path)| path);
    path.trim_end_matches('"').to_owned()
}

/// `@@ -1,2 +3,4 @@`: how many lines of the old and of the new file follow.
fn hunk(line: &str) -> Option<(usize, usize)> {
    let mut words = line.strip_prefix("@@ -")?.split(' ');
    let count = |range: &str| range.split_once(',').map_or(Some(1), |(_, count)| count.parse().ok());
    Some((count(words.next()?)?, count(words.next()?.strip_prefix('+')?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "diff --git a/src/a.rs b/src/a.rs\nindex 1..2 100644\n--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,3 +1,3 @@ fn a\n x\n--- no head\n+++ <b>\n y\n\\ No newline at end of file\ndiff --git \"a/b \\303.txt\" \"b/b \\303.txt\"\nnew file mode 100644\nGIT binary patch\nliteral 5\nMc$`)@\n";

    fn html(patch: &str, max: usize) -> String {
        let mut html = Html::default();
        draw(&mut html, patch, 0, max, true);
        html.into_string()
    }

    #[test]
    fn lines_are_counted_and_coloured_by_runs() {
        let text = html(PATCH, 10_000);
        assert!(text.contains("2 files, <span class=\"plus\">+1</span> <span class=\"minus\">−1</span>"), "{text}");
        assert!(
            text.contains("<b>@@ -1,3 +1,3 @@ fn a\n</b> x\n<del>--- no head\n</del><ins>+++ &lt;b&gt;\n</ins> y\n"),
            "{text}"
        );
        assert!(
            text.contains("<code>b \\303.txt</code> <small>new file mode 100644 · ") && text.contains("binary"),
            "{text}"
        );
        assert_eq!(html("", 100), "");
        assert_eq!(html("no patch\n", 100), "");
    }

    #[test]
    fn a_patch_without_end_is_cut_and_says_so() {
        let mut patch = String::new();
        for file in 0..1_000 {
            let lines = if file == 0 { 20_000 } else { 2 };
            patch += &format!("diff --git a/f{file} b/f{file}\n@@ -0,0 +1,{lines} @@\n");
            patch += &"+line\n".repeat(lines);
        }
        let text = html(&patch, 30_000);
        assert!(text.len() < 33_000, "{}", text.len());
        assert!(text.contains("more lines are left out here") && text.contains("more files are left out here"));
        let long = format!("diff --git a/f b/f\n@@ -0,0 +1,1 @@\n+{}\n", "x".repeat(1_000_000));
        assert!(html(&long, 30_000).len() < 2_000);
    }
}
