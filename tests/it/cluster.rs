//! A Postgres server of a test's own, that may be made read-only, turned into a standby and
//! promoted without disturbing any other test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

/// A server in a folder of its own. Stopped, and its folder removed, when it is dropped.
pub(crate) struct Cluster {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
}

impl Cluster {
    /// Makes and starts one of the version whose programs the variable names.
    pub(crate) fn start(variable: &str) -> Self {
        let programs = PathBuf::from(variable_of(variable));
        let folder = printed(&mut unprivileged(
            "mktemp",
            &["-d", "/tmp/oncegate-cluster.XXXXXX"],
        ));
        let cluster = Self {
            programs,
            folder: PathBuf::from(folder),
            port: free_port(),
        };
        let data = cluster.data();
        cluster.program(
            "initdb",
            &[
                "-D", &data, "-U", "oncegate", "-A", "trust", "-N", "-E", "UTF8",
            ],
        );
        cluster.begin();
        cluster
    }

    /// Where it listens; whoever connects from this machine may do everything.
    pub(crate) fn url(&self) -> String {
        format!("postgres://oncegate@127.0.0.1:{}/postgres", self.port)
    }

    /// Runs statements, each on its own.
    pub(crate) async fn run(&self, statements: &[&str]) {
        let mut connection = PgConnection::connect(&self.url())
            .await
            .expect("the server answers");
        for statement in statements {
            let statement = AssertSqlSafe((*statement).to_owned());
            connection
                .execute(statement)
                .await
                .expect("the statement is carried out");
        }
    }

    /// Starts it again as a standby, which reads and does not write.
    pub(crate) fn demote(&self) {
        self.end("fast");
        let signal = format!("{}/standby.signal", self.data());
        printed(&mut unprivileged("touch", &[&signal]));
        self.begin();
    }

    /// Makes the standby a primary.
    pub(crate) fn promote(&self) {
        self.program("pg_ctl", &["promote", "-D", &self.data(), "-w", "-t", "30"]);
    }

    fn begin(&self) {
        let options = format!(
            "-p {} -k {} -c listen_addresses=127.0.0.1",
            self.port,
            self.folder.display()
        );
        let log = self.folder.join("log").display().to_string();
        self.program(
            "pg_ctl",
            &[
                "start",
                "-D",
                &self.data(),
                "-l",
                &log,
                "-w",
                "-t",
                "30",
                "-o",
                &options,
            ],
        );
    }

    fn end(&self, mode: &str) {
        self.program(
            "pg_ctl",
            &["stop", "-D", &self.data(), "-m", mode, "-w", "-t", "30"],
        );
    }

    fn data(&self) -> String {
        self.folder.join("data").display().to_string()
    }

    fn program(&self, name: &str, arguments: &[&str]) {
        printed(&mut unprivileged(self.programs.join(name), arguments));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end("immediate");
        printed(&mut unprivileged(
            "rm",
            &["-rf", &self.folder.display().to_string()],
        ));
    }
}

/// A command run as the user that Postgres and PgBouncer agree to run as.
pub(crate) fn unprivileged(program: impl AsRef<Path>, arguments: &[&str]) -> Command {
    let mut command = Command::new(variable_of("ONCEGATE_TEST_UNPRIVILEGED"));
    command.arg(program.as_ref()).args(arguments);
    command
}

/// What a command prints; one that fails fails the test.
pub(crate) fn printed(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("the program is there");
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {stderr}");
    String::from_utf8_lossy(&stdout).trim().to_owned()
}

pub(crate) fn variable_of(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} must be set: see scripts/test"))
}

/// A port that nobody has now.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}
