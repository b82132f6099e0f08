//! Where reports go: the run folder, the terminal, GitHub's files.
//!
//! [`Sink`] takes every event and hands it to whoever reports. What is written is said by `report`; here it is only
//! put where it belongs. Secrets are taken out of events as they come in, and again at the doors through which text
//! leaves: [`Files`], its lines, and the console.

mod console;
mod file;
mod folder;
mod github;
mod html;
mod live;
mod screen;
mod settings;
mod sink;
mod transcript;

pub use file::{Files, Lines};
pub use folder::{RunFolder, copy_files};
pub use github::GithubFiles;
pub use html::write_html;
pub use screen::Format;
pub use settings::{EventsTo, SinkSettings};
pub use sink::Sink;
pub use transcript::Transcript;
