//! Prints the field tables of `docs/command-set.md`: what belongs between its two markers.

fn main() {
    print!("{}", triune_device::command::field_tables());
}
