//! Virtual cards: which there are, and who holds their sub-devices.
