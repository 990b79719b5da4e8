//! Memory: bounds, allocation, leases and watches.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use triune_device::{DeviceSpec, Error, Memory, RangeAccess, RegionId};

fn memory() -> Memory {
    Memory::new(&DeviceSpec::builtin("metis").expect("builtin")).expect("address space")
}

#[test]
fn regions_follow_the_description() {
    let memory = memory();
    let names: Vec<_> = memory.regions().map(|(_, name, _)| name.to_owned()).collect();
    assert_eq!(names, ["ddr", "l2", "l1.0", "l1.1", "l1.2", "l1.3"]);
    assert_eq!(memory.core_region("l1", 2), memory.region("l1.2"));
    assert_eq!(memory.core_region("l2", 2), memory.region("l2"));
    let error = memory.region("ocm").expect_err("there is none").to_string();
    assert!(error.contains("'ocm'") && error.contains("l1.3"), "{error}");
}

#[test]
fn four_gigabytes_cost_nothing_until_touched() {
    let memory = memory();
    let ddr = memory.region("ddr").expect("ddr");
    let size = memory.size(ddr).expect("size");
    assert_eq!(size, 4 << 30);
    let mut bytes = [1; 4];
    memory.read(ddr, size - 4, &mut bytes).expect("in bounds");
    assert_eq!(bytes, [0; 4]);
    memory.write(ddr, 0, &[1, 2, 3]).expect("in bounds");
    memory.write(ddr, size - 3, &[4, 5, 6]).expect("in bounds");
    memory.read(ddr, size - 4, &mut bytes).expect("in bounds");
    assert_eq!(bytes, [0, 4, 5, 6]);
    for (start, len) in [(size - 3, 4), (size, 1), (u64::MAX, 1), (u64::MAX - 1, 4)] {
        let error = memory.write(ddr, start, &vec![0; len]).expect_err("out of bounds");
        assert!(matches!(error, Error::OutOfRegion { start: s, .. } if s == start), "{error}");
    }
    assert_eq!(memory.read(ddr, size, &mut []), Ok(()));
    assert!(memory.read(RegionId(99), 0, &mut [0]).is_err());
}

#[test]
fn host_device_reserves_only_address_space() {
    let memory = Memory::new(&DeviceSpec::builtin("host").expect("builtin")).expect("address space");
    let ram = memory.region("ram").expect("ram");
    memory.write(ram, memory.size(ram).expect("size") - 1, &[9]).expect("in bounds");
}

#[test]
fn allocation_respects_reserve_and_bounds() {
    let memory = memory();
    let l1 = memory.region("l1.0").expect("l1");
    let first = memory.allocate(l1, 100, 64).expect("room");
    assert!(first >= 524_288 && first.is_multiple_of(64));
    assert!(matches!(memory.allocate(l1, 4 << 20, 64), Err(Error::OutOfMemory { .. })));
    assert!(matches!(memory.allocate(l1, 1, 3), Err(Error::OutOfMemory { .. })));
    assert!(memory.allocate_at(l1, first, 1).is_err());
    assert_eq!(memory.free(l1, 0), Err(Error::NotAllocated { region: "l1.0".into(), start: 0 }));
    assert_eq!(memory.free(l1, first), Ok(100));
    assert!(memory.free(l1, first).is_err());
    assert_eq!(memory.allocate_at(l1, first, 1), Ok(()));
    assert_eq!(memory.live(l1), Ok(vec![(0, 524_288), (first, 1)]));
}

#[test]
fn leases_share_readers_and_exclude_writers() {
    let memory = memory();
    let l2 = memory.region("l2").expect("l2");
    let shared = [RangeAccess::shared(l2, 0, 100)];
    let one = memory.lease(&shared).expect("free");
    let two = memory.lease(&shared).expect("readers share");
    let writer = [RangeAccess::exclusive(l2, 99, 10)];
    let error = memory.lease(&writer).expect_err("readers hold it");
    assert!(
        matches!(error, Error::Busy { start: 99, end: 109, held_start: 0, held_end: 100, .. }),
        "{error}"
    );
    assert_eq!(
        error.to_string(),
        "writing bytes 0x63..0x6d of l2 conflicts with another lease reading 0x0..0x64"
    );
    assert!(memory.write(l2, 0, &[1]).is_err());
    drop(one);
    assert!(memory.lease(&writer).is_err());
    drop(two);
    let mut held = memory.lease(&writer).expect("free again");
    assert!(memory.read(l2, 100, &mut [0]).is_err());
    assert_eq!(memory.read(l2, 98, &mut [0]), Ok(()));
    // A failed request holds nothing: the part that was free stays free.
    let both = [RangeAccess::exclusive(l2, 0, 10), RangeAccess::exclusive(l2, 105, 1)];
    assert!(memory.lease(&both).is_err());
    assert_eq!(memory.write(l2, 0, &[1]), Ok(()));
    held.write(RangeAccess::exclusive(l2, 99, 10)).expect("leased").fill(7);
    drop(held);
    let mut bytes = [0; 12];
    memory.read(l2, 98, &mut bytes).expect("free");
    assert_eq!(bytes, [0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0]);
}

#[test]
fn a_lease_gives_only_what_it_holds() {
    let memory = memory();
    let l2 = memory.region("l2").expect("l2");
    let ddr = memory.region("ddr").expect("ddr");
    let ranges = [RangeAccess::shared(l2, 0, 64), RangeAccess::exclusive(l2, 64, 64)];
    let mut lease = memory.lease(&ranges).expect("free");
    assert!(lease.read(RangeAccess::shared(l2, 0, 64)).is_ok());
    assert!(lease.read(RangeAccess::shared(l2, 60, 8)).is_err(), "spans two ranges");
    assert!(lease.read(RangeAccess::shared(l2, 100, 29)).is_err());
    assert!(lease.read(RangeAccess::shared(ddr, 0, 1)).is_err());
    assert!(lease.read(RangeAccess::shared(l2, u64::MAX, 2)).is_err());
    assert!(lease.write(RangeAccess::exclusive(l2, 0, 1)).is_err(), "leased for reading");
    let (reads, write) = lease
        .split(
            [RangeAccess::shared(l2, 0, 64), RangeAccess::shared(l2, 64, 32)],
            RangeAccess::shared(l2, 96, 32),
        )
        .expect("disjoint");
    assert_eq!((reads[0].len(), reads[1].len(), write.len()), (64, 32, 32));
    write.copy_from_slice(reads[1]);
    let overlap = lease.split([RangeAccess::shared(l2, 64, 33)], RangeAccess::shared(l2, 96, 32));
    assert!(matches!(overlap, Err(Error::Overlap(_))));
    drop(lease);
    let own = [RangeAccess::shared(l2, 0, 64), RangeAccess::exclusive(l2, 63, 1)];
    assert!(matches!(memory.lease(&own), Err(Error::Overlap(_))));
}

#[test]
fn watches_count_writes_that_touch_them() {
    let memory = memory();
    let l2 = memory.region("l2").expect("l2");
    let watch = memory.watch(&[RangeAccess::shared(l2, 100, 10), RangeAccess::shared(l2, 200, 10)]);
    memory.write(l2, 90, &[1; 10]).expect("free");
    memory.write(l2, 110, &[1; 90]).expect("free");
    memory.read(l2, 100, &mut [0; 10]).expect("free");
    assert_eq!(watch.generation(), 0);
    memory.write(l2, 109, &[1]).expect("free");
    assert_eq!(watch.generation(), 1);
    drop(memory.lease(&[RangeAccess::exclusive(l2, 0, 1000)]).expect("free"));
    assert_eq!(watch.generation(), 2);
}

#[test]
fn waiting_for_a_lease_ends_when_it_is_free() {
    let memory = Arc::new(memory());
    let l2 = memory.region("l2").expect("l2");
    let ranges = [RangeAccess::exclusive(l2, 0, 8)];
    let mut held = memory.lease(&ranges).expect("free");
    let released = Arc::new(AtomicBool::new(false));
    let waiter = std::thread::spawn({
        let (memory, released) = (Arc::clone(&memory), Arc::clone(&released));
        move || {
            let lease = memory.lease_wait(&ranges).expect("in bounds");
            assert!(released.load(Ordering::SeqCst), "granted while held");
            lease.read(ranges[0]).expect("leased").to_vec()
        }
    });
    std::thread::sleep(std::time::Duration::from_millis(20));
    held.write(ranges[0]).expect("leased").fill(3);
    released.store(true, Ordering::SeqCst);
    drop(held);
    assert_eq!(waiter.join().expect("no panic"), [3; 8]);
}
