//! The integration tests: one binary, a module for each subject.

#[cfg(target_os = "linux")]
mod process;
