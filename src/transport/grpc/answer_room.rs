//! Keeps a batch's answer under its limit while the items are answered, so that a batch of large
//! replays is never in memory as a whole.

use std::sync::atomic::{AtomicUsize, Ordering};

use prost::Message;

use super::convert::outcome::leave_payload_out;
use super::status::item_error;
use crate::domain::limits;
use crate::proto::v1 as pb;
use crate::service::error::ServiceError;
use pb::reserve_response::Verdict;

/// Every item has this much room of its own: no verdict without payload, attempts and attributes,
/// and no error, is larger. A thousand of them fit.
const ITEM_BYTES: usize = 2 * 1024;
/// Tag and length of an item in its list.
const FRAME_BYTES: usize = 8;
const DOES_NOT_FIT: &str = "payload: does not fit into a batch's answer";

/// The room that is left in one answer.
#[derive(Debug)]
pub struct AnswerRoom(AtomicUsize);

impl AnswerRoom {
    /// The room of an answer with that many items.
    pub const fn new(items: usize) -> Self {
        let taken = items.saturating_mul(ITEM_BYTES + FRAME_BYTES);
        Self(AtomicUsize::new(
            limits::BATCH_ANSWER_BYTES_MAX.saturating_sub(taken),
        ))
    }

    fn takes(&self, message: &impl Message) -> bool {
        let Some(more) = message.encoded_len().checked_sub(ITEM_BYTES) else {
            return true;
        };
        let take = |room: usize| room.checked_sub(more);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    /// Gives a Reserve's answer its place. A replay that has none becomes an error; what a holder
    /// needs to go on always fits.
    ///
    /// # Errors
    ///
    /// `AnswerTooLarge`: ask for it alone.
    pub fn reserved(
        &self,
        mut response: pb::ReserveResponse,
    ) -> Result<pb::ReserveResponse, ServiceError> {
        if self.takes(&response) {
            return Ok(response);
        }
        let Some(Verdict::Recover(recover)) = &mut response.verdict else {
            return Err(ServiceError::AnswerTooLarge);
        };
        recover.attempts.clear();
        if !self.takes(&response)
            && let Some(Verdict::Recover(recover)) = &mut response.verdict
        {
            recover.attributes.clear();
        }
        Ok(response)
    }

    /// Gives a Complete's answer its place. Its verdict always fits; the outcome that stands in the
    /// record is cut down if it must be.
    pub fn completed(&self, mut response: pb::CompleteResponse) -> pb::CompleteResponse {
        if self.takes(&response) {
            return response;
        }
        if let Some(stored) = &mut response.stored {
            leave_payload_out(stored, DOES_NOT_FIT);
        }
        if !self.takes(&response)
            && let Some(stored) = &mut response.stored
        {
            stored.metadata.clear();
        }
        response
    }
}

/// One item's place in the answer to `BatchReserve`.
pub fn reserve_result(result: Result<pb::ReserveResponse, ServiceError>) -> pb::BatchReserveResult {
    use pb::batch_reserve_result::Result as Is;
    let result = match result {
        Ok(response) => Is::Response(response),
        Err(error) => Is::Error(item_error(&error)),
    };
    pb::BatchReserveResult {
        result: Some(result),
    }
}

/// One item's place in the answer to `BatchComplete`.
pub fn complete_result(
    result: Result<pb::CompleteResponse, ServiceError>,
) -> pb::BatchCompleteResult {
    use pb::batch_complete_result::Result as Is;
    let result = match result {
        Ok(response) => Is::Response(response),
        Err(error) => Is::Error(item_error(&error)),
    };
    pb::BatchCompleteResult {
        result: Some(result),
    }
}
