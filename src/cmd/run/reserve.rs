//! Asks for the right to run the command, and decides what follows from the verdict.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::lease::Held;
use super::report::{NOT_GIVEN_BACK, parked_exit, repeated};
use super::{Reserved, Run};
use crate::cmd::exit::Exit;
use crate::cmd::failure::Failure;
use crate::cmd::key::update_parts;
use crate::cmd::{client, output, text, verdict};
use crate::proto::v1;
use crate::proto::v1::reexecute_response::Verdict as Reexecuted;
use crate::proto::v1::reserve_response::Verdict;

/// The scheme of a fingerprint over a command line.
const SCHEME: &str = "app:oncegate-run-v1";
const TAG: &[u8] = b"oncegate/run/v1\0";
/// The shortest pause between two questions.
const PAUSE_MIN: Duration = Duration::from_millis(50);

impl Run {
    /// Reserves, waiting for another caller as long as told.
    pub(super) async fn reserve(
        &self,
        mut request: v1::ReserveRequest,
    ) -> Result<Reserved, Failure> {
        let deadline = Instant::now() + self.args.wait;
        loop {
            let wait = deadline.saturating_duration_since(Instant::now());
            request.wait = Some(text::to_proto(wait));
            let asked_at = Instant::now();
            let response = self.ask(&request, wait).await?;
            let in_progress = match response.verdict.ok_or_else(verdict::unknown)? {
                Verdict::Granted(granted) => {
                    return Ok(Reserved::Held(Held::new(granted, asked_at)));
                }
                Verdict::Replay(found) => return Ok(Reserved::Replay(Box::new(found))),
                Verdict::Recover(found) => return Ok(Reserved::Stranded(Box::new(found))),
                Verdict::Mismatch(found) => return Err(verdict::mismatch(&found)),
                Verdict::Parked(found) => {
                    return Err(verdict::parked(&found).hint(self.resolve_hint()));
                }
                Verdict::Expired(found) => return Err(verdict::expired(&found)),
                Verdict::InProgress(found) => found,
            };
            let again = in_progress.retry_after.map_or(PAUSE_MIN, text::to_std);
            let again = again.max(PAUSE_MIN);
            if Instant::now() + again > deadline {
                return Err(verdict::in_progress(&in_progress));
            }
            tokio::time::sleep(again).await;
        }
    }

    /// The question. Its one id serves all repetitions: a grant whose answer was lost is given
    /// again.
    pub(super) fn request(&self) -> Result<v1::ReserveRequest, Failure> {
        let class = if self.args.repeatable {
            v1::EffectClass::Repeatable
        } else {
            v1::EffectClass::Opaque
        };
        let fingerprint = match self.args.fingerprint.digest()? {
            Some(given) => given,
            None => command_line(&self.args.command),
        };
        Ok(v1::ReserveRequest {
            key: Some(self.key.clone()),
            operation: self.args.operation.clone(),
            fingerprint: Some(fingerprint),
            request_id: client::request_id()?.to_vec(),
            lease: Some(text::to_proto(self.args.lease)),
            holder: self.args.holder.clone().unwrap_or_else(this_process),
            can_recover: true,
            effect_class: class.into(),
            ..v1::ReserveRequest::default()
        })
    }

    /// One Reserve. Without an answer nothing is run.
    async fn ask(
        &self,
        request: &v1::ReserveRequest,
        wait: Duration,
    ) -> Result<v1::ReserveResponse, Failure> {
        let answer = repeated(|| {
            let call = self.client.waiting(request.clone(), wait);
            let mut gate = self.client.gate();
            async move { gate.reserve(call).await }
        });
        let answer = answer.await;
        answer.map_err(|status| Failure::from(status).hint("nothing was run"))
    }

    /// Gives back what a Reserve that was broken off may have got: asked with the same id, the
    /// server gives it once more.
    pub(super) async fn withdraw(&self, mut request: v1::ReserveRequest, reason: &str) {
        request.wait = None;
        let Ok(response) = self.ask(&request, Duration::ZERO).await else {
            return output::note(NOT_GIVEN_BACK);
        };
        match response.verdict {
            Some(Verdict::Granted(granted)) => self.release(&granted.token, reason).await,
            Some(Verdict::Recover(found)) => self.release(token_of(&found), reason).await,
            Some(
                Verdict::Replay(_)
                | Verdict::InProgress(_)
                | Verdict::Mismatch(_)
                | Verdict::Parked(_)
                | Verdict::Expired(_),
            )
            | None => {}
        }
    }

    /// An earlier run was cut off. Only a person's word, or that repeating is harmless, lets the
    /// command run again.
    pub(super) async fn recover(&self, found: &v1::Recover) -> Result<Held, Failure> {
        let token = token_of(found);
        let who = cut_off(&found.attempts).map_or_else(String::new, |entry| {
            let since = text::time(entry.reserved_at.as_ref());
            format!(" (by {}, since {since})", entry.holder)
        });
        let what = "an earlier run of this command was cut off";
        if found.reexecute_approved {
            output::note(&format!("{what}{who}; a person has approved another run"));
            return self.reexecute(token).await;
        }
        if self.args.repeatable {
            output::note(&format!("{what}{who}; running it again"));
            return self.reexecute(token).await;
        }
        let note = format!("{what}{who}; what it did is not known");
        let exit = parked_exit(self.park(token, &note).await);
        Err(Failure::new(exit, note)
            .hint("nothing was run; the record is parked for a person to decide")
            .hint(self.resolve_hint()))
    }

    async fn reexecute(&self, token: &str) -> Result<Held, Failure> {
        let request = v1::ReexecuteRequest {
            key: Some(self.key.clone()),
            token: token.to_owned(),
            lease: Some(text::to_proto(self.args.lease)),
            request_id: client::request_id()?.to_vec(),
            settled_seen: false,
        };
        let asked_at = Instant::now();
        let response = repeated(|| {
            let call = self.client.request(request.clone());
            let mut gate = self.client.gate();
            async move { gate.reexecute(call).await }
        });
        let response = response.await?;
        match response.verdict.ok_or_else(verdict::unknown)? {
            Reexecuted::Granted(granted) => Ok(Held::new(granted, asked_at)),
            Reexecuted::Parked(found) => Err(verdict::parked(&found).hint(self.resolve_hint())),
            Reexecuted::TooEarly(found) => {
                let left = text::proto_span(found.settle_remaining.as_ref());
                Err(Failure::new(
                    Exit::InProgress,
                    format!("too early: what the earlier run sent may still arrive for {left}"),
                )
                .hint("nothing was run"))
            }
            Reexecuted::Superseded(_) => Err(Failure::new(
                Exit::Stale,
                "another caller has taken the record over",
            )
            .hint("nothing was run")),
        }
    }
}

/// What may give back or use the right to find out.
pub(super) fn token_of(found: &v1::Recover) -> &str {
    found.reservation.as_ref().map_or("", |held| &held.token)
}

/// The run that was cut off: the last whose lease ran out, not one that only parked the record; where
/// the command was killed, and its own run parked it, that one.
fn cut_off(attempts: &[v1::Attempt]) -> Option<&v1::Attempt> {
    let mut named = attempts.iter().rev().filter(|entry| {
        let over = entry.ended_as() != v1::AttemptEnd::Unspecified;
        over && !entry.holder.is_empty()
    });
    let newest = named.clone().next();
    let ran_out = named.find(|entry| entry.ended_as() == v1::AttemptEnd::LeaseRanOut);
    ran_out.or(newest)
}

/// The fingerprint of a command line: where one argument ends is part of it.
fn command_line(command: &[std::ffi::OsString]) -> v1::Fingerprint {
    let mut hasher = Sha256::new();
    hasher.update(TAG);
    update_parts(&mut hasher, command.iter().map(|part| part.as_bytes()));
    v1::Fingerprint {
        scheme: SCHEME.to_owned(),
        digest: hasher.finalize().to_vec(),
    }
}

/// This machine and process, for support.
fn this_process() -> String {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy().into_owned();
    format!("{name}/{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_command_line_is_another_fingerprint() {
        let of = |parts: &[&str]| {
            let parts: Vec<_> = parts.iter().map(std::ffi::OsString::from).collect();
            command_line(&parts)
        };
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
        assert_ne!(of(&["a", "b"]), of(&["ab"]));
        assert_ne!(of(&["a", "b c"]), of(&["a", "b", "c"]));
        assert_eq!(of(&["a"]).digest.len(), 32);
    }
}
