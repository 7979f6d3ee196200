//! What can be asked of one record, and what is answered. Verdicts are values, not errors.

mod answer;
mod request;

pub use answer::{
    Answer, CompleteVerdict, Completed, Grant, InProgress, Mismatch, MismatchField, ParkAnswer,
    PersonAnswer, Recover, ReexecuteVerdict, Refusal, Released, Renewed, Replay, ReserveVerdict,
    Reserved,
};
pub use request::{
    Command, Complete, Expire, Park, Reexecute, Release, Renew, Reserve, Resolution, Resolve,
};
