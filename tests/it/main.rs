//! The integration tests: one binary, a module for each subject.

#[cfg(test)]
mod agents;
#[cfg(test)]
mod background;
#[cfg(test)]
mod batch;
#[cfg(test)]
mod budget;
#[cfg(test)]
mod case;
#[cfg(test)]
mod catalogue;
#[cfg(test)]
mod context;
#[cfg(test)]
mod endurance;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod forge;
#[cfg(test)]
mod hooks;
#[cfg(test)]
mod html;
#[cfg(test)]
mod judging;
#[cfg(test)]
mod looking;
#[cfg(test)]
mod looping;
#[cfg(test)]
mod mock;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod process;
#[cfg(test)]
mod publishing;
#[cfg(test)]
mod resuming;
#[cfg(test)]
mod scheduling;
#[cfg(test)]
mod selection;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod spec;
#[cfg(test)]
mod streaming;
#[cfg(test)]
mod tidy;
#[cfg(test)]
mod wire;
