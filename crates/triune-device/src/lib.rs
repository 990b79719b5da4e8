//! The simulated device: its description, its memory, its commands, what they compute and how long they take.
//!
//! Devices know commands and addresses; nothing here knows graphs, model files or vendors.
