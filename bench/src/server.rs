//! Servers of the release binary that is built beside this program, each on a store of its own.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use oncegate::config::read::VARIABLES;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::gate::{Echo, connections};
use crate::matrix::Subject;

const READY_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// What the run was given to measure with.
#[derive(Debug)]
pub(crate) struct Places {
    /// A superuser's URL of a Postgres server of the run's own.
    pub(crate) postgres: String,
    /// A Redis server of the run's own, where there is one.
    pub(crate) redis: Option<String>,
    /// A folder on a disk, gone after the run.
    pub(crate) folder: PathBuf,
}

/// A server's settings; without its addresses.
type Settings = Vec<(&'static str, String)>;

/// Says how a subject is served, or why it cannot be measured here.
pub(crate) fn settings(subject: Subject, places: &Places) -> Result<Settings, String> {
    let postgres = ("ONCEGATE_DATABASE_URL", places.postgres.clone());
    let settings = match subject {
        Subject::Yardstick => vec![],
        Subject::Echo | Subject::Postgres => vec![postgres],
        Subject::Sqlite => {
            let file = places.folder.join("oncegate.db");
            let url = format!("sqlite://{}", file.display());
            vec![("ONCEGATE_DATABASE_URL", url)]
        }
        Subject::Memory => vec![("ONCEGATE_DATABASE_URL", "memory://".to_owned())],
        Subject::Redis => {
            let redis = places.redis.clone();
            let redis = redis.ok_or("redis-server is not installed")?;
            // Without a memory of its own, so that it is Redis that answers.
            let own = ("ONCEGATE_CACHE_BYTES_MAX", "0".to_owned());
            vec![postgres, own, ("ONCEGATE_REDIS_URL", redis)]
        }
    };
    for (name, _) in &settings {
        if !VARIABLES.iter().any(|(known, _)| known == name) {
            return Err(format!("this server has no {name}"));
        }
    }
    Ok(settings)
}

/// A running server; killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    endpoint: String,
}

impl Server {
    /// Makes the schema where it must be made, starts the server, and waits until it can be used.
    pub(crate) async fn start(
        name: &str,
        settings: Settings,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?.with_file_name("oncegate");
        let on_postgres = settings
            .iter()
            .any(|(_, value)| value.starts_with("postgres"));
        if on_postgres {
            let mut migrate = command(&program, &settings);
            let done = migrate.arg("migrate").output().await?;
            ensure!(done.status.success(), "oncegate migrate: {done:?}");
        }
        let address = free_address()?;
        let log = folder.join(format!("{name}.log"));
        let process = command(&program, &settings)
            .arg("serve")
            .env("ONCEGATE_LISTEN", &address)
            .env("ONCEGATE_HTTP_LISTEN", "127.0.0.1:0")
            .env("ONCEGATE_NAMESPACES_AUTO_CREATE", "true")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("{} does not start", program.display()))?;
        let endpoint = format!("http://{address}");
        let mut server = Self { process, endpoint };
        let ready = server.until_ready().await;
        ready.with_context(|| std::fs::read_to_string(&log).unwrap_or_default())?;
        Ok(server)
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    async fn until_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        while !is_ready(&self.endpoint).await.unwrap_or(false) {
            if let Some(status) = self.process.try_wait()? {
                bail!("the server ended: {status}");
            }
            ensure!(Instant::now() < deadline, "the server is not ready in time");
            sleep(POLL).await;
        }
        Ok(())
    }
}

async fn is_ready(endpoint: &str) -> anyhow::Result<bool> {
    let mut channels = connections(endpoint, 1).await?;
    let channel = channels.pop().context("one connection")?;
    Echo::new(channel).serves("oncegate.v1.GateService").await
}

/// The program with these settings and none of the machine's.
fn command(program: &Path, settings: &Settings) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .envs(settings.iter().map(|(name, value)| (name, value)))
        .kill_on_drop(true);
    command
}

fn free_address() -> anyhow::Result<String> {
    let probe = TcpListener::bind(("127.0.0.1", 0))?;
    Ok(probe.local_addr()?.to_string())
}
