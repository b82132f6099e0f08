//! From stable codes back to what they stand for.

use crate::event::GateStatus;
use crate::exit::ExitStatus;
use crate::outcome::{AbortReason, HookKind, ModelErrorKind, Reason, TerminalReason, Transition};
use crate::report::json::SCHEMA;

/// What has a stable code.
pub(in crate::report::json) trait Coded: Copy + 'static {
    /// What it is called in errors.
    const WHAT: &'static str;
    /// Everything of its kind.
    fn all() -> &'static [Self];
    /// Its code.
    fn code(self) -> &'static str;
}

macro_rules! coded {
    ($($name:ident = $what:literal: $all:expr;)*) => {
        $(impl Coded for $name {
            const WHAT: &'static str = $what;
            fn all() -> &'static [Self] { $all }
            fn code(self) -> &'static str { Self::code(self) }
        })*
    };
}

coded! {
    Reason = "reason": Self::ALL;
    TerminalReason = "terminal": &Self::ALL;
    Transition = "transition": &Self::ALL;
    AbortReason = "abort reason": &Self::ALL;
    ModelErrorKind = "error code": &Self::ALL;
    HookKind = "kind of hook": &Self::ALL;
    GateStatus = "state of a gate": &Self::ALL;
}

/// What a code stands for.
pub(in crate::report::json) fn by_code<T: Coded>(code: &str) -> Result<T, String> {
    T::all().iter().copied().find(|one| one.code() == code).ok_or_else(|| format!("unknown {} {code:?}", T::WHAT))
}

/// The same of a code that may be missing.
pub(super) fn maybe<T: Coded>(code: Option<&str>) -> Result<Option<T>, String> {
    code.map(by_code).transpose()
}

/// How a process ended, by its number.
pub(super) fn exit(code: u8) -> Result<ExitStatus, String> {
    ExitStatus::ALL.into_iter().find(|exit| exit.code() == code).ok_or_else(|| format!("unknown exit code {code}"))
}

/// Refuses files of a later version.
pub(in crate::report::json) fn schema(found: u32) -> Result<(), String> {
    if found > SCHEMA {
        return Err(format!("it has schema {found}, and this version reads up to {SCHEMA}: use a later version"));
    }
    Ok(())
}
