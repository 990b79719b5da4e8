//! The few parameters of a description that no document gives, and their fit to figures: a coordinate search over
//! ladders of integers, deterministic and without derivatives.

use triune_device::DeviceSpec;

/// A free parameter.
pub(crate) struct Parameter {
    /// The key in the description.
    pub(crate) key: &'static str,
    /// Where the search starts: what documents alone suggest.
    pub(crate) start: u64,
    /// Smallest and largest value that is physically sensible.
    pub(crate) range: [u64; 2],
    /// Whether it can only be a power of two.
    pub(crate) power_of_two: bool,
    pub(crate) set: fn(&mut DeviceSpec, u64),
}

/// The description with the parameters at `values`.
pub(crate) fn with(base: &DeviceSpec, parameters: &[Parameter], values: &[u64]) -> DeviceSpec {
    let mut spec = base.clone();
    for (parameter, &value) in parameters.iter().zip(values) {
        (parameter.set)(&mut spec, value);
    }
    spec
}

/// The values that make `loss` smallest. A parameter that is a power of two is searched exhaustively, the others one at
/// a time with ever smaller steps.
pub(crate) fn fit(
    base: &DeviceSpec,
    parameters: &[Parameter],
    loss: &dyn Fn(&DeviceSpec) -> f64,
) -> Vec<u64> {
    let starts: Vec<u64> = parameters.iter().map(|parameter| parameter.start).collect();
    let mut all = vec![starts];
    for (index, parameter) in parameters.iter().enumerate().filter(|(_, parameter)| parameter.power_of_two) {
        let [least, most] = parameter.range;
        let choices = (0..u64::BITS).map(|bit| 1 << bit).filter(|value| (least..=most).contains(value));
        let with_choice = |value| all.iter().map(move |values: &Vec<u64>| (values.clone(), value));
        all = choices
            .flat_map(with_choice)
            .map(|(mut values, value)| {
                values[index] = value;
                values
            })
            .collect();
    }
    let searched = all.into_iter().map(|values| search(base, parameters, loss, values));
    let best = searched.min_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, values)| values).unwrap_or_default()
}

fn search(
    base: &DeviceSpec,
    parameters: &[Parameter],
    loss: &dyn Fn(&DeviceSpec) -> f64,
    mut values: Vec<u64>,
) -> (f64, Vec<u64>) {
    let mut best = loss(&with(base, parameters, &values));
    // Quotients of the steps in hundredths.
    for step in [300, 200, 150, 125, 110, 105, 102] {
        loop {
            let before = best;
            for (index, parameter) in parameters.iter().enumerate().filter(|(_, free)| !free.power_of_two) {
                let old = values[index];
                let [least, most] = parameter.range;
                for tried in [(old * step / 100).max(old + 1), (old * 100 / step).min(old.saturating_sub(1))]
                {
                    let mut changed = values.clone();
                    changed[index] = three_digits(tried).clamp(least, most);
                    let found = loss(&with(base, parameters, &changed));
                    if found < best {
                        (best, values) = (found, changed);
                    }
                }
            }
            if best >= before {
                break;
            }
        }
    }
    (best, values)
}

/// Rounded to three digits: more would pretend to know.
fn three_digits(value: u64) -> u64 {
    let unit = 10_u64.pow(value.max(1).ilog10().saturating_sub(2));
    (value + unit / 2) / unit * unit
}
