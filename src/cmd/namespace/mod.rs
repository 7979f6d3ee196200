//! `oncegate namespace …`: creates, shows, lists and changes namespaces.

mod policy;

use clap::{Args, Subcommand};

use self::policy::PolicyArgs;
use super::args::{FormatArgs, ServerArgs};
use super::client::Client;
use super::exit::Exit;
use super::failure::Failure;
use super::output::Output;
use super::table::Sheet;
use super::text;
use crate::domain::key::check_name;
use crate::proto::v1;

/// How many namespaces one call asks for.
const PAGE: i32 = 500;

#[derive(Debug, Subcommand)]
pub(crate) enum NamespaceCommand {
    Create(CreateArgs),
    Get(GetArgs),
    List(ListArgs),
    Update(UpdateArgs),
}

/// Create a namespace.
///
/// Without --environment it gets `live` and `test`. The policy given holds in each of them.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  oncegate namespace create billing --environment live --retention 72h --fingerprint required")]
pub(crate) struct CreateArgs {
    /// An environment to create; may be repeated.
    #[arg(long = "environment", short, value_name = "NAME")]
    environments: Vec<String>,

    #[command(flatten)]
    policy: PolicyArgs,

    #[command(flatten)]
    named: NamedArgs,
}

/// Show a namespace with its policies.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  oncegate namespace get billing -o json")]
pub(crate) struct GetArgs {
    #[command(flatten)]
    named: NamedArgs,
}

/// List all namespaces.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  oncegate namespace list")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    format: FormatArgs,

    #[command(flatten)]
    server: ServerArgs,
}

/// Change the policy of a namespace's environments.
///
/// What is not given stays as it is. An environment that is not there yet is added. Records keep
/// the policy they were first granted under. If somebody else changes the namespace meanwhile,
/// nothing is changed.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  oncegate namespace update billing --environment live --max-total-lease 4h")]
pub(crate) struct UpdateArgs {
    /// The environment to change or add; may be repeated.
    #[arg(long = "environment", short, value_name = "NAME", required = true)]
    environments: Vec<String>,

    #[command(flatten)]
    policy: PolicyArgs,

    #[command(flatten)]
    named: NamedArgs,
}

#[derive(Debug, Args)]
struct NamedArgs {
    /// The namespace: 1 to 63 of a-z, 0-9 and -.
    #[arg(value_name = "NAMESPACE")]
    name: String,
    #[command(flatten)]
    format: FormatArgs,

    #[command(flatten)]
    server: ServerArgs,
}

impl NamedArgs {
    async fn connect(&self) -> Result<Client, Failure> {
        check_name("namespace", &self.name)?;
        Client::connect(&self.server).await
    }
}

pub(crate) async fn namespace(command: NamespaceCommand, out: Output) -> Result<Exit, Failure> {
    match command {
        NamespaceCommand::Create(args) => create(args, out).await,
        NamespaceCommand::Get(args) => get(args, out).await,
        NamespaceCommand::List(args) => list(args, out).await,
        NamespaceCommand::Update(args) => update(args, out).await,
    }
}

async fn create(args: CreateArgs, out: Output) -> Result<Exit, Failure> {
    check_environments(&args.environments)?;
    let client = args.named.connect().await?;
    let mut names = args.environments;
    if names.is_empty() && !args.policy.is_empty() {
        // The server's own default, spelled out so that the policy has somewhere to hold.
        names = vec!["live".to_owned(), "test".to_owned()];
    }
    let mut environments = Vec::new();
    for name in names {
        let mut environment = v1::Environment {
            name,
            ..v1::Environment::default()
        };
        args.policy.apply(&mut environment);
        environments.push(environment);
    }
    let request = v1::CreateNamespaceRequest {
        namespace: Some(v1::Namespace {
            name: args.named.name.clone(),
            environments,
            ..v1::Namespace::default()
        }),
    };
    let response = client
        .admin()
        .create_namespace(client.request(request))
        .await?;
    out.answer(args.named.format.format, &response.into_inner(), |answer| {
        answer.namespace.as_ref().map_or_else(Sheet::new, sheet)
    })?;
    Ok(Exit::Ok)
}

async fn get(args: GetArgs, out: Output) -> Result<Exit, Failure> {
    let client = args.named.connect().await?;
    let response = read(&client, &args.named.name).await?;
    out.answer(args.named.format.format, &response, |answer| {
        answer.namespace.as_ref().map_or_else(Sheet::new, sheet)
    })?;
    Ok(Exit::Ok)
}

async fn read(client: &Client, name: &str) -> Result<v1::GetNamespaceResponse, Failure> {
    let request = v1::GetNamespaceRequest {
        name: name.to_owned(),
    };
    let response = client
        .admin()
        .get_namespace(client.request(request))
        .await?;
    Ok(response.into_inner())
}

async fn list(args: ListArgs, out: Output) -> Result<Exit, Failure> {
    let client = Client::connect(&args.server).await?;
    let mut all = v1::ListNamespacesResponse::default();
    let mut page_token = String::new();
    loop {
        let request = v1::ListNamespacesRequest {
            page_size: PAGE,
            page_token,
        };
        let page = client
            .admin()
            .list_namespaces(client.request(request))
            .await?
            .into_inner();
        all.namespaces.extend(page.namespaces);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    out.answer(args.format.format, &all, |answer| {
        let mut rows = Sheet::new().columns(&["NAMESPACE", "ENVIRONMENTS", "CREATED"]);
        for found in &answer.namespaces {
            let names: Vec<_> = found.environments.iter().map(|e| e.name.as_str()).collect();
            let created = text::time(found.created_at.as_ref());
            rows = rows.columns(&[&found.name, &names.join(", "), &created]);
        }
        rows
    })?;
    Ok(Exit::Ok)
}

async fn update(args: UpdateArgs, out: Output) -> Result<Exit, Failure> {
    check_environments(&args.environments)?;
    let client = args.named.connect().await?;
    let read = read(&client, &args.named.name).await?.namespace;
    let Some(mut changed) = read else {
        return Err(Failure::new(
            Exit::Failed,
            "the server's answer holds no namespace",
        ));
    };
    for name in &args.environments {
        let known = changed.environments.iter_mut().find(|e| e.name == *name);
        if let Some(environment) = known {
            args.policy.apply(environment);
            continue;
        }
        let mut added = v1::Environment {
            name: name.clone(),
            ..v1::Environment::default()
        };
        args.policy.apply(&mut added);
        changed.environments.push(added);
    }
    let request = v1::UpdateNamespaceRequest {
        namespace: Some(changed),
    };
    let response = client
        .admin()
        .update_namespace(client.request(request))
        .await?;
    out.answer(args.named.format.format, &response.into_inner(), |answer| {
        answer.namespace.as_ref().map_or_else(Sheet::new, sheet)
    })?;
    Ok(Exit::Ok)
}

fn check_environments(names: &[String]) -> Result<(), Failure> {
    for (at, name) in names.iter().enumerate() {
        check_name("environment", name)?;
        if names[..at].contains(name) {
            return Err(Failure::usage(format!("--environment names {name} twice")));
        }
    }
    Ok(())
}

fn sheet(namespace: &v1::Namespace) -> Sheet {
    let mut sheet = Sheet::new()
        .row("namespace", &namespace.name)
        .row("created at", text::time(namespace.created_at.as_ref()))
        .row("etag", &namespace.etag);
    for environment in &namespace.environments {
        sheet = sheet.and(policy::sheet(environment));
    }
    sheet
}
