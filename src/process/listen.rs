//! What a command writes, taken in as it comes: one pipe, or one for each stream.

use super::capture::Recorder;
use super::{Capture, Live, Output, Streams};
use std::future::pending;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// How much is read from a pipe at once; the usual size of a pipe.
const CHUNK: usize = 64 << 10;

/// Reads the output of one command.
pub(super) struct Listener {
    /// All of it.
    whole: Recorder,
    /// Both streams, or stdout alone.
    first: Source,
    /// Stderr, when it comes by itself.
    second: Option<Source>,
}

/// A pipe, and what is kept of it alone.
struct Source {
    pipe: pipe::Receiver,
    open: bool,
    chunk: Vec<u8>,
    own: Option<Recorder>,
}

/// A piece that was read and is not taken in yet.
pub(super) struct Piece {
    from_second: bool,
    count: usize,
}

impl Listener {
    /// Listens to `output`, and to `errors` when they come apart; `apart` is what is kept of each. `live` reads along.
    pub(super) async fn open(
        capture: Capture,
        live: Option<Live>,
        apart: Option<usize>,
        output: pipe::Receiver,
        errors: Option<pipe::Receiver>,
    ) -> Self {
        let whole = Recorder::open(capture, live).await;
        let own = match apart {
            Some(bytes) => {
                let half = Capture { head: bytes / 2, tail: bytes - bytes / 2, file: None, file_limit: 0 };
                Some((Recorder::open(half.clone(), None).await, Recorder::open(half, None).await))
            }
            None => None,
        };
        let (stdout, stderr) = own.unzip();
        let second = errors.map(|pipe| Source::new(pipe, stderr));
        Self { whole, first: Source::new(output, stdout), second }
    }

    /// Waits for the next piece; for ever when nothing more can come. Nothing is lost when the future is dropped.
    pub(super) async fn hear(&mut self) -> Piece {
        // Not biased: a flood on one stream must not silence the other.
        tokio::select! {
            count = self.first.read() => Piece { from_second: false, count },
            count = read(self.second.as_mut()) => Piece { from_second: true, count },
        }
    }

    /// Takes in a piece.
    pub(super) async fn take(&mut self, piece: Piece) {
        let second = self.second.as_mut().filter(|_| piece.from_second);
        let source = second.unwrap_or(&mut self.first);
        source.take(piece.count, &mut self.whole).await;
    }

    /// Takes what lies in the pipes and ends the recording.
    pub(super) async fn finish(mut self) -> (Output, Option<Streams>) {
        self.first.drain(&mut self.whole).await;
        if let Some(second) = &mut self.second {
            second.drain(&mut self.whole).await;
        }
        let streams = match (self.first.own, self.second.and_then(|source| source.own)) {
            (Some(stdout), Some(stderr)) => {
                Some(Streams { stdout: stdout.finish().await, stderr: stderr.finish().await })
            }
            _ => None,
        };
        (self.whole.finish().await, streams)
    }
}

async fn read(source: Option<&mut Source>) -> usize {
    match source {
        Some(source) => source.read().await,
        None => pending().await,
    }
}

impl Source {
    fn new(pipe: pipe::Receiver, own: Option<Recorder>) -> Self {
        Self { pipe, open: true, chunk: vec![0; CHUNK], own }
    }

    /// Reads into the chunk; says how much.
    async fn read(&mut self) -> usize {
        while self.open {
            match self.pipe.read(&mut self.chunk).await {
                Ok(count @ 1..) => return count,
                Ok(0) | Err(_) => self.open = false,
            }
        }
        pending().await
    }

    async fn take(&mut self, count: usize, whole: &mut Recorder) {
        let bytes = &self.chunk[..count];
        whole.push(bytes).await;
        if let Some(own) = &mut self.own {
            own.push(bytes).await;
        }
    }

    /// Takes what lies in the pipe. Its writers are dead, so there is no waiting for its end: a stranger may hold it too.
    async fn drain(&mut self, whole: &mut Recorder) {
        const MOST: usize = 1 << 20; // The largest size of a pipe without privileges.
        let mut taken = 0;
        while taken < MOST {
            let Ok(count @ 1..) = self.pipe.try_read(&mut self.chunk) else { break };
            self.take(count, whole).await;
            taken += count;
        }
    }
}
