//! Operators that the host computes, over regions of images, matrices and rows of numbers.

use super::{DEFAULT_DOMAIN, Form, Meaning, NodeReader, Operator, Signature, operators};
use crate::{
    Error, Op,
    ops::{Determinant, NGramWeight, NGrams, RoiAlign, RoiPool},
};

/// Samples of a map in the parts of regions, their mean or largest.
fn roi_align(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let modes = [("avg", false), ("max", true)];
    let size = |node: &mut NodeReader<'_, '_>, name: &str| {
        let size = node.int(name)?.unwrap_or(1);
        usize::try_from(size)
            .ok()
            .filter(|size| (1..=1 << 16).contains(size))
            .ok_or_else(|| node.unsupported(format!("attribute '{name}' = {size}; 1 to 65,536 is expected")))
    };
    let pixels = [("half_pixel", true), ("output_half_pixel", false)];
    let default = if node.since < 16 { "output_half_pixel" } else { "half_pixel" };
    let half_pixel = node.choice("coordinate_transformation_mode", default, &pixels)?;
    let ratio = node.int("sampling_ratio")?.unwrap_or(0);
    let samples = usize::try_from(ratio).ok().filter(|ratio| *ratio <= 1 << 12).ok_or_else(|| {
        node.unsupported(format!("attribute 'sampling_ratio' = {ratio}; 0 to 4,096 is expected"))
    })?;
    Ok(RoiAlign {
        max: node.choice("mode", "avg", &modes)?,
        size: [size(node, "output_height")?, size(node, "output_width")?],
        samples: (samples > 0).then_some(samples),
        scale: node.float("spatial_scale", 1.0)?,
        half_pixel,
    }
    .into())
}

/// The largest elements in the parts of regions.
fn max_roi_pool(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let size = node.extents("pooled_shape")?;
    let size = size.as_deref().and_then(|size| <[usize; 2]>::try_from(size).ok());
    let size = size.filter(|size| size.iter().all(|extent| (1..=1 << 16).contains(extent)));
    let size = size
        .ok_or_else(|| node.unsupported("attribute 'pooled_shape' is not of two numbers from 1 to 65,536"))?;
    Ok(RoiPool { size, scale: node.float("spatial_scale", 1.0)? }.into())
}

/// How often each of a list of sequences of numbers stands in a row.
fn tf_idf(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let modes = [("TF", NGramWeight::Count), ("IDF", NGramWeight::Presence), ("TFIDF", NGramWeight::Both)];
    let mode = node.choice("mode", "", &modes)?;
    let needed =
        |node: &NodeReader<'_, '_>, name: &str| node.unsupported(format!("attribute '{name}' is missing"));
    let number = |node: &mut NodeReader<'_, '_>, name: &str| -> Result<usize, Error> {
        let value = node.int(name)?.ok_or_else(|| needed(node, name))?;
        usize::try_from(value).map_err(|_| node.unsupported(format!("attribute '{name}' = {value}")))
    };
    let (least, most) = (number(node, "min_gram_length")?, number(node, "max_gram_length")?);
    let skips = number(node, "max_skip_count")?;
    if least == 0 || least > most {
        return Err(node.unsupported(format!("sequences of {least} to {most} numbers")));
    }
    let pool = if node.is_strings(0) {
        let texts = node.texts("pool_strings")?.ok_or_else(|| needed(node, "pool_strings"))?;
        texts.iter().map(|text| node.number_of(text)).collect::<Result<Vec<i64>, Error>>()?
    } else {
        node.ints("pool_int64s")?.ok_or_else(|| needed(node, "pool_int64s"))?
    };
    let starts = node.extents("ngram_counts")?.ok_or_else(|| needed(node, "ngram_counts"))?;
    let places = node.extents("ngram_indexes")?.ok_or_else(|| needed(node, "ngram_indexes"))?;
    let weights = node.floats("weights")?;
    let mut grams = Vec::new();
    for (index, &start) in starts.iter().enumerate() {
        let (length, end) = (index + 1, starts.get(index + 1).copied().unwrap_or(pool.len()));
        let part = pool.get(start..end).filter(|part| part.len().is_multiple_of(length));
        let part = part.ok_or_else(|| {
            node.unsupported(format!("attribute 'ngram_counts': sequences of {length} from {start} to {end}"))
        })?;
        grams.extend(part.chunks_exact(length).map(<[i64]>::to_vec));
    }
    if grams.len() != places.len() {
        return Err(node.unsupported(format!("{} sequences for {} places", grams.len(), places.len())));
    }
    let width = places.iter().max().map_or(0, |&last| last.saturating_add(1));
    if width > 1 << 24 {
        return Err(node.unsupported(format!("attribute 'ngram_indexes': a place beyond {}", 1 << 24)));
    }
    let own = weights.unwrap_or_else(|| vec![1.0; grams.len()]);
    if own.len() != grams.len() {
        return Err(node.unsupported(format!("{} weights for {} sequences", own.len(), grams.len())));
    }
    let mut weights = vec![1.0; width];
    for (&place, weight) in places.iter().zip(own) {
        weights[place] = weight;
    }
    let grams = grams.into_iter().zip(places).collect();
    Ok(NGrams { grams, weights, lengths: [least, most], skips, weight: mode }.into())
}

operators! {
    DEFAULT_DOMAIN;
    "Det": [11, 22] {1, 1, 1 => |_| Ok(Determinant.into())};
    "MaxRoiPool": [1, 22] {2, 2, 1 => max_roi_pool};
    "RoiAlign": [10, 16, 22] {3, 3, 1 => roi_align};
    "TfIdfVectorizer": [9] {1, 1, 1 => tf_idf};
}
