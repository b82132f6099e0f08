//! A batch and CI task runner for coding agents.

pub mod units;
pub mod outcome;
pub mod exit;
pub mod error;
pub mod event;
pub mod plan;
pub mod schedule;
pub mod query;
pub mod judge;
