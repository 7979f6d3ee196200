//! A store's answers in the words of the reference machine.

use oncegate::domain::command::{
    Answer, Command, CompleteVerdict, Grant, PersonAnswer, ReexecuteVerdict, Refusal,
    ReserveVerdict,
};
use oncegate::domain::outcome::OutcomeDigest;
use oncegate::domain::record::StateName;
use oncegate::domain::token::Token;
use oncegate::testkit::reference::Said;
use proptest::prelude::*;

use super::pair::Pair;

impl Pair {
    /// An answer in the machine's words.
    pub(super) fn said(
        &mut self,
        command: &Command,
        answer: Answer,
    ) -> Result<Said, TestCaseError> {
        Ok(match answer {
            Answer::Reserve(reserved) => self.reserved(reserved.verdict)?,
            Answer::Complete(completed) => Said::Completed {
                verdict: match completed.verdict {
                    CompleteVerdict::Recorded => "RECORDED",
                    CompleteVerdict::AlreadyRecorded => "ALREADY_RECORDED",
                    CompleteVerdict::Divergent => "DIVERGENT",
                    CompleteVerdict::Superseded => "SUPERSEDED",
                },
                used: completed.outcome_used,
            },
            Answer::Renew(renewed) => Said::Renewed {
                held: renewed.held,
                lease: renewed.lease_remaining.as_secs(),
                settled: renewed.settled,
            },
            Answer::Release(released) => {
                if released.released && released.state == Some(StateName::Released) {
                    self.watch.released(command);
                }
                Said::Done(released.released)
            }
            Answer::Park(parked) => Said::Done(parked.parked),
            Answer::Reexecute(ReexecuteVerdict::Granted(grant)) => self.granted(&grant),
            Answer::Reexecute(ReexecuteVerdict::TooEarly { look_again, .. }) => {
                Said::TooEarly { look_again }
            }
            Answer::Reexecute(ReexecuteVerdict::Parked { .. }) => Said::Parked,
            Answer::Reexecute(ReexecuteVerdict::Superseded { .. }) => Said::Superseded,
            Answer::Expire(answer) => person(&answer, "NOT_EXPIRABLE"),
            Answer::Resolve(answer) => person(&answer, "NOT_RESOLVABLE"),
        })
    }

    fn reserved(&mut self, verdict: ReserveVerdict) -> Result<Said, TestCaseError> {
        Ok(match verdict {
            ReserveVerdict::Granted(grant) => {
                self.watch.first_run(&grant)?;
                self.granted(&grant)
            }
            ReserveVerdict::Recover(recover) => {
                self.watch.rises(&recover.grant)?;
                let token = self.number(&recover.grant);
                let (attempt, lease) = (
                    recover.grant.attempt,
                    recover.grant.lease_remaining.as_secs(),
                );
                let rerun = self.rerun(&recover.grant);
                let (settled, approved) = (recover.settled, recover.reexecute_approved);
                Said::Recover {
                    token,
                    attempt,
                    lease,
                    rerun,
                    settled,
                    approved,
                }
            }
            ReserveVerdict::Replay(replay) => {
                let same = |digest: &OutcomeDigest| *digest == replay.outcome.digest;
                let number = self.digests.iter().position(same).expect("a known outcome");
                let by = self
                    .tokens
                    .iter()
                    .position(|token| token.fence == replay.fence);
                let (outcome, token) = (u8::try_from(number).expect("small"), by.expect("known"));
                Said::Replay { outcome, token }
            }
            ReserveVerdict::InProgress(told) => {
                let (needs_recovery, lease) = (told.needs_recovery, told.lease_remaining.as_secs());
                Said::InProgress {
                    needs_recovery,
                    lease,
                }
            }
            ReserveVerdict::Mismatch(_) => Said::Mismatch,
            ReserveVerdict::Parked { .. } => Said::Parked,
            ReserveVerdict::Expired { .. } => Said::Expired,
        })
    }

    fn granted(&mut self, grant: &Grant) -> Said {
        let (token, rerun) = (self.number(grant), self.rerun(grant));
        let (attempt, lease) = (grant.attempt, grant.lease_remaining.as_secs());
        Said::Granted {
            token,
            attempt,
            lease,
            rerun,
        }
    }

    /// The reservation's number, a new one for a new fence.
    fn number(&mut self, grant: &Grant) -> usize {
        let token = Token {
            generation: grant.generation,
            fence: grant.fence,
        };
        self.tokens
            .iter()
            .position(|known| *known == token)
            .unwrap_or_else(|| {
                self.tokens.push(token);
                self.tokens.len() - 1
            })
    }

    fn rerun(&self, grant: &Grant) -> u32 {
        let known = self
            .downstream
            .iter()
            .position(|key| *key == grant.downstream_key);
        u32::try_from(known.expect("a key of a known rerun")).expect("small")
    }
}

fn person(answer: &PersonAnswer, wrong_state: &'static str) -> Said {
    Said::Person(match answer {
        Ok(_) => "OK",
        Err(Refusal::NotFound) => "NOT_FOUND",
        Err(Refusal::EtagMismatch) => "ETAG_MISMATCH",
        Err(Refusal::WrongState(_)) => wrong_state,
    })
}
