//! What is refused while too many calls are at work, before anything of it is read: what asks for
//! new work. What holders report is always taken, and so is whatever people ask.

use std::sync::atomic::{AtomicUsize, Ordering};

use tonic::Status;

use crate::service::error::ServiceError;
use crate::service::gate::Gate;
use crate::transport::grpc::status::{Asked, status};

/// The methods that can be refused: nobody has begun anything yet who calls them.
const REFUSED: [&str; 4] = [
    "/oncegate.v1.GateService/Reserve",
    "/oncegate.v1.GateService/BatchReserve",
    "/oncegate.v1.GateService/Lookup",
    "/oncegate.v1.GateService/GetPolicy",
];

/// How many calls may be at work.
#[derive(Debug)]
pub struct CallLimit {
    calls_max: usize,
    under_way: AtomicUsize,
    /// Knows how many calls wait: those are under way and not at work.
    gate: Gate,
}

/// One call, while it is under way.
pub(super) struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl CallLimit {
    /// A limit for the calls of one gate.
    pub const fn new(gate: Gate, calls_max: usize) -> Self {
        Self {
            calls_max,
            under_way: AtomicUsize::new(0),
            gate,
        }
    }

    /// Counts a call in until its guard is dropped, or refuses it.
    pub(super) fn enter(&self, path: &str) -> Result<UnderWay<'_>, Status> {
        let others = self.under_way.fetch_add(1, Ordering::AcqRel);
        let call = UnderWay(&self.under_way);
        let at_work = others.saturating_sub(self.gate.waiting());
        if at_work >= self.calls_max && REFUSED.contains(&path) {
            return Err(status(&ServiceError::Overloaded, &Asked::default()));
        }
        Ok(call)
    }
}
