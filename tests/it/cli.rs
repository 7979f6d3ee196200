//! The command line against a real server: what each command shows and how it ends.

use oncegate::testkit::process::Server;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_oncegate");

/// A server on an empty store.
pub(crate) async fn server() -> Server {
    Server::start(PROGRAM).await
}

/// Reserves and answers the token.
pub(crate) async fn reserved(server: &Server, key: &str) -> String {
    let ended = server.run(&["reserve", key, "--operation", "op"]).await;
    ended.expect(0).row("token").to_owned()
}
