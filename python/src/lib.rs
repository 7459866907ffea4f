//! The simulator as a Python module: texts in, texts out. What is convenient is written in Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use quaver_sim::{Options, Scenario, ScenarioError};

fn error(error: ScenarioError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn parse(scenario: &str) -> PyResult<Scenario> {
    scenario.parse().map_err(error)
}

/// The rates of a scenario in TOML, in requests a second.
#[pyfunction]
fn rates(scenario: &str) -> PyResult<Vec<f64>> {
    parse(scenario)?.rates().map_err(error)
}

/// The outcome of one run, as JSON. Other Python threads run meanwhile.
#[pyfunction]
#[pyo3(signature = (scenario, rate, check = false))]
fn simulate(py: Python<'_>, scenario: &str, rate: f64, check: bool) -> PyResult<String> {
    let scenario = parse(scenario)?;
    let options = Options { check, ..Options::default() };
    let (outcome, _) =
        py.detach(|| quaver_sim::simulate(&scenario, rate, &options)).map_err(error)?;
    Ok(serde_json::to_string(&outcome).expect("an outcome can be expressed as JSON"))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(rates, module)?)?;
    module.add_function(wrap_pyfunction!(simulate, module)?)
}
