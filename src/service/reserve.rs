//! Reserve: asks for the right to run an effect, and waits for a running holder if told to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::error::ServiceError;
use super::gate::{Call, Gate, answer_of, in_time};
use super::wait::{Turn, WaitingRoom};
use crate::domain::caller::Permission;
use crate::domain::command::{Command, Grant, Reserve, ReserveVerdict, Reserved};
use crate::domain::error::InvalidField;
use crate::domain::fingerprint::Fingerprint;
use crate::domain::key::RecordKey;
use crate::domain::limits;
use crate::domain::policy::{EffectClass, FingerprintMode, Policy};
use crate::domain::record::RequestId;
use crate::domain::token::Token;

/// The part of a call's time that is left for its answer to travel.
const ANSWER_TIME: Duration = Duration::from_millis(500);

/// A Reserve as it was asked.
#[derive(Debug, Clone)]
pub struct ReserveCall {
    /// The identity.
    pub key: RecordKey,
    /// What the effect is.
    pub operation: String,
    /// The digest of the request.
    pub fingerprint: Option<Fingerprint>,
    /// Random for each call; `None`: made here, and a repeated call does not find its own.
    pub request_id: Option<RequestId>,
    /// `None` takes the namespace's default.
    pub lease: Option<Duration>,
    /// Zero answers now.
    pub wait: Duration,
    /// Who asks.
    pub holder: String,
    /// For support.
    pub attributes: BTreeMap<String, String>,
    /// The caller knows what RECOVER means.
    pub can_recover: bool,
    /// Overrides the namespace's class.
    pub effect_class: Option<EffectClass>,
}

/// A verdict with the token of the reservation in it, if it has one.
#[derive(Debug, Clone, PartialEq)]
pub struct ReserveAnswer {
    /// The verdict.
    pub reserved: Reserved,
    /// The token of the reservation in it; empty if it has none.
    pub token: String,
}

impl Gate {
    /// Asks for the right to run an effect. If it has to wait, it takes a place in the room.
    ///
    /// # Errors
    ///
    /// See [`ServiceError`]; repeating the same call, with the same request id, is always safe.
    pub async fn reserve(
        &self,
        call: &Call,
        asked: ReserveCall,
        room: Option<&WaitingRoom>,
    ) -> Result<ReserveAnswer, ServiceError> {
        Self::permit(call, Permission::Gate, &asked.key)?;
        let key = &asked.key;
        let policy = self.policies.policy(key.namespace(), key.environment());
        let policy = in_time(call, policy).await?;
        let wait_until = Instant::now() + asked.wait.min(policy.max_wait);
        let wait_until = call
            .deadline
            .checked_sub(ANSWER_TIME)
            .map_or(wait_until, |latest| wait_until.min(latest));
        let request = Arc::new(request(call, asked, policy)?);
        let secrets = in_time(call, self.secrets()).await?;
        let namespace = request.key.namespace().to_owned();
        let digest = request.key.digest();
        let reserved = self
            .reserve_waiting(call, request, wait_until, room)
            .await?;
        self.metrics
            .verdict("reserve", verdict_name(&reserved.verdict), &namespace);
        if reserved.fingerprint_not_compared {
            self.metrics.fingerprint_not_compared(&namespace);
        }
        let token = grant(&reserved.verdict).map_or_else(String::new, |grant| {
            let token = Token {
                generation: grant.generation,
                fence: grant.fence,
            };
            secrets.issue(&digest, token)
        });
        Ok(ReserveAnswer { reserved, token })
    }

    async fn reserve_waiting(
        &self,
        call: &Call,
        request: Arc<Reserve>,
        wait_until: Instant,
        room: Option<&WaitingRoom>,
    ) -> Result<Reserved, ServiceError> {
        let reserved = self.reserve_now(call, &request).await?;
        if !is_in_progress(&reserved) || wait_until <= Instant::now() {
            return Ok(reserved);
        }
        // Boxed: it is rare, and would make every call's future larger.
        Box::pin(self.wait(call, &request, wait_until, room, reserved)).await
    }

    async fn wait(
        &self,
        call: &Call,
        request: &Arc<Reserve>,
        wait_until: Instant,
        room: Option<&WaitingRoom>,
        mut reserved: Reserved,
    ) -> Result<Reserved, ServiceError> {
        let Some(mut waiter) = self.waiters.join(request, room) else {
            return Ok(reserved);
        };
        while let Some(turn) = waiter.next(wait_until).await {
            match turn {
                Turn::Answered(answer) => return Ok(*answer),
                Turn::Ask(guard) => {
                    reserved = self.reserve_now(call, request).await?;
                    drop(guard);
                    if !is_in_progress(&reserved) {
                        return Ok(reserved);
                    }
                }
            }
        }
        Ok(waiter.last_seen().unwrap_or(reserved))
    }

    async fn reserve_now(
        &self,
        call: &Call,
        request: &Arc<Reserve>,
    ) -> Result<Reserved, ServiceError> {
        if call.deadline <= Instant::now() {
            // A right that nobody would hear of is not asked for: its key would be stranded.
            return Err(ServiceError::StoreUnavailable);
        }
        let command = Command::Reserve(Arc::clone(request));
        Ok(answer_of!(self.apply(call, command).await?, Reserve))
    }
}

/// Fills in what the namespace decides.
fn request(call: &Call, asked: ReserveCall, policy: Policy) -> Result<Reserve, ServiceError> {
    if policy.fingerprint == FingerprintMode::Required && asked.fingerprint.is_none() {
        return Err(ServiceError::FingerprintRequired {
            namespace: asked.key.namespace().to_owned(),
            environment: asked.key.environment().to_owned(),
        });
    }
    let mut terms = policy.terms;
    if let Some(class) = asked.effect_class {
        terms.effect_class = class;
        terms.check().map_err(|missing| {
            let problem = format!("the namespace's policy: {missing}");
            InvalidField::new("effect_class", problem)
        })?;
    }
    let lease = asked.lease.unwrap_or(policy.default_lease);
    Ok(Reserve {
        key: asked.key,
        operation: asked.operation,
        fingerprint: asked.fingerprint,
        request_id: request_id_or_new(asked.request_id)?,
        lease: lease.clamp(limits::LEASE_MIN, terms.max_total_lease),
        holder: asked.holder,
        trace_id: call.trace_id.clone(),
        attributes: asked.attributes,
        can_recover: asked.can_recover,
        terms,
    })
}

/// A caller that names no request id gets a random one: a shared constant would let two processes
/// hold one reservation.
pub(super) fn request_id_or_new(given: Option<RequestId>) -> Result<RequestId, ServiceError> {
    if let Some(given) = given {
        return Ok(given);
    }
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(%error, "no source of random bytes");
        ServiceError::StoreUnavailable
    })?;
    Ok(RequestId::from_bytes(bytes))
}

pub(super) fn is_in_progress(reserved: &Reserved) -> bool {
    matches!(reserved.verdict, ReserveVerdict::InProgress(_))
}

const fn grant(verdict: &ReserveVerdict) -> Option<&Grant> {
    match verdict {
        ReserveVerdict::Granted(grant) => Some(grant),
        ReserveVerdict::Recover(recover) => Some(&recover.grant),
        ReserveVerdict::Replay(_)
        | ReserveVerdict::InProgress(_)
        | ReserveVerdict::Mismatch(_)
        | ReserveVerdict::Parked { .. }
        | ReserveVerdict::Expired { .. } => None,
    }
}

const fn verdict_name(verdict: &ReserveVerdict) -> &'static str {
    match verdict {
        ReserveVerdict::Granted(_) => "granted",
        ReserveVerdict::Replay(_) => "replay",
        ReserveVerdict::InProgress(_) => "in_progress",
        ReserveVerdict::Recover(_) => "recover",
        ReserveVerdict::Mismatch(_) => "mismatch",
        ReserveVerdict::Parked { .. } => "parked",
        ReserveVerdict::Expired { .. } => "expired",
    }
}
