//! Reads texts, bounded in size.

use crate::error::Error;
use crate::spec::{Code, Diagnostic, Layer, Place, SourceFile};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// The largest text that is read: a device or a log that was named by mistake must not fill the memory.
pub(super) const LIMIT: u64 = 8 * 1024 * 1024;

/// The text of a file, or its bytes where they are not UTF-8.
pub(super) fn read_text(path: &Path) -> io::Result<Result<String, Vec<u8>>> {
    if path.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
    }
    bounded(std::fs::File::open(path)?)
}

/// The same, from an open reader.
pub(super) fn bounded(reader: impl Read) -> io::Result<Result<String, Vec<u8>>> {
    let mut bytes = Vec::new();
    reader.take(LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LIMIT {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 8 MiB"));
    }
    Ok(String::from_utf8(bytes).map_err(std::string::FromUtf8Error::into_bytes))
}

/// A text of settings; where it is not UTF-8, with the finding that says so.
pub(super) type Source = (Arc<SourceFile>, Option<Diagnostic>);

/// Reads a file of settings.
pub(super) fn source(layer: Layer, shown: &str, path: &Path) -> Result<Source, Error> {
    let folder = path.parent().unwrap_or(path);
    let text = read_text(path).map_err(|error| Error::io("read", Path::new(shown), &error))?;
    Ok(as_source(layer, shown, folder, text))
}

/// A text that was read, as a source.
pub(super) fn as_source(layer: Layer, shown: &str, folder: &Path, text: Result<String, Vec<u8>>) -> Source {
    match text {
        Ok(text) => (SourceFile::new(layer, shown, folder, &text), None),
        Err(bytes) => {
            let file = SourceFile::new(layer, shown, folder, &String::from_utf8_lossy(&bytes));
            let bad = file.text().find('\u{fffd}').unwrap_or(0);
            let place = Place::new(&file, bad..bad + '\u{fffd}'.len_utf8());
            let fault = Diagnostic::error(Code::NotUtf8, "the file is not UTF-8 text")
                .at(place, "these bytes are no character")
                .help("save it as UTF-8");
            (file, Some(fault))
        }
    }
}
