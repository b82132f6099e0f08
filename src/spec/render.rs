//! The one renderer of diagnostics, in the look of rustc. Keys and passwords that stand in a text are starred out.

use super::diagnostic::{Code, Diagnostic, Level};
use super::secret;
use super::source::{Place, SourceFile};
use annotate_snippets::{Annotation, AnnotationKind, Group, Level as Shown, Renderer, Snippet};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Whether text for people carries colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// No escape sequences at all.
    Plain,
    /// ANSI colours.
    Colour,
}

/// Renders one diagnostic; the text ends with a line break.
pub fn render(diagnostic: &Diagnostic, paint: Paint) -> String {
    render_hiding(diagnostic, paint, &secrets(std::slice::from_ref(diagnostic)))
}

/// The places that hold keys or passwords, as far as diagnostics know.
fn secrets(diagnostics: &[Diagnostic]) -> Vec<Place> {
    let found = diagnostics.iter().filter(|diagnostic| diagnostic.code == Code::SecretInFile);
    found.filter_map(|diagnostic| diagnostic.at.as_ref()).map(|(place, _)| place.clone()).collect()
}

fn renderer(paint: Paint) -> Renderer {
    match paint {
        Paint::Plain => Renderer::plain(),
        Paint::Colour => Renderer::styled(),
    }
}

fn render_hiding(diagnostic: &Diagnostic, paint: Paint, secrets: &[Place]) -> String {
    let title = match diagnostic.level {
        Level::Error => Shown::ERROR,
        Level::Warning => Shown::WARNING,
    };
    let message = secret::masked(&diagnostic.message);
    let mut group = Group::with_title(title.primary_title(message).id(diagnostic.code.text()));
    for (file, marks) in by_file(diagnostic) {
        let mut snippet = Snippet::source(shown_text(&file, secrets)).path(file.name().to_owned());
        for (kind, span, label) in marks {
            snippet = snippet.annotation(annotation(kind, span, label));
        }
        group = group.element(snippet);
    }
    for note in &diagnostic.notes {
        group = group.element(Shown::NOTE.message(secret::masked(note)));
    }
    for help in &diagnostic.help {
        group = group.element(Shown::HELP.message(secret::masked(help)));
    }
    let lines = renderer(paint).render(&[group]);
    lines.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Renders all of them, an empty line between two, and counts them in a last line when there is an error.
pub fn render_all(diagnostics: &[Diagnostic], paint: Paint) -> String {
    let secrets = secrets(diagnostics);
    let shown = diagnostics.iter().map(|diagnostic| render_hiding(diagnostic, paint, &secrets));
    let mut blocks: Vec<String> = shown.collect();
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
    if errors > 0 {
        let count = if errors == 1 { "1 error".to_owned() } else { format!("{errors} errors") };
        let title = Group::with_title(Shown::ERROR.primary_title(format!("{count}, nothing was run")));
        blocks.push(renderer(paint).render(&[title]) + "\n");
    }
    blocks.join("\n")
}

type Mark<'a> = (AnnotationKind, Range<usize>, &'a str);

/// The places by file, in the order in which the files are first named.
fn by_file(diagnostic: &Diagnostic) -> Vec<(Arc<SourceFile>, Vec<Mark<'_>>)> {
    let first = diagnostic.at.iter().map(|(place, label)| (AnnotationKind::Primary, place, label));
    let others = diagnostic.also.iter().map(|(place, label)| (AnnotationKind::Context, place, label));
    let mut files: Vec<(Arc<SourceFile>, Vec<Mark<'_>>)> = Vec::new();
    for (kind, place, label) in first.chain(others) {
        let mark = (kind, first_line(place), label.as_str());
        match files.iter_mut().find(|(file, _)| Arc::ptr_eq(file, &place.file)) {
            Some((_, marks)) => marks.push(mark),
            None => files.push((Arc::clone(&place.file), vec![mark])),
        }
    }
    files
}

/// The span up to the end of its first line: a long prompt is not printed whole.
fn first_line(place: &Place) -> Range<usize> {
    let text = place.text();
    let end = text.find('\n').map_or(text.len(), |at| text[..at].trim_end_matches('\r').len());
    place.span.start..place.span.start + end
}

fn annotation<'a>(kind: AnnotationKind, span: Range<usize>, label: &'a str) -> Annotation<'a> {
    let label: Option<Cow<'a, str>> = (!label.is_empty()).then(|| secret::masked(label).into());
    kind.span(span).label(label)
}

/// The text as it may be shown.
fn shown_text(file: &Arc<SourceFile>, secrets: &[Place]) -> String {
    let mut text = secret::masked(file.text());
    for place in secrets.iter().filter(|place| Arc::ptr_eq(&place.file, file)) {
        text.replace_range(place.span.clone(), &secret::stars(place.text(), 1));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::source::Layer;
    use super::*;

    #[test]
    fn a_diagnostic_without_a_file_is_shown_too() {
        let diagnostic = Diagnostic::error(Code::KeyMissing, "`X` is not set").note("job `a` needs it").help("set it");
        assert_eq!(
            render(&diagnostic, Paint::Plain),
            "error[key-missing]: `X` is not set\n |\n = note: job `a` needs it\n = help: set it\n"
        );
    }

    #[test]
    fn no_key_is_ever_printed() {
        let file = SourceFile::new(Layer::Job, "a.toml", "", "k = \"sk-ant-0123456789abcdef\", v = 1\n");
        let other = Diagnostic::error(Code::WrongType, "`v` is sk-ant-0123456789abcdef").at(Place::whole(&file), "");
        assert!(!render(&other, Paint::Plain).contains("0123"), "{}", render(&other, Paint::Plain));
        let file = SourceFile::new(Layer::Job, "a.toml", "", "authorization = \"Bearer topsecret\"\n");
        let secret = Diagnostic::error(Code::SecretInFile, "m").at(Place::new(&file, 16..34), "");
        assert!(!render(&secret, Paint::Plain).contains("topsecret"), "{}", render(&secret, Paint::Plain));
        let neighbour = Diagnostic::error(Code::UnknownKey, "m").at(Place::new(&file, 0..13), "");
        assert!(!render_all(&[neighbour, secret], Paint::Plain).contains("topsecret"));
    }

    #[test]
    fn colour_is_escape_sequences_and_plain_has_none() {
        let diagnostic = Diagnostic::warning(Code::PriceUnknown, "m");
        assert!(!render(&diagnostic, Paint::Plain).contains('\u{1b}'));
        assert!(render(&diagnostic, Paint::Colour).contains('\u{1b}'));
    }
}
