//! What was found.

use serde::Serialize;

/// A scene.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its name.
    pub scene: String,
    /// Processes that have run.
    pub runs: u64,
    /// Those that were undisturbed, and compared with a native run.
    pub compared: u64,
    /// Those that were killed.
    pub killed: u64,
    /// How often one was stopped.
    pub stops: u64,
    /// What was wrong. Zero is the promise.
    pub differences: u64,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// In this scene.
    pub scene: String,
    /// With this process.
    pub who: String,
    /// In words.
    pub what: String,
    /// A command line that plays the scene again.
    pub reproducer: String,
}

impl Difference {
    /// For people.
    pub fn to_text(&self) -> String {
        let Difference { scene, who, what, reproducer } = self;
        format!("\n{scene}: {who}: {what}\n  again: {reproducer}\n")
    }
}

/// What came of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// One for each scene.
    pub rows: Vec<Row>,
    /// All that was wrong; a scene ends with the first.
    pub details: Vec<Difference>,
    /// Their number.
    pub differences: u64,
    /// Of programs and fates.
    pub seed: u64,
    /// It was ended by a signal.
    pub interrupted: bool,
}
