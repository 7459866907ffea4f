//! What cannot be opened, and what is said about it.

use std::io;

use quaver_net::xdp::{Filter, Mode, open, open_in};

use crate::place::{pair, skipped};

fn refusal(result: io::Result<Vec<quaver_net::xdp::Xdp>>) -> (io::ErrorKind, String) {
    let error = result.map(|_| ()).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn errors_say_what_was_wrong_and_what_to_do() {
    if skipped() {
        return;
    }
    let (a, _b) = pair("numrxqueues 2 numtxqueues 2");
    let refused =
        |name: &'static str, queues| a.run(move || refusal(open(name, queues, &Filter::All)));
    let (kind, text) = refused("vx", None);
    assert_eq!(kind, io::ErrorKind::NotFound);
    assert!(text.contains("vx") && text.contains("ip link"), "{text}");

    let (kind, text) = refused("lo", None);
    assert_eq!(kind, io::ErrorKind::InvalidInput);
    assert!(text.contains("lo carries no Ethernet"), "{text}");

    let (kind, text) = refused("va", Some(1));
    assert_eq!(kind, io::ErrorKind::InvalidInput);
    assert!(text.contains("2 queues, and 1 were") && text.contains("ethtool -L va"), "{text}");

    a.ip("link set va mtu 3823");
    let (kind, text) = refused("va", None);
    assert_eq!(kind, io::ErrorKind::InvalidInput);
    assert!(text.contains("3823") && text.contains("ip link set va mtu 3822"), "{text}");
    a.ip("link set va mtu 3822");
    assert_eq!(a.run(|| open("va", None, &Filter::All)).unwrap().len(), 2);
    a.ip("link set va mtu 1500");

    let zero_copy = a.run(|| refusal(open_in("va", None, &Filter::All, Mode::ZeroCopy)));
    assert_eq!(zero_copy.0, io::ErrorKind::Unsupported);
    assert!(zero_copy.1.contains("zero-copy"), "{}", zero_copy.1);
}

#[test]
fn without_clang_it_says_what_to_install() {
    if quaver_net::xdp::is_built() {
        return;
    }
    let (kind, text) = refusal(open("lo", None, &Filter::All));
    assert_eq!(kind, io::ErrorKind::Unsupported);
    assert!(text.contains("install clang"), "{text}");
}

#[test]
fn without_rights_it_says_which_are_needed() {
    if skipped() {
        return;
    }
    let (a, _b) = pair("");
    let (kind, text) = a.run(|| {
        give_up_rights();
        refusal(open("va", None, &Filter::All))
    });
    assert_eq!(kind, io::ErrorKind::PermissionDenied);
    assert!(text.contains("va") && text.contains("CAP_NET_RAW"), "{text}");
}

/// This thread has no capabilities any more.
fn give_up_rights() {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    // Version 3, this thread.
    let header = Header { version: 0x2008_0522, pid: 0 };
    let none = [0u32; 6];
    // SAFETY: both are as that version says.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}
