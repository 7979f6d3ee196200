//! `AdminService`: what operators ask about namespaces.

use tonic::{Request, Response, Status};

use super::convert::admin::{changed_namespace, namespace_message, new_namespace};
use super::convert::page;
use super::handle::Handler;
use super::status::Asked;
use crate::domain::key::check_name;
use crate::proto::v1 as pb;
use pb::admin_service_server::AdminService;

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl AdminService for Handler {
    async fn create_namespace(
        &self,
        request: Request<pb::CreateNamespaceRequest>,
    ) -> Answer<pb::CreateNamespaceResponse> {
        let asked = named("CreateNamespace", request.get_ref().namespace.as_ref());
        self.owned(request, asked, async |gate, call, request| {
            let namespace = new_namespace(request.namespace)?;
            let stored = gate.create_namespace(&call, namespace).await?;
            Ok(pb::CreateNamespaceResponse {
                namespace: Some(namespace_message(&stored)),
            })
        })
        .await
    }

    async fn get_namespace(
        &self,
        request: Request<pb::GetNamespaceRequest>,
    ) -> Answer<pb::GetNamespaceResponse> {
        let asked = Asked::namespace("GetNamespace", &request.get_ref().name);
        self.owned(request, asked, async |gate, call, request| {
            check_name("name", &request.name)?;
            let namespace = gate.get_namespace(&call, &request.name).await?;
            Ok(pb::GetNamespaceResponse {
                namespace: Some(namespace_message(&namespace)),
            })
        })
        .await
    }

    async fn list_namespaces(
        &self,
        request: Request<pb::ListNamespacesRequest>,
    ) -> Answer<pb::ListNamespacesResponse> {
        let asked = Asked::namespace("ListNamespaces", "");
        self.owned(request, asked, async |gate, call, request| {
            let size = page(request.page_size)?;
            if !request.page_token.is_empty() {
                // The token is the last name of the page before.
                check_name("page_token", &request.page_token)?;
            }
            let mut listed = gate
                .list_namespaces(&call, &request.page_token, size + 1)
                .await?;
            let more = listed.len() > usize::try_from(size).unwrap_or(usize::MAX);
            if more {
                listed.pop();
            }
            let last = listed.last().filter(|_| more);
            Ok(pb::ListNamespacesResponse {
                next_page_token: last.map_or_else(String::new, |last| last.name.clone()),
                namespaces: listed.iter().map(namespace_message).collect(),
            })
        })
        .await
    }

    async fn update_namespace(
        &self,
        request: Request<pb::UpdateNamespaceRequest>,
    ) -> Answer<pb::UpdateNamespaceResponse> {
        let asked = named("UpdateNamespace", request.get_ref().namespace.as_ref());
        self.owned(request, asked, async |gate, call, request| {
            let namespace = changed_namespace(request.namespace)?;
            let stored = gate.update_namespace(&call, namespace).await?;
            Ok(pb::UpdateNamespaceResponse {
                namespace: Some(namespace_message(&stored)),
            })
        })
        .await
    }
}

fn named(method: &'static str, namespace: Option<&pb::Namespace>) -> Asked {
    Asked::namespace(method, namespace.map_or("", |namespace| &namespace.name))
}
