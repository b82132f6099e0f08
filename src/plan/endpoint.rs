//! Addresses of model servers.

use crate::spec::Code;

/// A base address in its plain form: no final slash, no `/v1`, no `/v1/messages`.
///
/// # Errors
/// Says which rule the address breaks.
pub(super) fn base_url(written: &str) -> Result<String, (Code, &'static str)> {
    let url = written.trim_end_matches('/');
    let url = url.strip_suffix("/v1/messages").or_else(|| url.strip_suffix("/v1")).unwrap_or(url);
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err((Code::BadValue, "must begin with https:// or http://"));
    };
    if !matches!(scheme, "https" | "http") {
        return Err((Code::BadValue, "must begin with https:// or http://"));
    }
    let authority = rest.split('/').next().unwrap_or(rest);
    if authority.contains('@') {
        return Err((Code::SecretInFile, "must not hold a user or a password"));
    }
    if url.contains(['?', '#']) || url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err((Code::BadValue, "must have no query, no fragment and no blanks"));
    }
    if host(url).is_empty() {
        return Err((Code::BadValue, "names no host"));
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// Whether an address is on this machine: `localhost`, `127.…` or `[::1]`. Such a server needs no key.
pub(super) fn is_loopback(url: &str) -> bool {
    let host = host(url);
    let numbers = host.split('.').map(|part| part.parse::<u8>().ok()).collect::<Option<Vec<_>>>();
    host.eq_ignore_ascii_case("localhost")
        || host == "[::1]"
        || numbers.is_some_and(|numbers| numbers.len() == 4 && numbers[0] == 127)
}

/// The host of an address, without its port; an IPv6 address keeps its brackets.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let authority = authority.rsplit('@').next().unwrap_or(authority);
    match authority.find(']') {
        Some(end) if authority.starts_with('[') => &authority[..=end],
        _ => authority.split(':').next().unwrap_or(authority),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_take_one_form() {
        for written in
            ["https://x.example", "https://x.example/", "https://x.example/v1", "https://x.example/v1/messages/"]
        {
            assert_eq!(base_url(written).as_deref(), Ok("https://x.example"));
        }
        assert_eq!(base_url("http://[::1]:4000/gate").as_deref(), Ok("http://[::1]:4000/gate"));
        for bad in [
            "",
            "x.example",
            "ftp://x",
            "https://",
            "https:///v1",
            "https://:80",
            "https://u:p@x",
            "https://x?a",
            "https://x y",
        ] {
            assert!(base_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn loopback_is_told_from_names_that_look_like_it() {
        for local in
            ["http://localhost:1", "http://LOCALHOST", "http://127.0.0.1:4190/x", "http://127.9.9.9", "http://[::1]:1"]
        {
            assert!(is_loopback(local), "{local}");
        }
        for far in [
            "https://localhost.example",
            "http://127.0.0.1.example",
            "http://127.1",
            "http://x/localhost",
            "http://localhost@x",
        ] {
            assert!(!is_loopback(far), "{far}");
        }
    }
}
