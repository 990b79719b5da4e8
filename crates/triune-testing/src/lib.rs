//! What Triune's tests measure everything against: an interpreter of the network IR made of plain loops, and short
//! ways to write graphs, and the numbers that tests draw.
//!
//! Nothing here is fast on purpose, and nothing here knows a kernel, a pass or a device. Wrong graphs panic with the
//! node's name, because only a test can have made them.
#![forbid(unsafe_code)]

mod builder;
mod clock;
mod data;
mod interpret;
pub mod npz;
mod outline;
mod pinned;
mod random;
mod tensor;

pub use builder::GraphBuilder;
pub use clock::thread_time;
pub use data::{first_test_data, skipped, test_data};
pub use interpret::{interpret, trace, unary};
pub use outline::outline;
pub use pinned::{digest, pinned, pinned_answers};
pub use random::{Random, Window};
pub use tensor::{Data, Tensor};
