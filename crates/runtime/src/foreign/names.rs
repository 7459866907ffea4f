//! Names of hosts and services.

use core::ffi::CStr;
use std::net::IpAddr;

/// Has a resolver nobody to ask: are these an address and a port as numbers, or nothing at all?
/// Then `getaddrinfo` does not wait, and needs not be made where it may. (An address with a scope
/// counts as a name: interfaces are looked up.)
pub fn are_numbers(node: Option<&CStr>, service: Option<&CStr>) -> bool {
    let is_address = |text: &CStr| text.to_str().is_ok_and(|text| text.parse::<IpAddr>().is_ok());
    let is_port = |text: &CStr| text.to_bytes().iter().all(u8::is_ascii_digit);
    node.is_none_or(is_address) && service.is_none_or(is_port)
}

#[cfg(test)]
mod tests {
    use super::are_numbers;

    #[test]
    fn names_are_looked_up_and_numbers_are_not() {
        assert!(are_numbers(Some(c"127.0.0.1"), Some(c"80")));
        assert!(are_numbers(Some(c"::1"), None) && are_numbers(None, Some(c"6379")));
        assert!(!are_numbers(Some(c"localhost"), Some(c"80")) && !are_numbers(Some(c""), None));
        assert!(!are_numbers(Some(c"fe80::1%lo"), None) && !are_numbers(Some(c"\xff"), None));
        assert!(!are_numbers(Some(c"127.0.0.1"), Some(c"http")));
    }
}
