//! Where things go: offset allocators and static planners. Addresses only, no memory is ever touched here.
#![forbid(unsafe_code)]
