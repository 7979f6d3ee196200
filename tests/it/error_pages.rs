//! The example on each page of docs/errors/ is what a caller really gets. With
//! `ONCEGATE_WRITE_PAGES=1` the examples are written anew instead of compared.

use std::fs;
use std::path::PathBuf;

use oncegate::domain::error::InvalidField;
use oncegate::domain::key::RecordKey;
use oncegate::domain::record::StateName;
use oncegate::service::error::ServiceError;
use oncegate::transport::grpc::status::{Asked, item_error, message_too_large, status};
use serde_json::{Value, json};
use tonic::Status;
use tonic_types::StatusExt;

/// Reasons that this version does not send.
const TO_COME: [&str; 2] = ["NO_STANDBY", "QUOTA_EXCEEDED"];

fn asked() -> Asked {
    Asked {
        method: "Expire",
        namespace: "terminal-agent".to_owned(),
        environment: "live".to_owned(),
    }
}

fn too_long() -> InvalidField {
    let key = RecordKey::parse("terminal-agent", "live", "", &"k".repeat(300));
    InvalidField::new("key.key", key.expect_err("too long").problem)
}

fn errors() -> Vec<ServiceError> {
    let (namespace, environment) = ("terminal-agent".to_owned(), "live".to_owned());
    vec![
        ServiceError::InvalidField(too_long()),
        ServiceError::TokenInvalid,
        ServiceError::FingerprintRequired {
            namespace: namespace.clone(),
            environment: environment.clone(),
        },
        ServiceError::Unauthenticated,
        ServiceError::NotPermitted,
        ServiceError::NamespaceNotFound {
            namespace,
            environment,
        },
        ServiceError::RecordNotFound,
        ServiceError::NotExpirable(StateName::Running),
        ServiceError::NotResolvable(StateName::Completed),
        ServiceError::EtagMismatch("record"),
        ServiceError::Overloaded,
        ServiceError::StoreUnavailable,
        ServiceError::OutcomeUnknown,
        ServiceError::Corrupt,
    ]
}

fn example(told: &Status) -> Value {
    let details = told.get_error_details();
    let typed = |name: &str| format!("type.googleapis.com/google.rpc.{name}");
    let mut shown = Vec::new();
    if let Some(info) = details.error_info() {
        shown.push(json!({
            "@type": typed("ErrorInfo"), "reason": info.reason, "domain": info.domain,
            "metadata": info.metadata,
        }));
    }
    if let Some(bad) = details.bad_request() {
        let violations = bad.field_violations.iter();
        let violations: Vec<_> = violations
            .map(|found| json!({"field": found.field, "description": found.description}))
            .collect();
        shown.push(json!({"@type": typed("BadRequest"), "fieldViolations": violations}));
    }
    if let Some(delay) = details.retry_info().and_then(|info| info.retry_delay) {
        let delay = format!("{}s", delay.as_secs_f64());
        shown.push(json!({"@type": typed("RetryInfo"), "retryDelay": delay}));
    }
    json!({"code": told.code() as i32, "message": told.message(), "details": shown})
}

fn item_example(error: &ServiceError) -> Value {
    let item = item_error(error);
    json!({"error": {"code": item.code, "reason": item.reason, "message": item.message}})
}

fn page(reason: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/errors");
    folder.join(format!("{reason}.md"))
}

#[test]
fn each_pages_example_is_what_a_caller_gets() {
    let mut examples: Vec<_> = errors()
        .iter()
        .map(|error| (error.reason(), example(&status(error, &asked()))))
        .collect();
    examples.push(("MESSAGE_TOO_LARGE", example(&message_too_large())));
    let in_a_batch = ServiceError::AnswerTooLarge;
    examples.push((in_a_batch.reason(), item_example(&in_a_batch)));
    for (reason, example) in &examples {
        let example = format!("{example:#}\n");
        let path = page(reason);
        let text = fs::read_to_string(&path).expect("each reason has its page");
        let (before, rest) = text.split_once("```json\n").expect("an example");
        let (shown, after) = rest.split_once("```").expect("its end");
        if std::env::var_os("ONCEGATE_WRITE_PAGES").is_some() {
            let text = format!("{before}```json\n{example}```{after}");
            fs::write(&path, text).expect("the page can be written");
        } else {
            assert_eq!(shown, example, "{reason}");
        }
    }
    let folder = page("x").parent().expect("a folder").to_owned();
    let pages = fs::read_dir(folder).expect("the folder is there");
    let pages = pages.filter(|page| {
        page.as_ref()
            .is_ok_and(|page| page.file_name() != "README.md")
    });
    assert_eq!(pages.count(), examples.len() + TO_COME.len());
}
