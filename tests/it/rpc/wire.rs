//! Below the messages: compression, limits, broken text, deadlines, traces, reflection.

use http::{HeaderMap, Request};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use oncegate::domain::key::RecordKey;
use oncegate::domain::limits;
use oncegate::proto::v1 as pb;
use pb::gate_service_client::GateServiceClient;
use prost::Message;
use tonic::codec::CompressionEncoding;
use tonic_reflection::pb::{v1, v1alpha};

use super::*;

/// Sends bytes as one message, with headers that a client library would not let through.
async fn raw(stage: &Stage, method: &str, message: &[u8], headers: &[(&str, &str)]) -> Status {
    let mut frame = vec![0];
    let length = u32::try_from(message.len()).expect("a short message");
    frame.extend(length.to_be_bytes());
    frame.extend(message);
    let address = stage.server.grpc_address();
    let mut request = Request::post(format!("http://{address}/oncegate.v1.GateService/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let client = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http();
    let request = request
        .body(axum::body::Body::from(frame))
        .expect("a request");
    let response = client.request(request).await.expect("a response");
    let headers: HeaderMap = response.headers().clone();
    Status::from_header_map(&headers).unwrap_or_else(|| Status::ok(""))
}

async fn is_stored(stage: &Stage, name: &str) -> bool {
    let key = RecordKey::parse("terminal", "live", "acct", name).expect("valid");
    let read = stage.store.read(vec![key]).await.expect("a reading");
    matches!(read.records[..], [Ok(Some(_))])
}

#[tokio::test]
async fn requests_and_answers_may_be_compressed_health_included() {
    let stage = Stage::new().await;
    let mut gate = GateServiceClient::new(stage.server.channel())
        .send_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Gzip);
    let response = gate.reserve(reserve("k")).await.expect("an answer");
    assert_eq!(
        response.metadata().get("grpc-encoding").expect("set"),
        "gzip"
    );
    let mut health = tonic_health::pb::health_client::HealthClient::new(stage.server.channel())
        .send_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Gzip);
    let check = tonic_health::pb::HealthCheckRequest::default();
    health.check(check).await.expect("an answer");
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_whole_before_and_after_it_is_inflated() {
    let stage = Stage::new().await;
    let grant = stage.grant("k").await;
    let request = complete("k", &grant.token, vec![0; limits::MESSAGE_BYTES_MAX]);
    let plain = stage.server.gate();
    let zipped =
        GateServiceClient::new(stage.server.channel()).send_compressed(CompressionEncoding::Gzip);
    for mut gate in [plain, zipped] {
        let told = refusal(gate.complete(request.clone()).await);
        assert_eq!(
            (told.code, told.reason.as_str()),
            (Code::ResourceExhausted, "MESSAGE_TOO_LARGE")
        );
        assert_eq!(told.metadata["limit_bytes"], "8388608");
        assert_eq!(told.retry_after, None);
    }
    assert_eq!(stage.lookup("k").await.state(), pb::RecordState::Running);
}

#[tokio::test]
async fn text_that_is_not_utf8_is_a_bad_field_and_nothing_is_stored() {
    let stage = Stage::new().await;
    let whole = reserve("needle").encode_to_vec();
    let at = whole
        .windows(6)
        .position(|six| six == b"needle")
        .expect("it is there");
    let mut broken = whole.clone();
    broken[at] = 0xff;
    let told = refusal::<()>(Err(raw(&stage, "Reserve", &broken, &[]).await));
    assert_eq!(
        (told.code, told.reason.as_str()),
        (Code::InvalidArgument, "INVALID_FIELD")
    );
    assert_eq!(
        told.fields,
        [("key.key".to_owned(), "must be UTF-8".to_owned())]
    );
    for nonsense in [&whole[..whole.len() - 3], &[0xff; 9]] {
        let told = refusal::<()>(Err(raw(&stage, "Reserve", nonsense, &[]).await));
        assert_eq!(
            (told.code, told.reason.as_str()),
            (Code::InvalidArgument, "INVALID_FIELD")
        );
    }
    assert!(!is_stored(&stage, "needle").await);
}

#[tokio::test]
async fn a_deadline_that_is_over_on_arrival_does_nothing() {
    let stage = Stage::new().await;
    let message = reserve("late").encode_to_vec();
    for timeout in ["0n", "0m", "0S"] {
        let told = raw(&stage, "Reserve", &message, &[("grpc-timeout", timeout)]).await;
        assert_eq!(told.code(), Code::DeadlineExceeded, "{timeout}");
    }
    let told = raw(&stage, "Reserve", &message, &[("grpc-timeout", "soon")]).await;
    assert_eq!(told.code(), Code::InvalidArgument);
    assert!(!is_stored(&stage, "late").await);
    let told = raw(&stage, "Reserve", &message, &[]).await;
    assert_eq!(told.code(), Code::Ok, "none at all: the server's default");
    assert!(is_stored(&stage, "late").await);
}

#[tokio::test]
async fn a_deadline_that_comes_first_says_that_the_outcome_is_not_known() {
    let store = super::faulty::Faulty::new();
    let server = TestServer::start(Arc::clone(&store) as Arc<dyn Store>).await;
    let token = granted(verdict(server.gate().reserve(reserve("k")).await)).token;
    store.set(super::faulty::Fault::Hold);
    let mut request = tonic::Request::new(complete("k", &token, b"x"));
    request.set_timeout(Duration::from_secs(1));
    let told = refusal(server.gate().complete(request).await);
    assert_eq!(
        (told.code, told.reason.as_str()),
        (Code::Unavailable, "OUTCOME_UNKNOWN")
    );
    assert!(told.retry_after.is_some());
}

#[tokio::test]
async fn the_trace_of_a_call_stands_in_its_attempt() {
    const ID: &str = "0af7651916cd43dd8448eb211c80319c";
    let stage = Stage::new().await;
    let mut request = tonic::Request::new(reserve("k"));
    let header = format!("00-{ID}-b7ad6b7169203331-01");
    request
        .metadata_mut()
        .insert("traceparent", header.parse().expect("a header"));
    answer(stage.server.gate().reserve(request).await);
    assert_eq!(stage.lookup("k").await.attempts[0].trace_id, ID);
    let (_, metrics) = stage.server.get("/metrics").await;
    let line = "method=\"oncegate.v1.GateService/Reserve\"";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn both_reflections_list_the_services() {
    let stage = Stage::new().await;
    let mut newer =
        v1::server_reflection_client::ServerReflectionClient::new(stage.server.channel());
    let ask = v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(v1::server_reflection_request::MessageRequest::ListServices(
            String::new(),
        )),
    };
    let mut told = newer
        .server_reflection_info(tokio_stream::iter([ask]))
        .await
        .expect("v1")
        .into_inner();
    let told = told.message().await.expect("no error").expect("an answer");
    let listed = format!("{told:?}");
    let mut older =
        v1alpha::server_reflection_client::ServerReflectionClient::new(stage.server.channel());
    let ask = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(
            v1alpha::server_reflection_request::MessageRequest::ListServices(String::new()),
        ),
    };
    let mut told = older
        .server_reflection_info(tokio_stream::iter([ask]))
        .await
        .expect("v1alpha")
        .into_inner();
    let told = told.message().await.expect("no error").expect("an answer");
    for listed in [listed, format!("{told:?}")] {
        for service in [
            "oncegate.v1.GateService",
            "oncegate.v1.AdminService",
            "oncegate.v1.SupportService",
            "grpc.health.v1.Health",
        ] {
            assert!(listed.contains(service), "{listed}");
        }
        for unserved in ["oncegate.v1.ProbeService", "oncegate.v1.ReconcileService"] {
            assert!(!listed.contains(unserved), "{listed}");
        }
    }
}

#[tokio::test]
async fn an_unknown_method_is_unimplemented() {
    let stage = Stage::new().await;
    let told = raw(&stage, "Seize", &[], &[]).await;
    assert_eq!(told.code(), Code::Unimplemented);
    let (_, metrics) = stage.server.get("/metrics").await;
    assert!(
        metrics.contains("method=\"other\"") && !metrics.contains("Seize"),
        "{metrics}"
    );
}
