//! The only door to child processes.
//!
//! [`run`] starts a command under a *guard*: this very program, started again, which becomes the command's session
//! leader and adopts whatever the command leaves behind. Guard and runner hold the two ends of a socket. The guard
//! reports on it how the command ended; when the other end closes (the call was given up, or the runner was killed, with
//! SIGKILL too) the guard ends everything below it and itself. So no child outlives its call, and none the runner.
//! [`run_live`] is the same for a command whose output is read while it runs.
//!
//! Invariants: every command has a time limit; its standard input is `/dev/null` or bytes that it need not read, and it
//! has no terminal; stdout and stderr are one pipe, or two on demand, read at once and held in bounded memory; its
//! environment is complete and explicit; background children end with the command.
//!
//! What it can't do: on systems other than Linux a process that leaves its process group escapes; nowhere can it stop a
//! command that kills the runner itself.

mod capture;
mod command;
mod descendants;
mod environment;
mod files;
mod guard;
mod handover;
mod listen;
mod live;
mod orphans;
mod pause;
mod private;
mod run;

pub use capture::{Capture, Output};
pub use command::{Command, End, Finished, Streams};
pub use environment::Environment;
pub use files::open_many_files;
pub use guard::{SUBCOMMAND, guard_main};
pub use live::Live;
pub use orphans::{adopt_orphans, sweep};
pub use pause::{pause, paused, wait};
pub use private::keep_private;
pub use run::{run, run_live};

#[cfg(test)]
mod tests;
