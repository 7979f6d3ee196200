//! `oncegate serve` as whoever starts it sees it: what it says on a terminal and elsewhere, and the
//! configuration in force.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use oncegate::testkit::process::{Ended, Server, bare, ended};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::time::{Instant, sleep, timeout};

use crate::cli::PROGRAM;

/// What a server that is told to end may take, and one that starts.
const PATIENCE: Duration = Duration::from_secs(30);

/// The program on a terminal of its own, which is also what its standard input goes to.
fn on_a_terminal(folder: &TempDir) -> PathBuf {
    let script = folder.path().join("terminal");
    let text = format!("#!/bin/sh\nexec script -qefc \"exec '{PROGRAM}' $*\" /dev/null\n");
    fs::write(&script, text).expect("the script is written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it can be run");
    script
}

/// A server that was started and is ready, with what it says.
struct Started {
    server: Server,
    process: Child,
    terminal: bool,
    _folder: TempDir,
}

impl Started {
    async fn with(terminal: bool, settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let program = if terminal {
            on_a_terminal(&folder)
        } else {
            PROGRAM.into()
        };
        let settings = [&[("ONCEGATE_LOG", "info")], settings].concat();
        let server = Server::prepare(program, &settings);
        let mut command = server.serving();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let process = command.spawn().expect("it starts");
        let limit = Instant::now() + PATIENCE;
        while !server.is_ready().await {
            assert!(Instant::now() < limit, "not ready in time");
            sleep(Duration::from_millis(20)).await;
        }
        Self {
            server,
            process,
            terminal,
            _folder: folder,
        }
    }

    /// Ends it as people do, by Ctrl-C, or as machines do, by a signal. Everything that it said.
    async fn end(mut self) -> Ended {
        if self.terminal {
            let mut keyboard = self.process.stdin.take().expect("a keyboard");
            keyboard.write_all(b"\x03").await.expect("pressed");
            keyboard.flush().await.expect("pressed");
            let mut said = String::new();
            let mut screen = self.process.stdout.take().expect("a screen");
            let all = timeout(PATIENCE, screen.read_to_string(&mut said)).await;
            all.expect("it ends").expect("text");
            drop(keyboard);
            let status = self.process.wait().await.expect("it ended");
            let code = status.code().unwrap_or(-1);
            // Without what the terminal shows of the keyboard.
            let stderr = said.replace("\r\n", "\n").replace("^C", "");
            return Ended {
                code,
                stdout: String::new(),
                stderr,
            };
        }
        let process = self.process.id().expect("it runs").to_string();
        let told = bare("kill".as_ref())
            .args(["-TERM", &process])
            .status()
            .await;
        assert!(told.expect("kill runs").success());
        let output = timeout(PATIENCE, self.process.wait_with_output()).await;
        Ended::from(output.expect("it ends").expect("its output"))
    }
}

#[tokio::test]
async fn logs_are_text_on_a_terminal_and_json_elsewhere_unless_it_is_told_otherwise() {
    for (terminal, format, json) in [
        (true, "auto", false),
        (false, "auto", true),
        (true, "json", true),
        (false, "text", false),
    ] {
        let case = format!("terminal {terminal}, {format}");
        let server = Started::with(terminal, &[("ONCEGATE_LOG_FORMAT", format)]).await;
        let said = server.end().await;
        assert_eq!(
            (said.code, said.stdout.as_str()),
            (0, ""),
            "{case}: {said:?}"
        );
        let lines = said.stderr.lines();
        let mut logged: Vec<_> = lines
            .filter(|line| line.contains("INFO") || line.contains("WARN"))
            .collect();
        assert!(logged.len() >= 3, "{case}: {said:?}");
        for line in &logged {
            let parsed = serde_json::from_str::<serde_json::Value>(line);
            let whole = parsed
                .as_ref()
                .is_ok_and(|event| event["message"].is_string());
            assert_eq!(whole, json, "{case}: {line}");
        }
        let serving = logged.iter().any(|line| line.contains("serving"));
        assert!(serving, "{case}: {said:?}");
        assert!(
            logged.pop().is_some_and(|last| last.contains("ended")),
            "{case}: {said:?}"
        );
        let coloured = terminal && !json;
        assert_eq!(said.stderr.contains('\x1b'), coloured, "{case}: {said:?}");
        let talks = said.stderr.contains("Try in another terminal");
        assert_eq!(talks, terminal, "{case}: {said:?}");
    }
}

#[tokio::test]
async fn on_a_terminal_it_says_where_it_is_and_what_to_try_which_works() {
    let started = Started::with(true, &[]).await;
    let server = Server::prepare(PROGRAM, &[]);
    let (endpoint, http) = (started.server.endpoint(), started.server.http_address());
    let store = started.server.database_url();
    let mut tried = server.command(&["reserve", "order-1", "--operation", "order.place"]);
    let tried = ended(tried.env("ONCEGATE_ENDPOINT", &endpoint)).await;
    assert!(tried.expect(0).stdout.contains("token"), "{tried:?}");

    let said = started.end().await.stderr;
    let grpc = endpoint.trim_start_matches("http://");
    for line in [
        format!("  gRPC   {grpc}"),
        format!("  HTTP   http://{http}"),
        format!("  store  {store}"),
        "  oncegate reserve order-1 --operation order.place".to_owned(),
    ] {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
}

#[tokio::test]
async fn elsewhere_the_log_says_where_it_is() {
    let started = Started::with(false, &[]).await;
    let (endpoint, http) = (started.server.endpoint(), started.server.http_address());
    let store = started.server.database_url();
    let said = started.end().await.stderr;
    let serving = said.lines().find(|line| line.contains("\"serving\""));
    let serving = serving.unwrap_or_else(|| panic!("{said}"));
    let serving: serde_json::Value = serde_json::from_str(serving).expect("JSON");
    assert_eq!(serving["grpc"], endpoint.trim_start_matches("http://"));
    assert_eq!(serving["http"], http.to_string());
    assert_eq!(serving["store"], store);
}

/// The configuration in force with these flags and variables.
async fn configuration(flags: &[&str], variables: &[(&str, &str)]) -> toml::Table {
    let mut command = bare(PROGRAM.as_ref());
    command.args(["serve", "--print-config"]).args(flags);
    let printed = ended(command.envs(variables.iter().copied())).await;
    printed.expect(0).stdout.parse().expect("TOML")
}

#[tokio::test]
async fn a_file_overrides_the_default_a_variable_the_file_and_a_flag_both() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let file = folder.path().join("own.toml");
    let text = "[log]\nfilter = 'warn'\n[sweep]\nbatch = 7\n";
    fs::write(&file, text).expect("the file is written");
    let file = file.display().to_string();
    let (by_flag, by_variable) = (["--config", &*file], ("ONCEGATE_CONFIG", &*file));
    let variable = ("ONCEGATE_LOG", "error");
    let both = ["--config", &*file, "--log", "debug"];
    for (flags, variables, filter, batch) in [
        (&[][..], &[][..], "info", 200),
        (&by_flag, &[], "warn", 7),
        (&[], &[by_variable], "warn", 7),
        (&by_flag, &[variable], "error", 7),
        (&both, &[variable], "debug", 7),
        (&["--log", "debug"], &[by_variable], "debug", 7),
    ] {
        let read = configuration(flags, variables).await;
        let found = (
            read["log"]["filter"].as_str(),
            read["sweep"]["batch"].as_integer(),
        );
        assert_eq!(
            found,
            (Some(filter), Some(batch)),
            "{flags:?} {variables:?}"
        );
    }
}

#[tokio::test]
async fn the_printed_configuration_shows_no_secret_wherever_it_comes_from() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let file = folder.path().join("own.toml");
    let url = "postgres://gate:swordfish@db/gate?password=swordfish";
    fs::write(&file, format!("[database]\nurl = '{url}'\n")).expect("the file is written");
    let file = file.display().to_string();
    for (flags, variables) in [
        (&["--config", &*file][..], &[][..]),
        (&["--database-url", url], &[]),
        (&[], &[("ONCEGATE_DATABASE_URL", url)]),
    ] {
        let read = configuration(flags, variables).await;
        let shown = read["database"]["url"].as_str();
        let hidden = "postgres://gate:hidden@db/gate?password=hidden";
        assert_eq!(shown, Some(hidden), "{flags:?}");
        assert!(!read.to_string().contains("swordfish"), "{read}");
    }
}
