//! Reexecute: whether the effect may run again after RECOVER. The record's effect class decides.

use super::holder::park;
use super::reserve::{grant_of, is_settled, lease_end, settle_remaining};
use super::{Audit, AuditAction, Decision, Moment, aged, held, is_newest};
use crate::domain::command::{Reexecute, ReexecuteVerdict};
use crate::domain::policy::EffectClass;
use crate::domain::record::{Hold, Record, RecordState, Reexecuted, StateName};
use crate::domain::time::Timestamp;

/// What a class says about another run.
enum Ruling {
    Run,
    Wait { look_again: bool },
    Park(&'static str),
}

/// Judges a Reexecute.
pub fn decide_reexecute(
    stored: Option<&Record>,
    request: &Reexecute,
    moment: Moment,
) -> Decision<ReexecuteVerdict> {
    let now = moment.now;
    let Some(record) = stored.and_then(|record| aged(record, now)) else {
        return Decision::answer(ReexecuteVerdict::Superseded { state: None });
    };
    let record = record.into_owned();
    let Some(hold) = held(&record, &request.token).cloned() else {
        return Decision::answer(match &record.state {
            RecordState::Parked { since, note } if is_newest(&record, &request.token) => {
                ReexecuteVerdict::Parked {
                    since: *since,
                    note: note.clone(),
                }
            }
            RecordState::Running(_)
            | RecordState::Recovering(_)
            | RecordState::Released { .. }
            | RecordState::Completed(_)
            | RecordState::Parked { .. }
            | RecordState::Expired(_) => superseded(&record),
        });
    };
    if record.state_name() == StateName::Running {
        // The same call gets its answer back until the token is used; another one gets nothing.
        let own = hold
            .reexecuted
            .as_ref()
            .is_some_and(|granted| granted.request_id == request.request_id && !granted.used);
        return Decision::answer(if own {
            ReexecuteVerdict::Granted(grant_of(&record, now))
        } else {
            superseded(&record)
        });
    }
    match rule(&record, request, now) {
        Ruling::Run => run_again(record, &hold, request, now),
        Ruling::Wait { look_again } => wait(record, &hold, look_again, now),
        Ruling::Park(note) => parked(record, note, now),
    }
}

/// The class's rule. A person's approval is above it, in every class.
fn rule(record: &Record, request: &Reexecute, now: Timestamp) -> Ruling {
    let terms = &record.terms;
    if record.reexecution_approved {
        return Ruling::Run;
    }
    match terms.effect_class {
        EffectClass::Keyed => {
            // The new run may begin at the end of its longest lease, be paused and delayed: it must
            // still arrive inside.
            let lease_end = now.plus(terms.max_total_lease);
            let arrives_by = lease_end.plus(terms.settle_time());
            if arrives_by < record.exposed_at.plus(terms.keyed_window) {
                Ruling::Run
            } else {
                Ruling::Park("the other side may have forgotten the downstream key")
            }
        }
        EffectClass::Queryable if !is_settled(record, now) => Ruling::Wait { look_again: false },
        EffectClass::Queryable if !request.settled_seen => Ruling::Wait { look_again: true },
        EffectClass::Receipt
        | EffectClass::Repeatable
        | EffectClass::Fenced
        | EffectClass::Queryable => Ruling::Run,
        EffectClass::Opaque => Ruling::Park("effect class OPAQUE is never repeated automatically"),
    }
}

fn run_again(
    mut record: Record,
    hold: &Hold,
    request: &Reexecute,
    now: Timestamp,
) -> Decision<ReexecuteVerdict> {
    let approved = record.reexecution_approved;
    record.reexecution_approved = false;
    let end = lease_end(request.lease, &record, now, now);
    record.state = RecordState::Running(Hold {
        lease_expires_at: hold.lease_expires_at.max(end),
        started_at: now,
        used: true,
        reexecuted: Some(Reexecuted {
            request_id: request.request_id,
            used: false,
        }),
        ..hold.clone()
    });
    let audit = Audit {
        action: AuditAction::Reexecute,
        actor: request.actor.clone(),
        reason: if approved {
            "approved by a person"
        } else {
            "allowed by the effect class"
        }
        .to_owned(),
        at: now,
        fence: record.fence,
        before: StateName::Recovering,
        after: StateName::Running,
    };
    let answer = ReexecuteVerdict::Granted(grant_of(&record, now));
    Decision::write(answer, record).audited(audit)
}

fn wait(
    mut record: Record,
    hold: &Hold,
    look_again: bool,
    now: Timestamp,
) -> Decision<ReexecuteVerdict> {
    let settle_remaining = settle_remaining(&record, now).unwrap_or_default();
    let answer = ReexecuteVerdict::TooEarly {
        settle_remaining,
        look_again,
    };
    if hold.used {
        return Decision::answer(answer);
    }
    record.state = RecordState::Recovering(Some(Hold {
        used: true,
        ..hold.clone()
    }));
    Decision::write(answer, record)
}

fn parked(mut record: Record, note: &str, now: Timestamp) -> Decision<ReexecuteVerdict> {
    park(&mut record, note, now);
    let answer = ReexecuteVerdict::Parked {
        since: now,
        note: note.to_owned(),
    };
    Decision::write(answer, record)
}

fn superseded(record: &Record) -> ReexecuteVerdict {
    ReexecuteVerdict::Superseded {
        state: Some(record.state_name()),
    }
}
