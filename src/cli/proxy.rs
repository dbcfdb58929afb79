//! By which proxy a cluster is asked, by the rules that kubectl has from Go.
//!
//! That of a kubeconfig is for its cluster always. That of the environment is for every server but those
//! that `NO_PROXY` names, and this machine.

use std::net::IpAddr;

use http::Uri;

/// Why a proxy cannot be used. Its address is left out: a password may stand in it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    #[error("{from} is no address of a proxy: write http://HOST:PORT")]
    Address { from: &'static str },
    #[error("{from} names a {scheme} proxy: only http and https proxies are supported, no SOCKS")]
    Scheme { from: &'static str, scheme: String },
}

/// The proxy for a server: the kubeconfig's own, or that of the environment where it is for this server.
pub(super) fn for_server(
    own: Option<&str>,
    server: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, ProxyError> {
    if let Some(own) = own {
        return usable(address(own), "proxy-url of the kubeconfig").map(Some);
    }
    let either = |names: [&str; 2]| {
        let mut values = names.into_iter().filter_map(&variable);
        values.find(|value| !value.is_empty())
    };
    let (from, names, port) = match server.scheme_str() {
        Some("https") => ("HTTPS_PROXY", ["HTTPS_PROXY", "https_proxy"], 443),
        Some("http") => ("HTTP_PROXY", ["HTTP_PROXY", "http_proxy"], 80),
        _ => return Ok(None),
    };
    let without = either(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    let port = server.port_u16().unwrap_or(port);
    match either(names) {
        Some(proxy) if !is_direct(server, port, &without) => {
            // Without a scheme it is an HTTP proxy.
            let found = address(&proxy).or_else(|| address(&format!("http://{proxy}")));
            usable(found, from).map(Some)
        }
        _ => Ok(None),
    }
}

/// An address with a scheme and a host.
fn address(text: &str) -> Option<Uri> {
    let uri: Uri = text.parse().ok()?;
    let host = uri.host().filter(|host| !host.is_empty());
    (uri.scheme().is_some() && host.is_some()).then_some(uri)
}

fn usable(proxy: Option<Uri>, from: &'static str) -> Result<Uri, ProxyError> {
    let proxy = proxy.ok_or(ProxyError::Address { from })?;
    match proxy.scheme_str() {
        Some("http" | "https") => Ok(proxy),
        scheme => Err(ProxyError::Scheme {
            from,
            scheme: scheme.unwrap_or_default().to_owned(),
        }),
    }
}

/// Whether a server is asked without the proxy of the environment.
fn is_direct(server: &Uri, port: u16, without: &str) -> bool {
    let host = server.host().unwrap_or_default();
    let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    let address = address.map(|address| address.to_canonical());
    host == "localhost"
        || address.is_some_and(|address| address.is_loopback())
        || without.split(',').any(|rule| {
            let rule = rule.trim().to_ascii_lowercase();
            let (name, own) = parted(&rule);
            let same_port = own.is_empty() || own == port.to_string();
            same_port && matches(name, &host, address)
        })
}

/// The host of a rule and its port, which an address with colons has only behind brackets.
fn parted(rule: &str) -> (&str, &str) {
    match rule.rsplit_once(':') {
        Some((host, port)) if host.ends_with(']') || !host.contains(':') => (host, port),
        _ => (rule, ""),
    }
}

fn matches(rule: &str, host: &str, address: Option<IpAddr>) -> bool {
    if rule == "*" {
        return true;
    }
    if let Some(address) = address {
        return in_range(rule, address);
    }
    let below = rule.strip_prefix('*').filter(|rest| rest.starts_with('.'));
    let domain = below.unwrap_or(rule);
    match domain.strip_prefix('.') {
        Some("") => false,
        Some(_) => host.ends_with(domain),
        None => !domain.is_empty() && (host == domain || host.ends_with(&format!(".{domain}"))),
    }
}

/// Whether an address is this one, or one of this range.
fn in_range(rule: &str, address: IpAddr) -> bool {
    let (base, bits) = match rule.split_once('/') {
        Some((base, bits)) => (base, bits.parse::<u32>().ok()),
        None => (rule.trim_matches(['[', ']']), Some(128)),
    };
    let Some((base, bits)) = base.parse::<IpAddr>().ok().zip(bits) else {
        return false;
    };
    // The part of both that counts, at the top of a number.
    let top = |number: u128, width: u32| {
        let number = number << (128 - width);
        number.checked_shr(128 - bits.min(width)).unwrap_or(0)
    };
    match (base.to_canonical(), address) {
        (IpAddr::V4(base), IpAddr::V4(address)) => {
            top(u32::from(base).into(), 32) == top(u32::from(address).into(), 32)
        }
        (IpAddr::V6(base), IpAddr::V6(address)) => {
            top(base.into(), 128) == top(address.into(), 128)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is used for a server with these variables.
    fn with(server: &str, variables: &[(&str, &str)]) -> Result<Option<String>, ProxyError> {
        let variable = |name: &str| {
            let mut all = variables.iter();
            let found = all.find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let found = for_server(None, &server.parse().unwrap(), variable)?;
        Ok(found.map(|proxy| proxy.to_string()))
    }

    #[test]
    fn a_cluster_is_asked_through_the_proxy_unless_no_proxy_names_it() {
        let named = "https://api.cluster.example:6443";
        for (server, without, through) in [
            (named, "", true),
            (named, "*", false),
            (named, "a,*", false),
            (named, "cluster.example", false),
            (named, "a.example, .cluster.example", false),
            (named, "*.cluster.example", false),
            (named, "*cluster.example", true),
            (named, "api.cluster.example:6443", false),
            (named, "api.cluster.example:", false),
            (named, "api.cluster.example:443", true),
            ("https://api.example", "api.example:443", false),
            ("https://api.example", "api.example:80", true),
            (named, "ster.example", true),
            (named, "10.0.0.0/8", true),
            // What is no rule is passed over.
            (named, "localhost,127.0.0.1,", true),
            (named, ",:6443,.,http://x y,cluster.example", false),
            ("https://10.1.2.3", "10.0.0.0/8", false),
            ("https://10.1.2.3", "10.1.2.3", false),
            ("https://10.1.2.3", "10.1.2.3:443", false),
            ("https://10.1.2.3", "10.1.2.3:6443", true),
            ("https://10.1.2.3", "0.0.0.0/0", false),
            ("https://10.1.2.3", "10.1.2.4", true),
            ("https://10.1.2.3", "11.0.0.0/8,x/8,10.0.0.0/x", true),
            ("https://[fd00::1]:6443", "fd00::/8", false),
            ("https://[fd00::1]:6443", "fe00::/8", true),
            ("https://[fd00::1]:6443", "[fd00::1]:6443", false),
            ("https://[fd00::1]:6443", "fd00::1:6443", true),
            ("https://[fd00::6443]:6443", "fd00::6443", false),
            // A cluster on this machine never.
            ("https://127.0.0.1:6443", "", false),
            ("https://localhost:6443", "", false),
            ("https://[::1]:6443", "", false),
        ] {
            let proxy = ("https_proxy", "http://proxy.example:3128");
            let used = with(server, &[proxy, ("NO_PROXY", without)]).unwrap();
            assert_eq!(used.is_some(), through, "{server} {without:?}");
        }
    }

    #[test]
    fn the_proxy_is_that_of_the_servers_scheme() {
        let both = [("HTTPS_PROXY", "http://a:1"), ("http_proxy", "http://b:2")];
        let used = |server: &str| with(server, &both).unwrap();
        assert_eq!(used("https://api.example").unwrap(), "http://a:1/");
        assert_eq!(used("http://api.example").unwrap(), "http://b:2/");
        let upper = [("HTTPS_PROXY", ""), ("https_proxy", "http://c:3")];
        let used = with("https://api.example", &upper).unwrap();
        assert_eq!(used.unwrap(), "http://c:3/", "an empty one is none");
    }

    #[test]
    fn an_address_without_a_scheme_is_that_of_an_http_proxy() {
        for (set, used) in [
            ("proxy.example:3128", "http://proxy.example:3128/"),
            ("proxy.example", "http://proxy.example/"),
            (
                "me:pw@proxy.example:3128",
                "http://me:pw@proxy.example:3128/",
            ),
            ("https://proxy.example", "https://proxy.example/"),
        ] {
            let found = with("https://api.example", &[("HTTPS_PROXY", set)]);
            assert_eq!(found.unwrap().unwrap(), used);
        }
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_told_without_its_password() {
        let said = |proxy: &str| {
            let variables = [("HTTPS_PROXY", proxy), ("NO_PROXY", "direct.example")];
            assert_eq!(with("https://direct.example", &variables), Ok(None));
            let error = with("https://api.example", &variables).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            said("socks5://me:pw@proxy.example:1080"),
            "HTTPS_PROXY names a socks5 proxy: only http and https proxies are supported, no SOCKS"
        );
        assert_eq!(
            said("http://a b"),
            "HTTPS_PROXY is no address of a proxy: write http://HOST:PORT"
        );
    }

    #[test]
    fn the_proxy_of_a_kubeconfig_is_used_always() {
        let server: Uri = "https://127.0.0.1:6443".parse().unwrap();
        let variable = |name: &str| (name == "NO_PROXY").then(|| "*".to_owned());
        let used = |own: &str| for_server(Some(own), &server, variable);
        let own = "http://127.0.0.1:8888";
        assert_eq!(used(own), Ok(Some(own.parse().unwrap())));
        assert_eq!(for_server(None, &server, variable), Ok(None));
        // kubectl does not guess here.
        let said = used("proxy.example:3128").unwrap_err().to_string();
        let from = "proxy-url of the kubeconfig is no address of a proxy";
        assert!(said.starts_with(from), "{said}");
    }
}
