//! The key-value service: a user thread for each request.

use std::sync::Arc;

use quaver_bench_common::Outcome;
use quaver_bench_common::kv::{GET, Job, find_load, on_client_cpu};
use quaver_bench_common::spec::KvSpec;

use crate::bench::settings::Settings;
use quaver_bench_common::store::Store;

/// Finds the highest load of `spec` on a runtime with `settings`.
///
/// # Errors
///
/// When the runtime cannot be built, or the store not loaded.
pub fn run(settings: &Settings, spec: &KvSpec) -> anyhow::Result<Outcome> {
    let store = Arc::new(Store::load(spec.keys, spec.seed)?);
    let (get_keys, scan_keys) = (spec.get_keys, spec.scan_keys);
    let runtime = settings.build()?;
    let handle = runtime.handle();
    let serve = |job: Job| {
        let store = Arc::clone(&store);
        handle.spawn_detached(move || {
            let answer = if job.class == GET {
                store.get(job.random, get_keys)
            } else {
                store.scan(job.random, scan_keys)
            };
            answer.expect("the store answers rightly");
            job.finish();
        })
    };
    let found = on_client_cpu(spec, || find_load(spec, |load| Ok(load.offer(&serve))));
    Ok(found.map_or_else(Outcome::failed, Outcome::from))
}
