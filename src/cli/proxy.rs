//! Whether the proxy of the environment is for a cluster, by the rules that kubectl has from Go.
//!
//! kube 5.0 takes `HTTPS_PROXY`, and holds `NO_PROXY` against the proxy's own address: a cluster on this
//! machine, or one that `NO_PROXY` names, would be asked through the proxy.

use std::net::IpAddr;

use http::Uri;

/// The proxy to use for a server, of the one that was found: that of a kubeconfig always.
pub(super) fn for_server(
    found: Option<Uri>,
    server: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<Uri> {
    let either = |upper: &str, lower: &str| variable(upper).or_else(|| variable(lower));
    let environment = either("HTTPS_PROXY", "https_proxy").and_then(|proxy| proxy.parse().ok());
    let without = either("NO_PROXY", "no_proxy").unwrap_or_default();
    found.filter(|proxy| environment.as_ref() != Some(proxy) || !is_direct(server, &without))
}

/// Whether a server is asked without the proxy of the environment.
fn is_direct(server: &Uri, without: &str) -> bool {
    let host = server.host().unwrap_or_default();
    let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    host == "localhost"
        || address.is_some_and(|address| address.is_loopback())
        || without.split(',').any(|rule| {
            let rule = rule.trim().to_ascii_lowercase();
            let port = server.port_u16().map(|port| format!(":{port}"));
            // A rule for a port is for that port alone.
            let bare = port.as_deref().and_then(|port| rule.strip_suffix(port));
            matches(bare.unwrap_or(&rule), &host, address)
        })
}

fn matches(rule: &str, host: &str, address: Option<IpAddr>) -> bool {
    if rule == "*" {
        return true;
    }
    if let Some(address) = address {
        return in_range(rule, address);
    }
    let domain = rule.trim_start_matches('*');
    match domain.strip_prefix('.') {
        Some("") => false,
        Some(_) => host.ends_with(domain),
        None => !rule.is_empty() && (host == rule || host.ends_with(&format!(".{rule}"))),
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
    match (base, address) {
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

    fn used(server: &str, without: &str) -> bool {
        let proxy: Uri = "http://proxy.example:3128".parse().unwrap();
        let variable = |name: &str| match name {
            "https_proxy" => Some("http://proxy.example:3128".to_owned()),
            "NO_PROXY" => Some(without.to_owned()),
            _ => None,
        };
        for_server(Some(proxy), &server.parse().unwrap(), variable).is_some()
    }

    #[test]
    fn a_cluster_is_asked_through_the_proxy_unless_no_proxy_names_it() {
        let named = "https://api.cluster.example:6443";
        for (server, without, through) in [
            (named, "", true),
            (named, "*", false),
            (named, "cluster.example", false),
            (named, "a.example, .cluster.example", false),
            (named, "*.cluster.example", false),
            (named, "api.cluster.example:6443", false),
            (named, "api.cluster.example:443", true),
            (named, "ster.example", true),
            (named, "10.0.0.0/8", true),
            ("https://10.1.2.3", "10.0.0.0/8", false),
            ("https://10.1.2.3", "10.1.2.3", false),
            ("https://10.1.2.3", "0.0.0.0/0", false),
            ("https://10.1.2.3", "10.1.2.4", true),
            ("https://10.1.2.3", "11.0.0.0/8,x/8,10.0.0.0/x", true),
            ("https://[fd00::1]:6443", "fd00::/8", false),
            ("https://[fd00::1]:6443", "fe00::/8", true),
            // A cluster on this machine never.
            ("https://127.0.0.1:6443", "", false),
            ("https://localhost:6443", "", false),
            ("https://[::1]:6443", "", false),
        ] {
            assert_eq!(used(server, without), through, "{server} {without:?}");
        }
    }

    #[test]
    fn the_proxy_of_a_kubeconfig_is_used_always() {
        let own: Uri = "http://own.example:3128".parse().unwrap();
        let server: Uri = "https://127.0.0.1:6443".parse().unwrap();
        let variable = |name: &str| (name == "NO_PROXY").then(|| "*".to_owned());
        let used = for_server(Some(own.clone()), &server, variable);
        assert_eq!(used, Some(own));
        assert_eq!(for_server(None, &server, variable), None);
    }
}
