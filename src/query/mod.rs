//! The agent loop as a pure state machine.

pub mod effect;
pub mod event;
pub mod failure;
pub mod tool;
pub mod transcript;
