//! Signals: the first asks running jobs to end, the second ends the process at once; one pauses the clocks, one asks what is waited for.

use crate::error::{Error, Kind, Result};
use crate::exit::ExitStatus;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears SIGINT, SIGTERM, SIGTSTP and SIGUSR1.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    pause: Signal,
    status: Signal,
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// To end, with this exit status.
    End(ExitStatus),
    /// To stop until it is told to go on.
    Pause,
    /// To say what each job waits for.
    Status,
}

impl Signals {
    /// Starts to listen; from here on the signals no longer act on the process by themselves.
    pub(super) fn listen() -> Result<Self> {
        let open = |kind| {
            signal(kind)
                .map_err(|error| Error::new(Kind::Environment, "cannot listen for signals").because(error.to_string()))
        };
        Ok(Self {
            interrupt: open(SignalKind::interrupt())?,
            terminate: open(SignalKind::terminate())?,
            pause: open(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
            status: open(SignalKind::user_defined1())?,
        })
    }

    /// What the next signal asks for.
    pub(super) async fn next(&mut self) -> Asked {
        // Of several at once, the question first: after the others there is nothing left to ask about.
        tokio::select! {
            biased;
            _ = self.status.recv() => Asked::Status,
            _ = self.pause.recv() => Asked::Pause,
            _ = self.interrupt.recv() => Asked::End(ExitStatus::Interrupted),
            _ = self.terminate.recv() => Asked::End(ExitStatus::Terminated),
        }
    }
}
