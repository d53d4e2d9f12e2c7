//! A model directory's weights on their way into a backend: each tensor whole, or this rank's part of it.

use super::backend::{Backend, Matrix, Norm};
use super::config::{Config, Pieces, Shard};
use super::llama::ModelError;
use super::weights::{Checkpoint, Tensor};

/// Reads one rank's part of a model.
pub(super) struct Loader<'a, B> {
    pub(super) backend: &'a mut B,
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) config: &'a Config,
    pub(super) shard: Shard,
}

impl<B: Backend> Loader<'_, B> {
    /// A whole matrix.
    pub(super) fn whole(
        &mut self,
        name: &str,
        [rows, columns]: [usize; 2],
    ) -> Result<Matrix<B::Buffer>, ModelError> {
        let elements = self.checkpoint.whole(name, &[rows, columns])?;
        self.matrix(elements, [rows, columns])
    }

    /// This rank's rows of a matrix: outputs of q, k, v, gate and up.
    pub(super) fn rows(
        &mut self,
        pieces: Pieces,
        name: &str,
        [rows, columns]: [usize; 2],
    ) -> Result<Matrix<B::Buffer>, ModelError> {
        let part = self.config.part(rows, pieces, self.shard);
        let elements = self.checkpoint.rows(name, [rows, columns], part.clone())?;
        self.matrix(elements, [part.len(), columns])
    }

    /// This rank's columns of a matrix: inputs of o and down.
    pub(super) fn columns(
        &mut self,
        pieces: Pieces,
        name: &str,
        [rows, columns]: [usize; 2],
    ) -> Result<Matrix<B::Buffer>, ModelError> {
        let part = self.config.part(columns, pieces, self.shard);
        let elements = self.checkpoint.columns(name, [rows, columns], part.clone())?;
        self.matrix(elements, [rows, part.len()])
    }

    /// A normalisation of the residual stream.
    pub(super) fn norm(&mut self, name: &str) -> Result<Norm<B::Buffer>, ModelError> {
        let (width, epsilon) = (self.config.hidden, self.config.norm_epsilon);
        let scale = self.checkpoint.whole(name, &[width])?;
        Ok(Norm { scale: self.backend.upload(scale)?, width, epsilon })
    }

    fn matrix(
        &mut self,
        elements: Tensor,
        [rows, columns]: [usize; 2],
    ) -> Result<Matrix<B::Buffer>, ModelError> {
        Ok(Matrix { elements: self.backend.upload(elements)?, rows, columns })
    }
}
