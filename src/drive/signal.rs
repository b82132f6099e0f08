//! Signals: the first asks running jobs to end, the second ends the process at once.

use crate::error::{Error, Kind, Result};
use crate::exit::ExitStatus;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears SIGINT and SIGTERM.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Starts to listen; from here on the signals no longer end the process by themselves.
    pub(super) fn listen() -> Result<Self> {
        let open = |kind| {
            signal(kind)
                .map_err(|error| Error::new(Kind::Environment, "cannot listen for signals").because(error.to_string()))
        };
        Ok(Self { interrupt: open(SignalKind::interrupt())?, terminate: open(SignalKind::terminate())? })
    }

    /// The next signal, as the exit status that it asks for.
    pub(super) async fn next(&mut self) -> ExitStatus {
        tokio::select! {
            _ = self.interrupt.recv() => ExitStatus::Interrupted,
            _ = self.terminate.recv() => ExitStatus::Terminated,
        }
    }
}
