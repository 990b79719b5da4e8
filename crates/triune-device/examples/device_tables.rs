//! Prints the tables of `docs/device-spec.md`, made from the schema.

fn main() {
    print!("{}", triune_device::spec::schema::markdown());
}
