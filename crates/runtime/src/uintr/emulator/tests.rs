//! The encodings on this processor, and the table.

use super::*;

#[test]
fn each_encoding_is_undefined_here_or_can_be_marked() {
    if crate::uintr::processor_has_them() {
        return;
    }
    for (name, code) in ENCODINGS {
        let undefined = undefined(code).unwrap();
        // On some processors `senduipi` is `rdrand`: then it is marked.
        let can_be_emulated = undefined || MARKABLE.contains(&name);
        assert!(can_be_emulated, "{name} runs on a processor that has none");
    }
    // That the child tells the difference: nop.
    assert!(!undefined([0x90; 4]).unwrap());
}

#[test]
fn routes_lead_where_they_were_led_last() {
    let last = ROUTES - 1;
    assert!(target(last as u64).is_none() && target(ROUTES as u64).is_none());
    assert!(lead(last, Receiver::NONE, 0).is_err() && lead(ROUTES, Receiver(0), 0).is_err());
    lead(last, Receiver(3), 0).unwrap();
    lead(last, Receiver(4), 1).unwrap();
    let (upid, vector) = target(last as u64).unwrap();
    assert!(core::ptr::eq(upid, &CPUS[4].upid) && vector == 1);
    UITT[last].store(0, Release);
}
