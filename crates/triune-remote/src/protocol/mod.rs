//! What goes over the wire: frames, and the messages in them.

mod error;
mod fields;
mod frame;
mod message;

pub use error::{decode_error, encode_error};
pub use fields::Fields;
pub use frame::{Frame, FrameError, HEADER_BYTES, Header, Kind, MAGIC, MAX_PAYLOAD, VERSION, checksum};
pub use message::{Answer, Hello, Request, WRITE_HEAD, Welcome};
