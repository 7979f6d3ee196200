//! Messages as protobuf JSON: lowerCamelCase names, 64-bit numbers as decimal strings, bytes as
//! base64, times in RFC 3339 with `Z`, durations like `30s`. Fields at their default are shown too,
//! so that a program finds the same names in every answer.

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};

use super::exit::Exit;
use super::failure::Failure;
use crate::proto::{FILE_DESCRIPTOR_SET, v1};

/// A message that knows its name in the protocol.
pub(crate) trait Named: Message {
    const NAME: &'static str;
}

macro_rules! named {
    ($($message:ident),+ $(,)?) => {
        $(impl Named for v1::$message {
            const NAME: &'static str = concat!("oncegate.v1.", stringify!($message));
        })+
    };
}

named!(
    ReserveResponse,
    CompleteResponse,
    LookupResponse,
    ExpireResponse,
    RenewResponse,
    ReleaseResponse,
    ReexecuteResponse,
    ParkResponse,
    ResolveResponse,
    ListAuditResponse,
    CreateNamespaceResponse,
    GetNamespaceResponse,
    ListNamespacesResponse,
    UpdateNamespaceResponse,
);

/// A message as one line of JSON, its end included.
pub(crate) fn line<M: Named>(message: &M) -> Result<String, Failure> {
    encode(M::NAME, &message.encode_to_vec()).map_err(|problem| {
        Failure::new(
            Exit::Failed,
            format!("the answer cannot be shown as JSON: {problem}"),
        )
    })
}

fn encode(name: &str, bytes: &[u8]) -> anyhow::Result<String> {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET)?;
    let Some(descriptor) = pool.get_message_by_name(name) else {
        anyhow::bail!("there is no message {name}");
    };
    let message = DynamicMessage::decode(descriptor, bytes)?;
    let options = SerializeOptions::new().skip_default_fields(false);
    let mut json = serde_json::Serializer::new(Vec::new());
    message.serialize_with_options(&mut json, &options)?;
    let mut line = String::from_utf8(json.into_inner())?;
    line.push('\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_strings_for_fences_base64_for_bytes_and_z_for_times() {
        let replay = v1::Replay {
            outcome: Some(v1::Outcome {
                status: v1::OutcomeStatus::Succeeded.into(),
                payload: vec![0, 255],
                ..v1::Outcome::default()
            }),
            completed_at: Some(prost_types::Timestamp {
                seconds: 0,
                nanos: 1_500_000,
            }),
            attempt: 1,
            fence: 9_007_199_254_740_993,
            ..v1::Replay::default()
        };
        let response = v1::ReserveResponse {
            verdict: Some(v1::reserve_response::Verdict::Replay(replay)),
            ..v1::ReserveResponse::default()
        };
        let line = line(&response).expect("it encodes");
        for part in [
            r#""fence":"9007199254740993""#,
            r#""payload":"AP8=""#,
            r#""completedAt":"1970-01-01T00:00:00.001500Z""#,
            r#""status":"OUTCOME_STATUS_SUCCEEDED""#,
            r#""fingerprintNotCompared":false"#,
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(line.ends_with("}\n") && !line.trim_end().contains('\n'));
    }

    #[test]
    fn a_duration_is_seconds_with_an_s() {
        let response = v1::RenewResponse {
            held: true,
            lease_remaining: Some(prost_types::Duration {
                seconds: 30,
                nanos: 0,
            }),
            ..v1::RenewResponse::default()
        };
        let line = line(&response).expect("it encodes");
        assert!(line.contains(r#""leaseRemaining":"30s""#), "{line}");
    }
}
