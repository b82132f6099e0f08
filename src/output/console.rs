//! The door to standard output and standard error. A closed pipe at the other end ends no run.

use super::file::Files;
use crate::report::github;
use std::fmt;
use std::io::Write;

/// Which of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Results.
    Out,
    /// Progress and warnings.
    Err,
}

/// Who reads the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// A person or a file.
    Plain,
    /// GitHub Actions, which takes some lines for commands.
    Github,
}

/// Both streams, as a pair so that tests can look.
pub(super) struct Console {
    files: Files,
    reader: Reader,
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").field("reader", &self.reader).finish_non_exhaustive()
    }
}

impl Console {
    /// The process's own streams.
    pub(super) fn new(files: Files, reader: Reader) -> Self {
        Self::to(files, reader, Box::new(std::io::stdout()), Box::new(std::io::stderr()))
    }

    /// Other streams.
    pub(super) fn to(files: Files, reader: Reader, out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> Self {
        Self { files, reader, out, err }
    }

    /// Text of one or more lines.
    pub(super) fn text(&mut self, stream: Stream, text: &str) {
        let text = self.files.redacted(text);
        let text = match self.reader {
            Reader::Plain => text,
            Reader::Github => text.lines().map(|line| github::inert(line) + "\n").collect(),
        };
        self.write(stream, &text);
    }

    /// One line of JSON, without its newline.
    pub(super) fn json(&mut self, stream: Stream, line: &str) {
        let line = self.files.redacted(line);
        let line = match self.reader {
            Reader::Plain => line,
            Reader::Github => github::inert_json(&line),
        };
        self.write(stream, &(line + "\n"));
    }

    /// A line that GitHub is meant to take for a command; nothing for other readers.
    pub(super) fn command(&mut self, stream: Stream, line: &str) {
        match self.reader {
            Reader::Plain => {}
            Reader::Github => {
                let line = self.files.redacted(line);
                self.write(stream, &(line + "\n"));
            }
        }
    }

    fn write(&mut self, stream: Stream, text: &str) {
        let stream = match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        };
        // Whoever listened has gone: the reports are on disk, and the run goes on.
        stream.write_all(text.as_bytes()).and_then(|()| stream.flush()).ok();
    }
}
