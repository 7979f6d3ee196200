//! What every gRPC call passes through, one concern per file. From the outside in: trace, panics,
//! deadline, auth, refusals.

pub mod auth;
pub mod deadline;
pub mod panics;
pub mod refusals;
pub mod trace;
