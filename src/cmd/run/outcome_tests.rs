//! The document of a run.

use super::super::child::Ended;
use super::*;

fn captured(bytes: &[u8]) -> Captured {
    Captured {
        kept: bytes.to_vec(),
        bytes: u64::try_from(bytes.len()).expect("it fits"),
    }
}

fn outcome(stdout: &[u8], stderr: &[u8], max: u32) -> v1::Outcome {
    let finished = Finished {
        ended: Ended::Code(3),
        stdout: captured(stdout),
        stderr: captured(stderr),
    };
    of(3, &finished, max)
}

fn document(outcome: &v1::Outcome) -> Document {
    serde_json::from_slice(&outcome.payload).expect("a document")
}

#[test]
fn text_stays_readable_and_other_bytes_become_base64() {
    let outcome = outcome(b"hello \xc3\xa6\n", &[0xff, 0], 1000);
    assert_eq!(
        str::from_utf8(&outcome.payload).expect("it is text"),
        r#"{"exitCode":3,"stdout":"hello æ\n","stdoutBytes":9,"stderrBase64":"/wA=","stderrBytes":2}"#
    );
    assert_eq!(outcome.content_type, "application/vnd.oncegate.run+json");
    assert_eq!(outcome.status(), v1::OutcomeStatus::Failed);
    assert_eq!(outcome.metadata[0].name, "exit-code");
    assert_eq!(outcome.metadata[0].value, "3");
}

#[test]
fn a_document_never_takes_more_than_its_limit() {
    let texts: [&[u8]; 5] = [
        b"",
        b"plain text that goes on",
        b"\x1b[1m\n\"\\\x01\x1f\t\r",
        "æøå🦀æøå🦀".as_bytes(),
        &[0xff; 50],
    ];
    let rest = outcome(b"", b"", 0).payload.len() + 2 * "Base64".len() + 8;
    for stdout in texts {
        for stderr in texts {
            for max in 0..100 {
                let whole = outcome(stdout, stderr, max);
                let limit = usize::try_from(max).expect("it fits") + rest;
                assert!(whole.payload.len() <= limit, "{max} {stdout:?} {stderr:?}");
                let kept = document(&whole);
                let out = bytes(kept.stdout.as_deref(), kept.stdout_base64.as_deref());
                assert!(stdout.starts_with(&out.expect("it decodes")));
            }
        }
    }
}

#[test]
fn what_one_output_does_not_need_the_other_may_have() {
    let whole = document(&outcome(&[b'a'; 90], b"", 100));
    assert_eq!(whole.stdout.expect("text").len(), 90);
    let whole = document(&outcome(b"", &[b'a'; 90], 100));
    assert_eq!(whole.stderr.expect("text").len(), 90);
    let whole = document(&outcome(&[b'a'; 90], &[b'b'; 90], 100));
    assert_eq!(whole.stdout.expect("text").len(), 50);
    assert_eq!(whole.stderr.expect("text").len(), 50);
}

#[test]
fn the_exit_code_outlives_the_payload() {
    let mut stored = outcome(b"", b"", 100);
    stored.payload.clear();
    assert_eq!(exit_of(&stored, None), Exit::Command(3));
    stored.metadata.clear();
    assert_eq!(exit_of(&stored, None), Exit::Failed);
    stored.set_status(v1::OutcomeStatus::Succeeded);
    assert_eq!(exit_of(&stored, None), Exit::Ok);
    assert_eq!(exit_of(&stored, Some(7)), Exit::Command(7));
}
