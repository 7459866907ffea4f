//! Names of addresses.

/// The function at `address` and the line, as far as they are known: `name (file:line)`.
pub fn name(address: usize) -> String {
    let mut found = None;
    backtrace::resolve(core::ptr::without_provenance_mut(address), |symbol| {
        // The first is the innermost of inlined functions.
        if found.is_none() {
            let function = symbol.name().map(|n| format!("{n:#}"));
            let line = symbol.filename().and_then(|f| f.file_name()).zip(symbol.lineno());
            found = function.map(|f| match line {
                Some((file, line)) => format!("{f} ({}:{line})", file.to_string_lossy()),
                None => f,
            });
        }
    });
    format!("{address:#x} in {}", found.as_deref().unwrap_or("an unknown function"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_function_of_this_program_is_named() {
        let name = super::name(super::name as *const () as usize + 1);
        assert!(name.contains("symbols::name"), "{name}");
    }
}
