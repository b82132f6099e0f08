//! The output of a command, read piece by piece while the command runs.

use super::Output;
use super::capture::{Held, without_cut_end};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a running command has written since somebody last looked. Clones share it.
///
/// Of what nobody takes only the beginning and the end are held, as by [`Capture`](super::Capture).
#[derive(Clone, Debug)]
pub struct Live(Arc<Mutex<Held>>);

impl Live {
    /// Holds so many bytes of the beginning and of the end of what was not taken yet.
    #[must_use]
    pub fn new(head: usize, tail: usize) -> Self {
        Self(Arc::new(Mutex::new(Held::new(head, tail))))
    }

    /// Takes what is new. A character or an escape sequence that has only begun waits for the rest.
    #[must_use]
    pub fn take(&self) -> Output {
        let mut held = self.lock();
        let mut output = held.take();
        let last = if output.tail.is_empty() { &mut output.head } else { &mut output.tail };
        let cut = last.split_off(finished(last).len());
        output.total -= cut.len() as u64;
        held.push(&cut);
        output
    }

    /// Takes all that there is: for a command that has ended.
    #[must_use]
    pub fn take_rest(&self) -> Output {
        self.lock().take()
    }

    pub(super) fn push(&self, bytes: &[u8]) {
        self.lock().push(bytes);
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Without what has only begun at the end.
fn finished(bytes: &[u8]) -> &[u8] {
    const LONGEST: usize = 64; // What looks like a longer sequence is none.
    let bytes = without_cut_end(bytes);
    let window = bytes.len().saturating_sub(LONGEST);
    let Some(at) = bytes[window..].iter().rposition(|byte| *byte == 0x1b) else { return bytes };
    let (before, sequence) = bytes.split_at(window + at);
    let whole = match sequence.get(1) {
        None => false,
        Some(b'[') => sequence[2..].iter().any(|byte| matches!(byte, 0x40..=0x7e)),
        Some(b']') => sequence.contains(&0x07),
        Some(_) => true,
    };
    if whole { bytes } else { before }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_look_shows_what_is_new() {
        let live = Live::new(4, 3);
        assert_eq!(live.take(), Output::default());
        live.push(b"abc");
        assert_eq!(live.take().text(), "abc");
        live.push(b"defghijkl");
        let output = live.take();
        assert_eq!((output.text().as_str(), output.total), ("defg\n[2 bytes left out]\njkl", 9));
        assert_eq!(live.take_rest().text(), "");
    }

    #[test]
    fn b040_a_character_that_is_half_there_waits() {
        let live = Live::new(10, 10);
        live.push(b"a\xe2\x82");
        assert_eq!((live.take().text().as_str(), live.take().total), ("a", 0));
        live.push(b"\xacb");
        assert_eq!(live.take().text(), "\u{20ac}b");
        live.push(b"\xe2");
        assert_eq!(live.take_rest().text(), "\u{fffd}");
    }

    #[test]
    fn an_escape_sequence_that_has_begun_waits() {
        let live = Live::new(1_000, 1_000);
        for (start, rest) in [("\x1b", "[1mb"), ("\x1b[3", "1mb"), ("\x1b]0;tit", "le\x07b")] {
            live.push(format!("a{start}").as_bytes());
            assert_eq!(live.take().text(), "a");
            live.push(rest.as_bytes());
            assert_eq!(live.take().text(), format!("{start}{rest}"));
        }
        live.push(format!("\x1b[{}", "1;".repeat(100)).as_bytes());
        assert_eq!(live.take().total, 202);
    }

    #[test]
    fn b136_what_nobody_takes_is_bounded() {
        let live = Live::new(1_000, 3_000);
        for _ in 0..50_000 {
            live.push(&[b'y'; 8_192]);
            assert!(live.lock().size() <= 16_384);
        }
        assert_eq!(live.take().total, 409_600_000);
        assert_eq!(live.lock().size(), 0);
    }
}
