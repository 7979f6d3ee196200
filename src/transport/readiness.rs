//! Whether the store can be used, looked at every second, and everybody who is told of it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::port::store::Store;
use crate::telemetry::metrics::Metrics;

const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_TIME_MAX: Duration = Duration::from_secs(3);

/// The services whose health follows the store; the whole server's, `""`, says only that it lives.
const SERVICES: [&str; 3] = [
    "oncegate.v1.GateService",
    "oncegate.v1.AdminService",
    "oncegate.v1.SupportService",
];

/// What there is to say about a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The store can be used.
    Ready,
    /// It cannot, or not yet; in words for an operator.
    NotReady(String),
    /// The server is going away.
    Draining,
}

/// A server's state. Copies share it.
#[derive(Debug, Clone)]
pub struct Readiness {
    state: watch::Sender<State>,
    health: HealthReporter,
}

impl Readiness {
    /// Not ready until the store was looked at.
    pub async fn new() -> Self {
        let starting = State::NotReady("the store has not answered yet".to_owned());
        let readiness = Self {
            state: watch::Sender::new(starting),
            health: HealthReporter::new(),
        };
        readiness.tell_health(false).await;
        readiness
    }

    /// What health checks are answered from.
    pub fn health(&self) -> HealthReporter {
        self.health.clone()
    }

    /// The state now.
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Returns once the server is ready.
    pub async fn ready(&self) {
        let mut state = self.state.subscribe();
        // The sender is this value's own: it is there for as long as anybody waits.
        drop(state.wait_for(|state| *state == State::Ready).await);
    }

    /// Says that the server is going away; nothing takes it back.
    pub async fn drain(&self) {
        self.state.send_replace(State::Draining);
        self.tell_health(false).await;
    }

    /// Ends the health watches, which would hold their connections open. A check on a connection that
    /// is still there finds no service.
    pub async fn end_watches(&self) {
        let mut health = self.health.clone();
        for service in SERVICES.into_iter().chain([""]) {
            health.clear_service_status(service).await;
        }
    }

    /// Looks at the store until it is dropped. A change is logged once.
    pub async fn follow(&self, store: Arc<dyn Store>, metrics: Arc<Metrics>) {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let mut looking = pin!(store.check());
            let seen = match timeout(LOOK_TIME_MAX, looking.as_mut()).await {
                Ok(seen) => seen,
                Err(_elapsed) => {
                    if self.state() == State::Ready {
                        let silence =
                            format!("the store has not answered within {LOOK_TIME_MAX:?}");
                        self.change(State::NotReady(silence), &metrics).await;
                    }
                    // Its own words say more than its silence.
                    looking.await
                }
            };
            let seen = match seen {
                Ok(_health) => State::Ready,
                Err(error) => State::NotReady(error.to_string()),
            };
            self.change(seen, &metrics).await;
        }
    }

    async fn change(&self, seen: State, metrics: &Metrics) {
        metrics.ready(seen == State::Ready);
        let changed = self.state.send_if_modified(|state| {
            let change = *state != State::Draining && *state != seen;
            if change {
                state.clone_from(&seen);
            }
            change
        });
        if !changed {
            return;
        }
        match &seen {
            State::Ready => tracing::info!("the store can be used: ready"),
            State::NotReady(reason) => tracing::error!(reason, "not ready"),
            State::Draining => {}
        }
        self.tell_health(seen == State::Ready).await;
    }

    async fn tell_health(&self, ready: bool) {
        let status = if ready {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        for service in SERVICES {
            self.health.set_service_status(service, status).await;
        }
    }
}
