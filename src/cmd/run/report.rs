//! What is told to the server after the command: its outcome until that is acknowledged; else that
//! nothing happened, or that nobody knows.

use std::time::Duration;

use tokio::time::Instant;
use tonic::{Code, Response, Status};

use super::Run;
use super::signals::Signals;
use crate::cmd::exit::Exit;
use crate::cmd::failure::{Failure, retry_after};
use crate::cmd::{output, verdict};
use crate::proto::v1;
use crate::proto::v1::complete_response::Verdict;

const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
pub(super) const NOT_GIVEN_BACK: &str = "the right could not be given back: it ends with its lease";
/// How often a call is made whose answer does not come.
const TRIES: u32 = 3;

/// Whether the same call, repeated, may be answered.
pub(super) fn is_retryable(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::ResourceExhausted
            // A connection that breaks off shows as one of these.
            | Code::Unknown
            | Code::Internal
    )
}

/// The pause before a try, doubled each time, never shorter than the server asks.
pub(super) fn pause(tries: u32, status: &Status) -> Duration {
    let doubled = PAUSE_MIN.saturating_mul(1 << tries.min(10));
    let asked = retry_after(status).unwrap_or_default();
    doubled.max(asked).min(PAUSE_MAX)
}

/// A call whose answer may get lost, repeated a few times with the same ids.
pub(super) async fn repeated<T, C>(mut call: impl FnMut() -> C) -> Result<T, Status>
where
    C: Future<Output = Result<Response<T>, Status>>,
{
    let mut tries = 0;
    loop {
        let status = match call().await {
            Ok(response) => return Ok(response.into_inner()),
            Err(status) => status,
        };
        tries += 1;
        if tries == TRIES || !is_retryable(&status) {
            return Err(status);
        }
        tokio::time::sleep(pause(tries, &status)).await;
    }
}

impl Run {
    /// Completes, again and again until it is acknowledged, the time for it is over or somebody wants
    /// this to end.
    pub(super) async fn report(
        &self,
        token: &str,
        outcome: v1::Outcome,
        code: u8,
        signals: &mut Signals,
    ) -> Result<(), Failure> {
        let request = v1::CompleteRequest {
            key: Some(self.key.clone()),
            token: token.to_owned(),
            outcome: Some(outcome),
            retention: None,
        };
        let reported = tokio::select! {
            reported = self.until_acknowledged(&request) => reported,
            Some(signal) = signals.next() => {
                let problem = format!("stopped by {} before the server answered", signal.name());
                Err(Failure::new(Exit::Unavailable, problem))
            }
        };
        reported.map_err(|failure| self.not_recorded(failure, code))
    }

    async fn until_acknowledged(&self, request: &v1::CompleteRequest) -> Result<(), Failure> {
        let deadline = Instant::now() + self.args.report_timeout;
        let mut tries = 0;
        loop {
            let call = self.client.request(request.clone());
            let status = match self.client.gate().complete(call).await {
                Ok(response) => return Self::judge(&response.into_inner()),
                Err(status) => status,
            };
            let pause = pause(tries, &status);
            if !is_retryable(&status) || Instant::now() + pause > deadline {
                return Err(status.into());
            }
            if tries == 0 {
                let problem = "the outcome is not recorded yet: the server does not answer";
                output::note(&format!("{problem}; trying again"));
            }
            tries = tries.saturating_add(1);
            tokio::time::sleep(pause).await;
        }
    }

    fn judge(response: &v1::CompleteResponse) -> Result<(), Failure> {
        match response.verdict() {
            Verdict::Recorded | Verdict::AlreadyRecorded => {}
            Verdict::Superseded if response.outcome_used => {}
            Verdict::Superseded => output::note(
                "another caller had taken the record over: this outcome is kept as evidence only",
            ),
            Verdict::Divergent => output::note(
                "another outcome stands under this key: this one is kept as evidence only, and \
                 the command may have run twice",
            ),
            Verdict::Unspecified => return Err(verdict::unknown()),
        }
        Ok(())
    }

    fn not_recorded(&self, failure: Failure, code: u8) -> Failure {
        let known = failure
            .within("the outcome could not be recorded")
            .hint(format!("the command has run, and ended with {code}"))
            .hint("if the server has got it all the same, the next run will replay it");
        if self.args.repeatable {
            return known.hint("else it will start the command again, once the lease is out");
        }
        known
            .hint("else it will park the record, once the lease is out")
            .hint(self.resolve_hint())
    }

    /// Says that provably nothing happened. If nobody hears it, the next run finds the record
    /// stranded: a detour, never a second run.
    pub(super) async fn release(&self, token: &str, reason: &str) {
        let request = v1::ReleaseRequest {
            key: Some(self.key.clone()),
            token: token.to_owned(),
            reason: reason.to_owned(),
        };
        let released = repeated(|| {
            let call = self.client.request(request.clone());
            let mut gate = self.client.gate();
            async move { gate.release(call).await }
        });
        if released.await.is_err() {
            output::note(NOT_GIVEN_BACK);
        }
    }

    /// Hands the record to a person; false if that was not possible.
    pub(super) async fn park(&self, token: &str, note: &str) -> bool {
        let request = v1::ParkRequest {
            key: Some(self.key.clone()),
            token: token.to_owned(),
            note: note.to_owned(),
        };
        let parked = repeated(|| {
            let call = self.client.request(request.clone());
            let mut gate = self.client.gate();
            async move { gate.park(call).await }
        });
        parked.await.is_ok_and(|answer| answer.parked)
    }
}

/// The exit of a record that was to be parked.
pub(super) fn parked_exit(parked: bool) -> Exit {
    if parked { Exit::Parked } else { Exit::Recover }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_may_follow_is_repeated() {
        for (status, want) in [
            (Status::unavailable(""), true),
            (Status::deadline_exceeded(""), true),
            (Status::cancelled(""), true),
            (Status::resource_exhausted(""), true),
            (Status::unknown(""), true),
            (Status::internal(""), true),
            (Status::invalid_argument(""), false),
            (Status::unauthenticated(""), false),
            (Status::permission_denied(""), false),
            (Status::not_found(""), false),
            (Status::data_loss(""), false),
        ] {
            assert_eq!(is_retryable(&status), want, "{status:?}");
        }
    }

    #[test]
    fn pauses_grow_up_to_their_limit() {
        let status = Status::unavailable("");
        assert_eq!(pause(0, &status), PAUSE_MIN);
        assert_eq!(pause(1, &status), PAUSE_MIN * 2);
        assert_eq!(pause(u32::MAX, &status), PAUSE_MAX);
    }
}
