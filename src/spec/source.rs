//! A text that settings come from, and the way from a byte to its line and column.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which layer of settings a text belongs to; a later one wins over an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The defaults that are built in.
    BuiltIn,
    /// `[defaults]` of `runner.toml`.
    Settings,
    /// A job file, standard input, or the text of `--prompt`.
    Job,
    /// Another flag of the command line.
    Flag,
}

/// A text that settings come from: a file, standard input or a flag.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceFile {
    layer: Layer,
    name: String,
    folder: PathBuf,
    text: String,
}

impl SourceFile {
    /// A text with its name as the person gave it, and the folder that its relative paths start from.
    ///
    /// A byte order mark at the start is dropped: it belongs to no line.
    pub fn new(layer: Layer, name: impl Into<String>, folder: impl Into<PathBuf>, text: &str) -> Arc<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
        Arc::new(Self { layer, name: name.into(), folder: folder.into(), text })
    }

    /// Which layer of settings it belongs to.
    pub const fn layer(&self) -> Layer {
        self.layer
    }

    /// Its name as the person gave it: a path, `-`, or a flag.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder that its relative paths start from.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The whole text, without a byte order mark.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Line and column of a byte, both counted from 1; the column counts characters. Past the end: the last place.
    pub fn line_column(&self, offset: usize) -> (usize, usize) {
        let before = &self.text[..floor_boundary(&self.text, offset)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// A path that stands in this text, as a person would say it from where the text was named.
    pub fn shown_path(&self, path: &str) -> String {
        match Path::new(&self.name).parent() {
            Some(parent) if self.layer != Layer::Flag && !parent.as_os_str().is_empty() => {
                parent.join(path).display().to_string()
            }
            _ => path.to_owned(),
        }
    }
}

/// A span of bytes in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The text.
    pub file: Arc<SourceFile>,
    /// The bytes, within the text and on character boundaries.
    pub span: Range<usize>,
}

impl Place {
    /// A span of a text; what lies outside is cut off.
    pub fn new(file: &Arc<SourceFile>, span: Range<usize>) -> Self {
        let start = floor_boundary(file.text(), span.start);
        let end = floor_boundary(file.text(), span.end.max(start));
        Self { file: Arc::clone(file), span: start..end.max(start) }
    }

    /// The whole text.
    pub fn whole(file: &Arc<SourceFile>) -> Self {
        Self::new(file, 0..file.text().len())
    }

    /// The text at this place.
    pub fn text(&self) -> &str {
        &self.file.text()[self.span.clone()]
    }

    /// The first occurrence of `part` within this place, or the place itself.
    #[must_use]
    pub fn narrowed(&self, part: &str) -> Self {
        match self.text().find(part) {
            Some(at) => {
                let start = self.span.start + at;
                Self { file: Arc::clone(&self.file), span: start..start + part.len() }
            }
            None => self.clone(),
        }
    }

    /// Where a value comes from, in a few words: `jobs/a.toml:4`, `--model`, `built-in`.
    pub fn origin(&self) -> String {
        match self.file.layer() {
            Layer::BuiltIn => "built-in".into(),
            Layer::Flag => self.file.name().into(),
            Layer::Settings | Layer::Job => {
                format!("{}:{}", self.file.name(), self.file.line_column(self.span.start).0)
            }
        }
    }
}

/// The nearest character boundary at or before `offset`, at most the end.
fn floor_boundary(text: &str, offset: usize) -> usize {
    let mut at = offset.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Arc<SourceFile> {
        SourceFile::new(Layer::Job, "jobs/a.toml", "/r/jobs", text)
    }

    #[test]
    fn lines_and_columns_count_characters_and_survive_any_offset() {
        let file = file("a = 1\r\né = 2\n");
        assert_eq!(file.line_column(0), (1, 1));
        assert_eq!(file.line_column(7), (2, 1));
        assert_eq!(file.line_column(8), (2, 1), "inside of a character: its start");
        assert_eq!(file.line_column(9), (2, 2));
        assert_eq!(file.line_column(999), (3, 1));
    }

    #[test]
    fn a_byte_order_mark_belongs_to_no_line() {
        assert_eq!(file("\u{feff}a = 1").text(), "a = 1");
    }

    #[test]
    fn a_place_knows_its_text_and_origin() {
        let file = file("x = 1\ny = \"{{ run }}\"\n");
        let place = Place::new(&file, 10..21);
        assert_eq!(place.narrowed("{{ run }}").text(), "{{ run }}");
        assert_eq!(place.narrowed("absent"), place);
        assert_eq!(place.origin(), "jobs/a.toml:2");
        assert_eq!(Place::new(&file, 500..900).text(), "");
        assert_eq!(file.shown_path("x.md"), "jobs/x.md");
    }
}
