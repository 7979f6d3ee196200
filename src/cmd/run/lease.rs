//! Keeps the right while the command runs. Losing it stops nothing: a command that has begun is let
//! end, and what happened is reported all the same.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::cmd::client::Client;
use crate::cmd::{output, text};
use crate::proto::v1;

/// A reservation and since when it holds, by this machine.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) token: String,
    pub(super) fence: i64,
    pub(super) attempt: u32,
    pub(super) downstream_key: String,
    /// When the lease ends at the earliest: counted from before the request was sent.
    until: Instant,
    /// When the next renewal is due.
    renew_at: Instant,
}

/// The task that renews.
#[derive(Debug)]
pub(super) struct Heartbeat(JoinHandle<()>);

impl Heartbeat {
    pub(super) fn stop(self) {
        self.0.abort();
    }
}

impl Held {
    pub(super) fn new(granted: v1::Reservation, asked_at: Instant) -> Self {
        let lease = granted.lease_remaining.map_or(Duration::ZERO, text::to_std);
        Self {
            token: granted.token,
            fence: granted.fence,
            attempt: granted.attempt,
            downstream_key: granted.downstream_key,
            until: asked_at + lease,
            renew_at: asked_at + lease / 3,
        }
    }

    /// Makes sure that the right still holds before the command is started: one that was asked for
    /// long ago, or whose lease is at its cap, may have gone to another caller.
    pub(super) async fn confirmed(
        mut self,
        client: &Client,
        key: &v1::RecordKey,
        lease: Duration,
    ) -> Option<Self> {
        if Instant::now() < self.until {
            return Some(self);
        }
        let asked_at = Instant::now();
        let answer = renew(client, key, &self.token, lease).await?;
        let left = answer.lease_remaining.map_or(Duration::ZERO, text::to_std);
        self.until = asked_at + left;
        self.renew_at = asked_at + left / 3;
        (answer.held && Instant::now() < self.until).then_some(self)
    }

    /// Starts renewing.
    pub(super) fn keep(self, client: Client, key: v1::RecordKey, lease: Duration) -> Heartbeat {
        let renewals = Renewals {
            client,
            key,
            lease,
            held: self,
            warned: false,
        };
        Heartbeat(tokio::spawn(renewals.run()))
    }
}

async fn renew(
    client: &Client,
    key: &v1::RecordKey,
    token: &str,
    lease: Duration,
) -> Option<v1::RenewResponse> {
    let request = v1::RenewRequest {
        key: Some(key.clone()),
        token: token.to_owned(),
        lease: Some(text::to_proto(lease)),
    };
    let mut gate = client.gate();
    let call = gate.renew(client.request(request));
    let answer = tokio::time::timeout(lease / 3, call).await;
    Some(answer.ok()?.ok()?.into_inner())
}

struct Renewals {
    client: Client,
    key: v1::RecordKey,
    lease: Duration,
    held: Held,
    /// The user knows that the lease may run out while the command runs.
    warned: bool,
}

impl Renewals {
    async fn run(mut self) {
        loop {
            tokio::time::sleep_until(self.held.renew_at).await;
            let asked_at = Instant::now();
            match self.ask().await {
                Some(answer) if !answer.held => {
                    output::note(
                        "the reservation was lost: another caller may be recovering; the command \
                         goes on, and its end is reported",
                    );
                    return;
                }
                Some(answer) => {
                    if !self.renewed(&answer, asked_at) {
                        return;
                    }
                }
                None => self.missed(asked_at),
            }
        }
    }

    /// One renewal, given up when the next is due.
    async fn ask(&self) -> Option<v1::RenewResponse> {
        renew(&self.client, &self.key, &self.held.token, self.lease).await
    }

    /// Plans the next renewal; false if no more can be had.
    fn renewed(&mut self, answer: &v1::RenewResponse, asked_at: Instant) -> bool {
        let left = answer.lease_remaining.map_or(Duration::ZERO, text::to_std);
        self.held.until = asked_at + left;
        self.held.renew_at = asked_at + self.lease / 3;
        // The server cuts a lease at the namespace's max_total_lease.
        let capped = left < self.lease / 2;
        if capped {
            let left = text::span(left);
            output::note(&format!(
                "the namespace's max_total_lease is reached: the right ends in {left}, and another \
                 caller may take the record over; the command goes on"
            ));
        }
        !capped
    }

    fn missed(&mut self, asked_at: Instant) {
        self.held.renew_at = asked_at + self.lease / 6;
        if !self.warned && Instant::now() >= self.held.until {
            self.warned = true;
            output::note(
                "the server does not answer and the lease is out: another caller may take the \
                 record over; the command goes on, and its end is reported",
            );
        }
    }
}
