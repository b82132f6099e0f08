//! Server-sent events: bytes in, frames out. Pure, and linear in the bytes whatever their chunks are.
//!
//! The rules are those of the WHATWG standard with one addition: what is pending at the end of the stream is handed out
//! by [`Decoder::finish`], since some servers leave out the last blank line. The caller decides whether to believe it.

use std::fmt;

/// One event of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The event's name; `message` when the stream gave none.
    pub event: String,
    /// The `data` lines, joined by line feeds; may be empty.
    pub data: String,
    /// The last id that the stream set, this event's included; empty when there is none.
    pub id: String,
}

/// An event was larger than the decoder's cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// The cap, in bytes.
    pub cap: usize,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one event of the stream is larger than {} MiB", self.cap >> 20)
    }
}

/// Turns the bytes of a stream into frames.
#[derive(Debug)]
pub struct Decoder {
    cap: usize,
    /// The start of a line whose end has not come yet.
    line: Vec<u8>,
    /// No line has ended yet: a byte order mark may stand before this one.
    first_line: bool,
    /// The last line ended with CR: an LF that follows belongs to the same line end.
    after_cr: bool,
    event: String,
    data: String,
    has_data: bool,
    id: String,
    retry: Option<u64>,
}

impl Decoder {
    /// The usual cap of one event: the size of the largest request that the API takes.
    pub const CAP: usize = 32 << 20;

    /// A decoder at the start of a stream. An event or a line of more than `cap` bytes is an error.
    #[must_use]
    pub const fn new(cap: usize) -> Self {
        Self {
            cap,
            line: Vec::new(),
            first_line: true,
            after_cr: false,
            event: String::new(),
            data: String::new(),
            has_data: false,
            id: String::new(),
            retry: None,
        }
    }

    /// Takes the next bytes and appends the frames that they complete.
    ///
    /// # Errors
    /// When an event outgrows the cap; the decoder is then of no further use.
    pub fn push(&mut self, mut bytes: &[u8], frames: &mut Vec<Frame>) -> Result<(), TooLarge> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes.first() == Some(&b'\n') {
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.room_for(bytes.len())?;
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            let (rest_of_line, after) = bytes.split_at(end);
            self.room_for(rest_of_line.len())?;
            self.after_cr = after.first() == Some(&b'\r');
            bytes = after.get(1..).unwrap_or_default();
            if self.line.is_empty() {
                self.take_line(rest_of_line, frames);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(rest_of_line);
                self.take_line(&line, frames);
                line.clear();
                self.line = line; // Keeps its room for the next line that is split.
            }
        }
        Ok(())
    }

    /// The end of the stream: what is pending, as if a blank line had followed.
    #[must_use]
    pub fn finish(mut self) -> Option<Frame> {
        let mut frames = Vec::new();
        let line = std::mem::take(&mut self.line);
        self.take_line(&line, &mut frames);
        self.take_line(b"", &mut frames);
        frames.pop()
    }

    /// The reconnection time that the stream asked for, in milliseconds.
    #[must_use]
    pub const fn retry(&self) -> Option<u64> {
        self.retry
    }

    const fn room_for(&self, more: usize) -> Result<(), TooLarge> {
        let held = self.line.len().saturating_add(self.data.len()).saturating_add(self.event.len());
        if held.saturating_add(more) > self.cap { Err(TooLarge { cap: self.cap }) } else { Ok(()) }
    }

    fn take_line(&mut self, mut line: &[u8], frames: &mut Vec<Frame>) {
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(frames);
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(0) => return,
            Some(colon) => {
                let (field, rest) = line.split_at(colon);
                let value = rest.get(1..).unwrap_or_default();
                (field, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &b""[..]),
        };
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                // A line holds whole characters: line ends are never part of one.
                self.data.push_str(&String::from_utf8_lossy(value));
                self.has_data = true;
            }
            b"event" => self.event = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => self.id = String::from_utf8_lossy(value).into_owned(),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                self.retry = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok()).or(self.retry);
            }
            _ => {}
        }
    }

    fn dispatch(&mut self, frames: &mut Vec<Frame>) {
        let event = std::mem::take(&mut self.event);
        let data = std::mem::take(&mut self.data);
        if std::mem::take(&mut self.has_data) {
            let event = if event.is_empty() { "message".to_owned() } else { event };
            frames.push(Frame { event, data, id: self.id.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(chunks: &[&[u8]]) -> (Vec<Frame>, Option<Frame>, Option<u64>) {
        let mut decoder = Decoder::new(Decoder::CAP);
        let mut frames = Vec::new();
        for chunk in chunks {
            decoder.push(chunk, &mut frames).unwrap();
        }
        let retry = decoder.retry();
        (frames, decoder.finish(), retry)
    }

    /// The data of all frames of a stream that comes in one piece.
    fn data(stream: &str) -> Vec<String> {
        decode(&[stream.as_bytes()]).0.into_iter().map(|frame| frame.data).collect()
    }

    #[test]
    fn case_01_data_lines_are_joined() {
        assert_eq!(data("data:msg\ndata:msg\n\n"), ["msg\nmsg"]);
    }

    #[test]
    fn case_02_an_empty_data_field_is_an_event() {
        assert_eq!(data("data\n\n"), [""]);
        assert_eq!(data("data:\n\n"), [""]);
        assert_eq!(data("data\ndata\n\n"), ["\n"]);
    }

    #[test]
    fn case_03_what_has_no_data_is_no_event() {
        for stream in [":comment\n\n", "falsefield:x\n\n", "Data:x\n\n", "event: a\n\n", "\n\n\n"] {
            assert_eq!(data(stream), Vec::<String>::new(), "{stream:?}");
        }
        let after = decode(&[b"event: a\n\ndata: x\n\n"]).0;
        assert_eq!(after[0].event, "message", "the name of a dropped event does not live on");
    }

    #[test]
    fn case_04_one_space_after_the_colon_is_dropped() {
        assert_eq!(data("data: a\n\ndata:a\n\ndata:  a\n\ndata:\ta\n\n"), ["a", "a", " a", "\ta"]);
    }

    #[test]
    fn case_05_06_one_mark_at_the_start_is_dropped() {
        assert_eq!(data("\u{feff}data:1\n\n"), ["1"]);
        assert_eq!(data("\u{feff}\u{feff}data:1\n\ndata:2\n\n"), ["2"]);
        let bytes = "\u{feff}data:1\n\n".as_bytes();
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(decode(&single).0.len(), 1);
    }

    #[test]
    fn case_07_08_b048_every_line_end_works_across_chunks() {
        assert_eq!(data("data:1\r\rdata:2\r\n\r\n"), ["1", "2"]);
        let frames = decode(&[b"data:1\r", b"\n\r", b"\n"]).0;
        assert_eq!(frames.len(), 1);
        assert_eq!(data("data:1\n\rdata:2\n\n"), ["1", "2"], "LF CR is two line ends");
    }

    #[test]
    fn case_09_10_18_ids_last_and_nul_is_refused() {
        let ids = |stream: &str| -> Vec<String> { decode(&[stream.as_bytes()]).0.into_iter().map(|f| f.id).collect() };
        assert_eq!(ids("id:1\ndata:a\n\ndata:b\n\n"), ["1", "1"]);
        assert_eq!(ids("id:1\ndata:a\n\nid:a\0b\ndata:x\n\n"), ["1", "1"]);
        assert_eq!(ids("id:1\ndata:a\n\nid\ndata:x\n\n"), ["1", ""]);
    }

    #[test]
    fn case_11_a_bogus_retry_is_ignored() {
        assert_eq!(decode(&[b"retry:2000\nretry:1000x\nretry:\nretry:-1\n"]).2, Some(2000));
    }

    #[test]
    fn case_12_b051_the_end_hands_out_what_is_pending() {
        for stream in ["data:x\n", "data:x", "data:x\r", "event: e\ndata:x"] {
            let (frames, pending, _) = decode(&[stream.as_bytes()]);
            assert!(frames.is_empty(), "{stream:?}");
            assert_eq!(pending.unwrap().data, "x", "{stream:?}");
        }
        assert_eq!(decode(&[b"data:x\n\n"]).1, None);
        assert_eq!(decode(&[b"event: x\n: c"]).1, None);
    }

    #[test]
    fn case_13_b050_characters_survive_any_cut() {
        let stream = "data:{\"a\":\"€ 你好🚀é\"}\n\n".as_bytes();
        let single: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(decode(&single).0[0].data, "{\"a\":\"€ 你好🚀é\"}");
        assert_eq!(decode(&[b"data:\xff\xe2\x82\n\n"]).0[0].data, "\u{fffd}\u{fffd}");
    }

    #[test]
    fn case_14_15_17_comments_markers_and_names() {
        assert_eq!(data(": OPENROUTER PROCESSING\n\ndata: {}\n\n"), ["{}"]);
        assert_eq!(data("data: [DONE]\n\n"), ["[DONE]"]);
        let frames = decode(&[b"data: a\n\nevent: error\ndata: {}\n\n"]).0;
        assert_eq!((frames[0].event.as_str(), frames[1].event.as_str()), ("message", "error"));
    }

    #[test]
    fn case_16_a_large_line_in_small_chunks_is_one_event() {
        let mut decoder = Decoder::new(Decoder::CAP);
        let mut frames = Vec::new();
        decoder.push(b"data:", &mut frames).unwrap();
        let chunk = [b'x'; 1 << 10];
        for _ in 0..10 << 10 {
            decoder.push(&chunk, &mut frames).unwrap(); // A decoder that scans its buffer again would never end here.
        }
        decoder.push(b"\n\n", &mut frames).unwrap();
        assert_eq!(frames[0].data.len(), 10 << 20);
    }

    #[test]
    fn b051_an_event_past_the_cap_is_an_error_and_not_held() {
        let mut decoder = Decoder::new(100);
        let mut frames = Vec::new();
        decoder.push(b"data:", &mut frames).unwrap();
        assert_eq!(decoder.push(&[b'x'; 200], &mut frames), Err(TooLarge { cap: 100 }));
        let mut decoder = Decoder::new(100);
        let line = format!("data:{}\n", "x".repeat(50));
        decoder.push(line.as_bytes(), &mut frames).unwrap();
        assert!(decoder.push(line.as_bytes(), &mut frames).is_err(), "many lines of one event count together");
        let mut decoder = Decoder::new(100);
        for _ in 0..50 {
            decoder.push(b": a comment\r\ndata: a small one\r\n\r\n", &mut frames).unwrap();
        }
    }

    proptest! {
        #[test]
        fn chunks_make_no_difference(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "data", "data:", "data: ", "event: e", "id: 7", "retry: 5", ":", " ", "a", "é", "🚀", "\n", "\r",
                    "\r\n", "\n\n", "\u{feff}", "\0",
                ]),
                0..40,
            ),
            cuts in prop::collection::vec(1_usize..9, 1..20),
        ) {
            let stream = pieces.concat();
            let mut chunks = Vec::new();
            let mut rest = stream.as_bytes();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (chunk, after) = rest.split_at((*cut).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            prop_assert_eq!(decode(&chunks), decode(&[stream.as_bytes()]));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(decode(&single), decode(&[&bytes]));
        }
    }
}
