//! Everything that a run measures with, started once: the yardstick's connections, and a server
//! for each store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use anyhow::Context;
use tonic::transport::Channel;

use crate::gate::{CALLERS_PER_CONNECTION, Echo, Gate, connections};
use crate::keys::Keys;
use crate::matrix::{Cell, Subject, Workload};
use crate::measure::{Figures, round};
use crate::server::{Places, Server, settings};
use crate::work::{Work, complete_ahead};
use crate::yardstick::Yardstick;

/// What runs while cells are measured.
#[derive(Debug)]
pub(crate) struct Rig {
    yardstick: Arc<Yardstick>,
    servers: BTreeMap<Subject, Server>,
    /// Completed before the first round, by subject.
    completed: BTreeMap<Subject, Keys>,
    seeds: u64,
    callers: u32,
}

impl Rig {
    /// Starts what these cells need.
    pub(crate) async fn start(cells: &[Cell], places: &Places) -> anyhow::Result<Self> {
        let mut rig = Self {
            yardstick: Arc::new(Yardstick::start(&places.postgres).await?),
            servers: BTreeMap::new(),
            completed: BTreeMap::new(),
            seeds: 0,
            callers: 0,
        };
        for cell in cells {
            let subject = served_by(cell.subject);
            if subject != Subject::Yardstick && !rig.servers.contains_key(&subject) {
                let settings = settings(subject, places).map_err(anyhow::Error::msg)?;
                let server = Server::start(subject.name(), settings, &places.folder).await?;
                rig.servers.insert(subject, server);
            }
        }
        for cell in cells {
            let replays = cell.workload == Workload::Replays;
            if replays && !rig.completed.contains_key(&cell.subject) {
                rig.complete_ahead(cell.subject).await?;
            }
        }
        Ok(rig)
    }

    pub(crate) fn yardstick(&self) -> &Yardstick {
        &self.yardstick
    }

    async fn complete_ahead(&mut self, subject: Subject) -> anyhow::Result<()> {
        let keys = self.fresh_keys();
        match subject {
            Subject::Yardstick => {
                complete_ahead(&mut Arc::clone(&self.yardstick), keys).await?;
            }
            Subject::Echo => {}
            Subject::Postgres | Subject::Sqlite | Subject::Memory | Subject::Redis => {
                for gate in &mut self.gates(subject, 1).await? {
                    complete_ahead(gate, keys).await?;
                }
            }
        }
        self.completed.insert(subject, keys);
        Ok(())
    }

    /// Measures a cell once.
    pub(crate) async fn measure(
        &mut self,
        cell: Cell,
        length: Duration,
    ) -> anyhow::Result<Figures> {
        let new = self.fresh_keys();
        let work = Work {
            workload: cell.workload,
            new,
            completed: self.completed.get(&cell.subject).copied().unwrap_or(new),
            hot: AtomicU32::new(0),
        };
        match cell.subject {
            Subject::Yardstick => {
                let callers = (0..cell.callers).map(|_| Arc::clone(&self.yardstick));
                round(callers.collect(), work, length).await
            }
            Subject::Echo => {
                let channels = self.channels(cell.subject, cell.callers).await?;
                round(channels.into_iter().map(Echo::new).collect(), work, length).await
            }
            Subject::Postgres | Subject::Sqlite | Subject::Memory | Subject::Redis => {
                let gates = self.gates(cell.subject, cell.callers).await?;
                round(gates, work, length).await
            }
        }
    }

    async fn gates(&mut self, subject: Subject, callers: u32) -> anyhow::Result<Vec<Gate>> {
        let channels = self.channels(subject, callers).await?;
        let numbers = self.callers..;
        self.callers += callers;
        let gates = numbers.zip(channels);
        Ok(gates.map(|(number, it)| Gate::new(it, number)).collect())
    }

    /// A channel for each caller, over as few connections as a real client would have.
    async fn channels(&self, subject: Subject, callers: u32) -> anyhow::Result<Vec<Channel>> {
        let server = self.servers.get(&served_by(subject));
        let endpoint = server.context("its server was started")?.endpoint();
        let shared = connections(endpoint, callers).await?;
        let shared = shared.into_iter().flat_map(|channel| {
            let count = usize::try_from(CALLERS_PER_CONNECTION).unwrap_or(usize::MAX);
            std::iter::repeat_n(channel, count)
        });
        Ok(shared.take(usize::try_from(callers)?).collect())
    }

    const fn fresh_keys(&mut self) -> Keys {
        self.seeds += 1;
        Keys::new(self.seeds)
    }
}

/// The echo is the server on Postgres.
const fn served_by(subject: Subject) -> Subject {
    match subject {
        Subject::Echo => Subject::Postgres,
        Subject::Yardstick
        | Subject::Postgres
        | Subject::Sqlite
        | Subject::Memory
        | Subject::Redis => subject,
    }
}
