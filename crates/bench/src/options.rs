//! The command line of the benchmark.

use std::path::PathBuf;

/// What to measure, and whether to write the page.
#[derive(Debug, Default)]
pub struct BenchOptions {
    /// `--only NAME`, any number of times.
    only: Vec<String>,
    /// `--quick`: fewer rounds, to see that everything works.
    pub quick: bool,
    /// `--no-write`: prints only.
    no_write: bool,
    /// `--data-dir DIR`: where `greenroom setup` has put the engine.
    pub data_dir: PathBuf,
    /// `--peers DIR`: where other programs are installed that greenroom is compared with.
    pub peers: PathBuf,
    /// `--against FILE`: another greenroom that this one is compared with.
    pub against: Option<PathBuf>,
    /// `--output FILE`: the page to write.
    output: PathBuf,
}

impl BenchOptions {
    pub fn parse(mut args: impl Iterator<Item = String>, names: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            data_dir: "target/data".into(),
            peers: "target/peers".into(),
            output: "docs/BENCHMARKS.md".into(),
            ..Self::default()
        };
        while let Some(flag) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("value missing after `{flag}`"));
            match flag.as_str() {
                "--quick" => options.quick = true,
                "--no-write" => options.no_write = true,
                "--data-dir" => options.data_dir = value()?.into(),
                "--peers" => options.peers = value()?.into(),
                "--against" => options.against = Some(value()?.into()),
                "--output" => options.output = value()?.into(),
                "--only" => {
                    let name = value()?;
                    if !names.contains(&name.as_str()) {
                        return Err(format!(
                            "no such measurement: `{name}`\n\nhint: one of {}",
                            names.join(", ")
                        ));
                    }
                    options.only.push(name);
                }
                _ => return Err(format!("unknown flag: `{flag}`")),
            }
        }
        if options.only.iter().any(|name| name == "versions") && options.against.is_none() {
            return Err(
                "nothing to measure `versions` against\n\nhint: add --against PATH_OF_A_GREENROOM".to_owned()
            );
        }
        Ok(options)
    }

    pub fn wants(&self, name: &str) -> bool {
        let is_possible = name != "versions" || self.against.is_some();
        is_possible && (self.only.is_empty() || self.only.iter().any(|wanted| wanted == name))
    }

    /// The page to write. A partial or quick run must not replace the figures of a whole one.
    pub fn file(&self) -> Option<PathBuf> {
        (!self.no_write && !self.quick && self.only.is_empty()).then(|| self.output.clone())
    }
}
