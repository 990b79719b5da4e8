//! Where a session's feature maps lie, and when: the plans of its programs as one.

use std::borrow::Cow;

use triune_compiler::PlannedBuffer;
use triune_tensor::Shape;

use crate::{Error, Program, Session};

/// A session's memory for some shapes of its inputs. Of a model with a core on a device it is the core's; of one with extents
/// that depend on data, that of the stages compiled so far, whose commands are counted through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Bytes of the stage with the most.
    pub bytes: u64,
    /// Of those, the first ones: the maps that stay near the array.
    pub near: u64,
    /// What no plan can do without.
    pub lower_bound: u64,
    /// The feature maps.
    pub maps: Vec<MapPlace>,
    /// The operators that have commands.
    pub operators: Vec<OperatorCommands>,
    /// Bytes of the model's weights, as the model has them, with the constants that lie in a device.
    pub weights: usize,
}

/// A feature map's bytes, and the commands from which on and until which they are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapPlace {
    /// First byte.
    pub offset: u64,
    /// Size.
    pub bytes: u64,
    /// The first command that touches it.
    pub first: u32,
    /// One past the last.
    pub last: u32,
}

/// An operator's commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorCommands {
    /// The node's name.
    pub name: String,
    /// Its operator.
    pub kind: Cow<'static, str>,
    /// The first command.
    pub first: u32,
    /// One past the last.
    pub last: u32,
}

impl Session {
    /// Where feature maps lie for inputs of these shapes.
    ///
    /// # Errors
    /// As [`Session::prepare`].
    pub fn memory_plan(&mut self, shapes: &[Shape]) -> Result<MemoryPlan, Error> {
        let mut plan = self.programs(shapes)?.into_iter().fold(MemoryPlan::default(), MemoryPlan::with);
        let tables = usize::try_from(self.workspace().table_bytes()).unwrap_or(usize::MAX);
        let library = self.model().library().bytes().saturating_add(tables);
        plan.weights = plan.weights.saturating_add(library);
        Ok(plan)
    }
}

impl MemoryPlan {
    /// The plan with one more program behind.
    fn with(mut self, program: &Program) -> Self {
        let near = program.resident_bytes();
        let far = near.saturating_add(program.scratch_bytes);
        let bytes = far.saturating_add(program.spilled_bytes);
        if bytes >= self.bytes {
            (self.bytes, self.near) = (bytes, near);
        }
        let least = program.residency.map_or(0, |residency| residency.lower_bound);
        self.lower_bound = self.lower_bound.max(least.saturating_add(program.scratch_lower_bound));
        let start = self.operators.iter().map(|operator| operator.last).max().unwrap_or(0);
        let place = |map: &PlannedBuffer| MapPlace {
            offset: map.offset.saturating_add(match map.segment {
                Program::RESIDENT => 0,
                Program::SCRATCH => near,
                _ => far,
            }),
            bytes: map.bytes,
            first: start + map.first,
            last: start + map.last,
        };
        self.maps.extend(program.buffers.iter().map(place));
        self.operators.extend(program.operators.iter().map(|operator| OperatorCommands {
            name: operator.name.clone(),
            kind: operator.kind.clone(),
            first: start + operator.first,
            last: start + operator.last,
        }));
        // The host's lie in the library, once for all programs.
        if program.target != "host" {
            self.weights = self.weights.saturating_add(program.constants.len());
        }
        self
    }
}
