//! The descriptions that come with this crate, and the names under which they are found.

use super::{ArraySpec, Dataflow, DeviceSpec, error};
use crate::Error;
use triune_tensor::text::Name;

/// Largest extent of a parametrised array.
const MAX_EXTENT: u32 = 4096;

impl DeviceSpec {
    /// Names of the descriptions that come with this crate. Others are found under them as well: `metis-pcie` is
    /// `metis`; `buyi-RxC` is `buyi` with R×C of its 4×4 units switched on; `scalesim-os-RxC`, `-ws-` and `-is-` are
    /// systolic arrays of R rows and C columns (32×32 without `-RxC`).
    pub const BUILTIN: &[&str] =
        &["host", "metis", "metis-m2", "buyi", "zg330", "scalesim-os", "scalesim-ws", "scalesim-is"];

    /// A description that comes with this crate, see [`Self::BUILTIN`].
    ///
    /// # Errors
    /// [`Error::Spec`] when there is none of that name.
    pub fn builtin(name: &str) -> Result<Self, Error> {
        if let Some(text) = Self::builtin_text(name) {
            return Self::from_toml(text);
        }
        let found = match name.split_once('-') {
            Some(("buyi", units)) => extents(units).map(|units| Self::builtin("buyi")?.with_units(units)),
            Some(("scalesim", rest)) => scalesim(name, rest),
            _ => None,
        };
        found.unwrap_or_else(|| {
            Err(error(
                "name",
                format!(
                    "'{}' is no builtin device; there are {}, metis-pcie, buyi-RxC, scalesim-os-RxC, \
                     scalesim-ws-RxC and scalesim-is-RxC; a device file is given by its path, such as ./{}.toml",
                    Name(name),
                    Self::BUILTIN.join(", "),
                    Name(name)
                ),
            ))
        })
    }

    /// The text of a description that comes with this crate; none for names with parameters.
    pub fn builtin_text(name: &str) -> Option<&'static str> {
        match name {
            "host" => Some(include_str!("../../specs/host.toml")),
            "metis" | "metis-pcie" => Some(include_str!("../../specs/metis.toml")),
            "metis-m2" => Some(include_str!("../../specs/metis-m2.toml")),
            "buyi" => Some(include_str!("../../specs/buyi.toml")),
            "zg330" => Some(include_str!("../../specs/zg330.toml")),
            _ => None,
        }
    }

    /// The device with only `units` of its array's units, rows and columns, switched on. Its name says so, unless all
    /// of them are.
    ///
    /// # Errors
    /// [`Error::Spec`] when it has fewer.
    pub fn with_units(mut self, units: [u32; 2]) -> Result<Self, Error> {
        let array = self.array.as_mut().ok_or_else(|| error("array", "is missing".into()))?;
        let all = array.units;
        if !units.iter().zip(all).all(|(&on, all)| (1..=all).contains(&on)) {
            let ([rows, columns], [most_rows, most_columns]) = (units, all);
            return Err(error(
                "array.units",
                format!("{rows}x{columns} of {most_rows}x{most_columns} cannot be switched on"),
            ));
        }
        if units != all {
            array.units = units;
            self.name = format!("{}-{}x{}", self.name, units[0], units[1]);
        }
        Ok(self)
    }
}

/// `os`, `ws` or `is`, with or without `-RxC`.
fn scalesim(name: &str, rest: &str) -> Option<Result<DeviceSpec, Error>> {
    let (dataflow, size) = rest.split_once('-').map_or((rest, None), |(flow, size)| (flow, Some(size)));
    let dataflow = match dataflow {
        "os" => Dataflow::Os,
        "ws" => Dataflow::Ws,
        "is" => Dataflow::Is,
        _ => return None,
    };
    let [rows, columns] = match size {
        Some(size) => extents(size)?,
        None => [32, 32],
    };
    let spec = DeviceSpec::from_toml(include_str!("../../specs/scalesim.toml")).map(|mut spec| {
        name.clone_into(&mut spec.name);
        spec.array = Some(ArraySpec::systolic(dataflow, rows, columns));
        if let Some(vector) = &mut spec.vector {
            // Takes the results as the array gives them: one per column and cycle, and those of depthwise windows, whose
            // rows are taps.
            vector.elements_per_cycle = columns.max(rows);
        }
        spec
    });
    Some(spec)
}

/// `RxC` in plain decimals without leading zeros: a device has one name only.
fn extents(text: &str) -> Option<[u32; 2]> {
    let (rows, columns) = text.split_once('x')?;
    let extent = |text: &str| {
        let value: u32 = text.parse().ok()?;
        ((1..=MAX_EXTENT).contains(&value) && value.to_string() == text).then_some(value)
    };
    Some([extent(rows)?, extent(columns)?])
}
