//! The Python boundary: convert, release the GIL, call, convert. Nothing else names pyo3.

mod errors;
mod store;

use pyo3::prelude::*;

/// `kektordb._core`.
#[pymodule]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<store::Store>()?;
    m.add_class::<store::Tx>()?;
    m.add_class::<store::Hits>()?;
    m.add_function(wrap_pyfunction!(store::verify, m)?)?;
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("cpu", kektordb_compute::cpu_level().to_string())?;
    Ok(())
}
