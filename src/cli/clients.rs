//! The flags of `muster serve` that say who may call the webhook.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use crate::certs::{self, Clients};

/// The file that the user named cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0}; --client-ca needs a PEM file with the CA of the certificate that the apiserver shows, or \
     leave it out to answer every caller"
)]
pub struct ClientCaError(certs::Error);

/// Who may call.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// PEM file of CAs, re-read every 10 seconds: only clients with a certificate of one of them are
    /// answered at the webhook's address. The apiserver must be told to show one. Without it every
    /// client is answered
    #[arg(long, env = "MUSTER_CLIENT_CA", value_name = "FILE")]
    client_ca: Option<PathBuf>,

    /// Common name or DNS name that a client's certificate must carry; may be repeated, or several
    /// with commas. Without it every certificate of --client-ca is taken. Name the apiserver's where
    /// the CA signs for others too: the cluster's own CA signs for every kubelet
    #[arg(
        long = "client-name",
        env = "MUSTER_CLIENT_NAME",
        value_name = "NAME",
        value_delimiter = ',',
        requires = "client_ca",
        value_parser = NonEmptyStringValueParser::new()
    )]
    client_names: Vec<String>,
}

impl ClientArgs {
    /// What a client must add to be answered.
    pub(super) fn for_curl(&self) -> &'static str {
        match self.client_ca {
            Some(_) => " --cert client.crt --key client.key",
            None => "",
        }
    }

    /// The clients to let in, if not all.
    pub(super) fn open(&self) -> Result<Option<Clients>, ClientCaError> {
        let open = |file: &PathBuf| Clients::open(file, &self.client_names);
        let opened = self.client_ca.as_ref().map(open).transpose();
        opened.map_err(ClientCaError)
    }
}
