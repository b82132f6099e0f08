//! What is kept of a command's output: its beginning and its end in memory, all of it in a file, each up to a bound.

use super::Live;
use std::collections::VecDeque;
use std::path::PathBuf;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

/// What to keep of an output. Memory never exceeds `head + tail`, whatever is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Bytes kept from the beginning.
    pub head: usize,
    /// Bytes kept from the end.
    pub tail: usize,
    /// A file for the whole output; made anew, its folder too.
    pub file: Option<PathBuf>,
    /// The most bytes that go into the file; a line at its end says that more was written.
    pub file_limit: u64,
}

impl Default for Capture {
    /// 32 KiB of the beginning and 96 KiB of the end (errors come last), no file, at most 64 MiB in one.
    fn default() -> Self {
        Self { head: 32 << 10, tail: 96 << 10, file: None, file_limit: 64 << 20 }
    }
}

/// What was kept of an output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The beginning.
    pub head: Vec<u8>,
    /// The end; follows the beginning directly when `total` is the sum of both.
    pub tail: Vec<u8>,
    /// How many bytes were written in all.
    pub total: u64,
    /// Why the file does not hold the output, should it not.
    pub file_error: Option<String>,
}

impl Output {
    /// How many bytes between beginning and end were not kept.
    #[must_use]
    pub fn omitted(&self) -> u64 {
        self.total.saturating_sub((self.head.len() + self.tail.len()) as u64)
    }

    /// As text: invalid UTF-8 replaced, and a line in place of what was not kept.
    #[must_use]
    pub fn text(&self) -> String {
        let omitted = self.omitted();
        if omitted == 0 {
            let whole = [self.head.as_slice(), self.tail.as_slice()].concat();
            return String::from_utf8_lossy(&whole).into_owned();
        }
        let head = without_cut_end(&self.head);
        let tail = without_cut_start(&self.tail);
        let omitted = omitted + (self.head.len() - head.len() + self.tail.len() - tail.len()) as u64;
        let head = String::from_utf8_lossy(head);
        let gap = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
        format!("{head}{gap}[{omitted} bytes left out]\n{}", String::from_utf8_lossy(tail))
    }
}

/// Without a character at the end whose last bytes are missing.
pub(super) fn without_cut_end(bytes: &[u8]) -> &[u8] {
    let longest = bytes.len().min(3);
    for back in 1..=longest {
        let start = bytes.len() - back;
        let needed = match bytes[start] {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            0x80..=0xBF => continue,
            _ => return bytes,
        };
        return if needed > back { &bytes[..start] } else { bytes };
    }
    bytes
}

/// Without the rest of a character whose first bytes are missing.
fn without_cut_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| matches!(byte, 0x80..=0xBF)).count();
    &bytes[rest..]
}

/// The part of an output that is held in memory: its beginning and its end, each up to a bound.
#[derive(Debug)]
pub(super) struct Held {
    /// The most bytes of the beginning.
    most_head: usize,
    /// The most bytes of the end.
    most_tail: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Held {
    pub(super) const fn new(most_head: usize, most_tail: usize) -> Self {
        Self { most_head, most_tail, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    /// Takes in the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(self.most_head - self.head.len()));
        self.head.extend_from_slice(head);
        let newest = &rest[rest.len().saturating_sub(self.most_tail)..];
        let surplus = (self.tail.len() + newest.len()).saturating_sub(self.most_tail);
        self.tail.drain(..surplus);
        self.tail.extend(newest);
        self.total += bytes.len() as u64;
    }

    /// Gives out what was taken in, and begins anew.
    pub(super) fn take(&mut self) -> Output {
        let Self { head, tail, total, .. } = std::mem::replace(self, Self::new(self.most_head, self.most_tail));
        Output { head, tail: tail.into(), total, file_error: None }
    }

    /// The bytes that are held.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.head.capacity() + self.tail.capacity()
    }
}

/// Takes an output in as it comes.
pub(super) struct Recorder {
    limits: Capture,
    held: Held,
    /// Somebody who reads along.
    live: Option<Live>,
    file: Option<File>,
    file_error: Option<String>,
}

impl Recorder {
    /// Makes the file, where one is wanted. A file that cannot be made is no reason not to run.
    pub(super) async fn open(limits: Capture, live: Option<Live>) -> Self {
        let held = Held::new(limits.head, limits.tail);
        let mut recorder = Self { limits, held, live, file: None, file_error: None };
        if let Some(path) = recorder.limits.file.clone() {
            if let Some(folder) = path.parent() {
                // A failure shows when the file is made.
                drop(tokio::fs::create_dir_all(folder).await);
            }
            match File::create(&path).await {
                Ok(file) => recorder.file = Some(file),
                Err(error) => recorder.file_error = Some(format!("cannot create {}: {error}", path.display())),
            }
        }
        recorder
    }

    /// Takes in the next bytes.
    pub(super) async fn push(&mut self, bytes: &[u8]) {
        let before = self.held.total;
        self.held.push(bytes);
        if let Some(live) = &self.live {
            live.push(bytes);
        }
        if let Some(file) = &mut self.file {
            let room = self.limits.file_limit.saturating_sub(before);
            let fitting = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
            let mut result = file.write_all(&bytes[..fitting]).await;
            if result.is_ok() && fitting < bytes.len() {
                let note = format!("\n[what follows the first {} bytes was not kept]\n", self.limits.file_limit);
                result = file.write_all(note.as_bytes()).await;
                self.close_file().await;
            }
            self.note_error(result);
        }
    }

    /// Ends the recording.
    pub(super) async fn finish(mut self) -> Output {
        self.close_file().await;
        Output { file_error: self.file_error, ..self.held.take() }
    }

    async fn close_file(&mut self) {
        if let Some(mut file) = self.file.take() {
            let result = file.flush().await;
            self.note_error(result);
        }
    }

    fn note_error(&mut self, result: std::io::Result<()>) {
        if let (Err(error), Some(path)) = (result, &self.limits.file) {
            self.file_error.get_or_insert_with(|| format!("cannot write {}: {error}", path.display()));
            self.file = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn record(head: usize, tail: usize, parts: &[&[u8]]) -> Output {
        let mut recorder = Recorder::open(Capture { head, tail, file: None, file_limit: 0 }, None).await;
        for part in parts {
            recorder.push(part).await;
        }
        recorder.finish().await
    }

    #[tokio::test]
    async fn a_short_output_is_kept_whole() {
        let output = record(4, 4, &[b"abc", b"def"]).await;
        assert_eq!((output.text().as_str(), output.total, output.omitted()), ("abcdef", 6, 0));
        assert_eq!(record(4, 4, &[b"abcdefgh"]).await.text(), "abcdefgh");
        assert_eq!(record(0, 4, &[]).await.text(), "");
    }

    #[tokio::test]
    async fn a_long_output_keeps_its_beginning_and_its_end_and_says_what_is_missing() {
        let output = record(4, 3, &[b"abcdefgh", b"ij", b"klm"]).await;
        assert_eq!((output.head.as_slice(), output.tail.as_slice(), output.total), (&b"abcd"[..], &b"klm"[..], 13));
        insta::assert_snapshot!(output.text(), @"
        abcd
        [6 bytes left out]
        klm
        ");
    }

    #[tokio::test]
    async fn no_character_is_cut_in_two() {
        // Four and three bytes: the head ends within the first character, the tail starts within another.
        let output = record(3, 4, &["😀xxxx€yy".as_bytes()]).await;
        assert_eq!(output.text(), "[11 bytes left out]\nyy");
        assert_eq!(record(4, 5, &["😀xxxx€yy".as_bytes()]).await.text(), "😀\n[4 bytes left out]\n€yy");
        assert_eq!(record(2, 9, &["é€".as_bytes()]).await.text(), "é€");
        assert_eq!(record(1, 1, &[b"\xff\x80\x80\xfe"]).await.text(), "\u{fffd}\n[2 bytes left out]\n\u{fffd}");
    }

    #[tokio::test]
    async fn b136_memory_is_bounded_at_the_reader() {
        let mut recorder = Recorder::open(Capture { head: 1000, tail: 3000, file: None, file_limit: 0 }, None).await;
        let chunk = [b'y'; 8192];
        for _ in 0..10_000 {
            recorder.push(&chunk).await;
            assert!(recorder.held.size() <= 16_384, "{} bytes held", recorder.held.size());
        }
        assert_eq!(recorder.finish().await.omitted(), 81_920_000 - 4000);
    }

    #[tokio::test]
    async fn the_file_holds_all_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/log");
        let limits = Capture { head: 1, tail: 1, file: Some(path.clone()), file_limit: 10 };
        for (parts, expected) in [
            (vec!["12345", "67890"], "1234567890"),
            (vec!["12345", "67890x", "more"], "1234567890\n[what follows the first 10 bytes was not kept]\n"),
        ] {
            let mut recorder = Recorder::open(limits.clone(), None).await;
            for part in parts {
                recorder.push(part.as_bytes()).await;
            }
            assert_eq!(recorder.finish().await.file_error, None);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_written_is_told_and_changes_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Capture { file: Some(folder.path().into()), ..Capture::default() };
        let mut recorder = Recorder::open(limits, None).await;
        recorder.push(b"text").await;
        let output = recorder.finish().await;
        assert_eq!(output.text(), "text");
        assert!(output.file_error.unwrap().contains("cannot create"));
    }
}
