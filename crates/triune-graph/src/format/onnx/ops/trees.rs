//! Ensembles of decision trees, as ONNX lists their nodes.
//!
//! `TreeEnsembleClassifier` and `TreeEnsembleRegressor` list all nodes with the trees that they are of, and what leaves say beside
//! them; `TreeEnsemble` has splits and leaves apart. A tree's root is the node that is listed first.

use std::{collections::HashMap, ops::Range};

use triune_tensor::{DType, Shape, memory};

use super::{
    Form, Meaning, NodeReader, NodeWriter, Operator, Signature,
    learning::{ML_DOMAIN, write_labels},
    mistaken, operators,
};
use crate::{
    Constant, Error, Op,
    ops::{
        Aggregate, Classes, Forest, Forests, Hosted, PostTransform, TreeMode, TreeNode, Trees,
        trees::{Branch, Seedlings, Split, Unplanted},
    },
    walk::Walk,
};

const MODES: [(&str, Option<TreeMode>); 7] = [
    ("BRANCH_LEQ", Some(TreeMode::LessOrEqual)),
    ("BRANCH_LT", Some(TreeMode::Less)),
    ("BRANCH_GTE", Some(TreeMode::GreaterOrEqual)),
    ("BRANCH_GT", Some(TreeMode::Greater)),
    ("BRANCH_EQ", Some(TreeMode::Equal)),
    ("BRANCH_NEQ", Some(TreeMode::NotEqual)),
    ("LEAF", None),
];

const AGGREGATES: [(&str, Aggregate); 4] = [
    ("AVERAGE", Aggregate::Average),
    ("SUM", Aggregate::Sum),
    ("MIN", Aggregate::Min),
    ("MAX", Aggregate::Max),
];

pub(super) const POST_TRANSFORMS: [(&str, PostTransform); 5] = [
    ("NONE", PostTransform::None),
    ("SOFTMAX", PostTransform::Softmax),
    ("LOGISTIC", PostTransform::Logistic),
    ("SOFTMAX_ZERO", PostTransform::SoftmaxZero),
    ("PROBIT", PostTransform::Probit),
];

/// Takes what scores become.
pub(super) fn post_transform(node: &mut NodeReader<'_, '_>) -> Result<PostTransform, Error> {
    node.choice("post_transform", "NONE", &POST_TRANSFORMS)
}

/// The error that an element of an attribute is not what it has to be.
fn element(node: &NodeReader<'_, '_>, name: &str, index: usize, reason: &str) -> Error {
    node.unsupported(format!("attribute '{name}', element {index}: {reason}"))
}

/// Takes a list that has to have as many elements as others.
fn listed<T>(
    node: &NodeReader<'_, '_>,
    name: &str,
    list: Option<Vec<T>>,
    count: usize,
) -> Result<Vec<T>, Error> {
    let list = list.ok_or_else(|| node.unsupported(format!("attribute '{name}' is missing")))?;
    expect_count(node, name, list.len(), count)?;
    Ok(list)
}

fn expect_count(node: &NodeReader<'_, '_>, name: &str, got: usize, count: usize) -> Result<(), Error> {
    if got == count {
        return Ok(());
    }
    Err(node.unsupported(format!("attribute '{name}' has {got} elements; {count} are expected")))
}

/// Takes integers that have to be as many as others.
fn ints(node: &mut NodeReader<'_, '_>, name: &str, count: usize) -> Result<Vec<i64>, Error> {
    let list = node.ints(name)?;
    listed(node, name, list, count)
}

/// Reals of an attribute or of the tensor that stands for it, and whether they are of f64.
fn reals(node: &mut NodeReader<'_, '_>, name: &str, wide: &mut bool) -> Result<Option<Vec<f64>>, Error> {
    let tensor = format!("{name}_as_tensor");
    let list = node.floats(name)?.filter(|list| !list.is_empty() || !node.has(&tensor));
    let Some(list) = list else { return tensor_of(node, &tensor, wide) };
    if node.has(&tensor) {
        return Err(node.unsupported(format!("attributes '{name}' and '{tensor}'; one of both is expected")));
    }
    Ok(Some(memory::collected(list.iter().map(|&value| f64::from(value)))?))
}

/// The reals of a tensor, and whether they are of f64.
fn tensor_of(node: &mut NodeReader<'_, '_>, name: &str, wide: &mut bool) -> Result<Option<Vec<f64>>, Error> {
    let Some(tensor) = node.tensor(name)? else { return Ok(None) };
    *wide |= tensor.dtype() == DType::F64;
    let list = tensor.to_f64().filter(|_| matches!(tensor.dtype(), DType::F32 | DType::F64));
    let wrong = || node.unsupported(format!("attribute '{name}' is of {}, not of reals", tensor.dtype()));
    list.map(Some).ok_or_else(wrong)
}

/// A feature's number.
fn feature(node: &NodeReader<'_, '_>, index: usize, feature: i64) -> Result<u32, Error> {
    if (0..=Seedlings::FEATURES).contains(&feature) {
        return Ok(feature as u32);
    }
    let most = Seedlings::FEATURES;
    Err(element(node, "nodes_featureids", index, &format!("{feature} is no feature from 0 to {most}")))
}

/// What the trees are, and what was wrong with them.
fn planted(
    node: &NodeReader<'_, '_>,
    seedlings: Seedlings,
    targets: usize,
    wide: bool,
    title: impl Fn(usize) -> String,
) -> Result<Forests, Error> {
    let forest = seedlings.plant(targets).map_err(|why| match why {
        Unplanted::Twice(split) => node.unsupported(format!(
            "attributes 'nodes_truenodeids' and 'nodes_falsenodeids': {} is its own ancestor, or two nodes lead to it",
            title(split)
        )),
        Unplanted::TooMany => node.unsupported("more than 2,147,483,647 nodes"),
        Unplanted::Other(error) => error,
    })?;
    Forests::new(forest, wide)
}

/// What the older operators' attributes have in common; `of` is what the names of those begin with that say of leaves.
fn read_listed(
    node: &mut NodeReader<'_, '_>,
    of: &str,
    targets: usize,
    wide: &mut bool,
) -> Result<(Seedlings, Vec<(i64, i64)>), Error> {
    let tree_ids = node.ints("nodes_treeids")?;
    let tree_ids = tree_ids.ok_or_else(|| node.unsupported("attribute 'nodes_treeids' is missing"))?;
    let count = tree_ids.len();
    let ids = ints(node, "nodes_nodeids", count)?;
    let features = ints(node, "nodes_featureids", count)?;
    let branches = [ints(node, "nodes_truenodeids", count)?, ints(node, "nodes_falsenodeids", count)?];
    let modes = node.letters("nodes_modes")?;
    let modes = modes.ok_or_else(|| node.unsupported("attribute 'nodes_modes' is missing"))?;
    expect_count(node, "nodes_modes", modes.len(), count)?;
    let values = reals(node, "nodes_values", wide)?;
    let values = listed(node, "nodes_values", values, count)?;
    let missing = node.ints("nodes_missing_value_tracks_true")?.filter(|list| !list.is_empty());
    if let Some(missing) = &missing {
        expect_count(node, "nodes_missing_value_tracks_true", missing.len(), count)?;
    }
    node.ignore(&["nodes_hitrates", "nodes_hitrates_as_tensor"]);

    let mut walk = Walk::new();
    let mut seedlings = Seedlings::default();
    // What each listed node is, and where to find it.
    let mut nodes: Vec<Branch> = memory::with_room(count)?;
    let mut places: HashMap<(i64, i64), usize> = HashMap::new();
    places.try_reserve(count).map_err(|_| triune_tensor::OutOfMemory { bytes: 32 * count as u64 })?;
    // The listed nodes that splits and leaves are.
    let (mut of_split, mut of_leaf) = (Vec::new(), Vec::new());
    let mut mode_of: HashMap<&[u8], Option<TreeMode>> = HashMap::new();
    mode_of.extend(MODES.iter().map(|&(name, mode)| (name.as_bytes(), mode)));
    let mut split_modes = Vec::new();
    for index in 0..count {
        walk.node()?;
        let key = (tree_ids[index], ids[index]);
        if places.insert(key, index).is_some() {
            let reason = format!("tree {} has a node {} already", key.0, key.1);
            return Err(element(node, "nodes_nodeids", index, &reason));
        }
        let Some(mode) = mode_of.get(modes[index]) else {
            let got = triune_tensor::text::Reason(&String::from_utf8_lossy(modes[index])).to_string();
            return Err(element(node, "nodes_modes", index, &format!("'{got}' is no mode")));
        };
        nodes.push(match mode {
            None => {
                of_leaf.push(index);
                Branch::Leaf(of_leaf.len() - 1)
            }
            Some(mode) => {
                of_split.push(index);
                split_modes.push(*mode);
                Branch::Split(of_split.len() - 1)
            }
        });
    }
    seedlings.splits = memory::with_room(of_split.len())?;
    for (&index, &mode) in of_split.iter().zip(&split_modes) {
        walk.node()?;
        if values[index].is_nan() {
            return Err(element(node, "nodes_values", index, "NaN compares with nothing"));
        }
        let branch = |side: usize| {
            let id = branches[side][index];
            places.get(&(tree_ids[index], id)).map(|&place| nodes[place]).ok_or_else(|| {
                let name = ["nodes_truenodeids", "nodes_falsenodeids"][side];
                element(node, name, index, &format!("tree {} has no node {id}", tree_ids[index]))
            })
        };
        seedlings.splits.push(Split {
            feature: feature(node, index, features[index])?,
            mode,
            value: values[index],
            missing: missing.as_ref().is_some_and(|missing| missing[index] == 1),
            branches: [branch(0)?, branch(1)?],
        });
    }
    let mut planted = std::collections::HashSet::new();
    for (index, &tree) in tree_ids.iter().enumerate() {
        if (index == 0 || tree_ids[index - 1] != tree) && planted.insert(tree) {
            seedlings.roots.push(nodes[index]);
        }
    }

    let names = ["ids", "treeids", "nodeids"].map(|name| format!("{of}_{name}"));
    let targeted = node.ints(&names[0])?.unwrap_or_default();
    let said = targeted.len();
    let (said_trees, said_nodes) = (ints(node, &names[1], said)?, ints(node, &names[2], said)?);
    let weights_name = format!("{of}_weights");
    let weights = reals(node, &weights_name, wide)?;
    let weights = listed(node, &weights_name, weights, said)?;
    let mut by_leaf = memory::with_room(said)?;
    for index in 0..said {
        walk.node()?;
        let target = targeted[index];
        if !usize::try_from(target).is_ok_and(|target| target < targets) {
            return Err(element(node, &names[0], index, &format!("{target} is none of {targets}")));
        }
        let key = (said_trees[index], said_nodes[index]);
        let Some(&place) = places.get(&key) else {
            return Err(element(node, &names[2], index, &format!("tree {} has no node {}", key.0, key.1)));
        };
        // Some files say something of splits, which means nothing.
        if let Branch::Leaf(leaf) = nodes[place] {
            by_leaf.push((leaf, target as u32, weights[index]));
        }
    }
    by_leaf.sort_by_key(|(leaf, ..)| *leaf);
    seedlings.leaves =
        memory::filled(of_leaf.len(), ()).map(|leaves| leaves.iter().map(|()| 0..0).collect())?;
    seedlings.weights = memory::with_room(by_leaf.len())?;
    for (leaf, target, weight) in by_leaf {
        let place = seedlings.weights.len();
        let own = &mut seedlings.leaves[leaf];
        own.start = if own.end == 0 { place } else { own.start };
        own.end = place + 1;
        seedlings.weights.push((target, weight));
    }
    let titles = of_split.iter().map(|&index| (tree_ids[index], ids[index])).collect();
    Ok((seedlings, titles))
}

/// Takes what is added to scores, one for each target, or for fewer where `fewer` may be.
fn base(
    node: &mut NodeReader<'_, '_>,
    targets: usize,
    fewer: bool,
    wide: &mut bool,
) -> Result<Vec<f64>, Error> {
    let base = reals(node, "base_values", wide)?.unwrap_or_default();
    let fits = base.is_empty() || base.len() == targets || (fewer && base.len() <= 2);
    if !fits {
        let got = base.len();
        return Err(node.unsupported(format!(
            "attribute 'base_values' has {got} elements; none or {targets} are expected"
        )));
    }
    Ok(base)
}

fn classifier(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let labels = super::learning::labels(node, "classlabels_int64s")?;
    let targets = labels.len();
    let mut wide = false;
    let (mut seedlings, titles) = read_listed(node, "class", targets, &mut wide)?;
    seedlings.base = base(node, targets, targets <= 2, &mut wide)?;
    let mut targeted = vec![false; targets];
    seedlings.weights.iter().for_each(|(target, _)| targeted[*target as usize] = true);
    let classes = Classes {
        labels,
        binary: targets == 2 && targeted.iter().filter(|targeted| **targeted).count() == 1,
        shares: seedlings.weights.iter().all(|(_, weight)| *weight >= 0.0),
    };
    let title = |split: usize| format!("node {} of tree {}", titles[split].1, titles[split].0);
    Ok(Trees {
        name: "TreeEnsembleClassifier",
        forests: planted(node, seedlings, targets, wide, title)?,
        targets,
        aggregate: Aggregate::Sum,
        post_transform: post_transform(node)?,
        classes: Some(classes),
        like_input: false,
    }
    .into())
}

/// Takes the number of targets.
fn targets(node: &mut NodeReader<'_, '_>) -> Result<usize, Error> {
    let targets = node.int("n_targets")?.unwrap_or(1);
    let found = usize::try_from(targets).ok().filter(|targets| (1..=1 << 24).contains(targets));
    let wrong =
        || node.unsupported(format!("attribute 'n_targets' = {targets}; 1 to 16,777,216 is expected"));
    found.ok_or_else(wrong)
}

fn regressor(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let targets = targets(node)?;
    let mut wide = false;
    let (mut seedlings, titles) = read_listed(node, "target", targets, &mut wide)?;
    seedlings.base = base(node, targets, false, &mut wide)?;
    let title = |split: usize| format!("node {} of tree {}", titles[split].1, titles[split].0);
    Ok(Trees {
        name: "TreeEnsembleRegressor",
        forests: planted(node, seedlings, targets, wide, title)?,
        targets,
        aggregate: node.choice("aggregate_function", "SUM", &AGGREGATES)?,
        post_transform: post_transform(node)?,
        classes: None,
        like_input: false,
    }
    .into())
}

/// Takes a choice by its number.
fn numbered<T: Copy>(
    node: &mut NodeReader<'_, '_>,
    name: &str,
    default: i64,
    table: &[(&str, T)],
) -> Result<T, Error> {
    let number = node.int(name)?.unwrap_or(default);
    let found = usize::try_from(number).ok().and_then(|number| table.get(number));
    let wrong = || node.unsupported(format!("attribute '{name}' = {number} is not supported"));
    found.map(|&(_, value)| value).ok_or_else(wrong)
}

/// Sets of numbers, between which NaN stands.
fn sets(values: &[f64]) -> impl Iterator<Item = Vec<f64>> {
    values.split(|value| value.is_nan()).map(|set| {
        let mut set = set.to_vec();
        set.sort_by(f64::total_cmp);
        set
    })
}

/// Splits and leaves apart.
fn ensemble(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let mut wide = false;
    let missing =
        |node: &NodeReader<'_, '_>, name: &str| node.unsupported(format!("attribute '{name}' is missing"));
    let targets = targets(node)?;
    let features = node.ints("nodes_featureids")?.ok_or_else(|| missing(node, "nodes_featureids"))?;
    let count = features.len();
    let values = tensor_of(node, "nodes_splits", &mut wide)?;
    let values = listed(node, "nodes_splits", values, count)?;
    let modes = node.tensor("nodes_modes")?.ok_or_else(|| missing(node, "nodes_modes"))?;
    let modes =
        modes.to_i64().ok_or_else(|| node.unsupported("attribute 'nodes_modes' is not of integers"))?;
    expect_count(node, "nodes_modes", modes.len(), count)?;
    let to = [ints(node, "nodes_truenodeids", count)?, ints(node, "nodes_falsenodeids", count)?];
    let leads = [ints(node, "nodes_trueleafs", count)?, ints(node, "nodes_falseleafs", count)?];
    let tracks = node.ints("nodes_missing_value_tracks_true")?.filter(|list| !list.is_empty());
    if let Some(tracks) = &tracks {
        expect_count(node, "nodes_missing_value_tracks_true", tracks.len(), count)?;
    }
    node.ignore(&["nodes_hitrates"]);
    let targeted = node.ints("leaf_targetids")?.ok_or_else(|| missing(node, "leaf_targetids"))?;
    let weights = tensor_of(node, "leaf_weights", &mut wide)?;
    let weights = listed(node, "leaf_weights", weights, targeted.len())?;
    let members = tensor_of(node, "membership_values", &mut wide)?.unwrap_or_default();
    let mut members = sets(&members);
    let roots = node.ints("tree_roots")?.ok_or_else(|| missing(node, "tree_roots"))?;

    let mut seedlings = Seedlings::default();
    let mut walk = Walk::new();
    for (index, (&target, weight)) in targeted.iter().zip(weights).enumerate() {
        walk.node()?;
        if !usize::try_from(target).is_ok_and(|target| target < targets) {
            return Err(element(node, "leaf_targetids", index, &format!("{target} is none of {targets}")));
        }
        seedlings.weights.push((target as u32, weight));
        seedlings.leaves.push(index..index + 1);
    }
    let leaves = targeted.len();
    let branch = |node: &NodeReader<'_, '_>, side: usize, index: usize| {
        let (target, leaf) = (to[side][index], leads[side][index] != 0);
        let (count, what) = if leaf { (leaves, "leaves") } else { (count, "nodes") };
        match usize::try_from(target).ok().filter(|target| *target < count) {
            Some(target) if leaf => Ok(Branch::Leaf(target)),
            Some(target) => Ok(Branch::Split(target)),
            None => {
                let name = ["nodes_truenodeids", "nodes_falsenodeids"][side];
                Err(element(node, name, index, &format!("{target} is none of {count} {what}")))
            }
        }
    };
    for index in 0..count {
        walk.node()?;
        let mode = usize::try_from(modes[index]).ok().and_then(|mode| TreeMode::ALL.get(mode).copied());
        let mode = mode.ok_or_else(|| element(node, "nodes_modes", index, "it is no mode from 0 to 6"))?;
        let value = if mode == TreeMode::Member {
            let set = members.next().ok_or_else(|| {
                node.unsupported(format!("attribute 'membership_values' has no set for node {index}"))
            })?;
            if seedlings.sets.len() == Seedlings::SETS {
                return Err(node.unsupported("attribute 'membership_values' has more than 16,777,216 sets"));
            }
            seedlings.sets.push(set);
            (seedlings.sets.len() - 1) as f64
        } else if values[index].is_nan() {
            return Err(element(node, "nodes_splits", index, "NaN compares with nothing"));
        } else {
            values[index]
        };
        seedlings.splits.push(Split {
            feature: feature(node, index, features[index])?,
            mode,
            value,
            missing: tracks.as_ref().is_some_and(|tracks| tracks[index] != 0),
            branches: [branch(node, 0, index)?, branch(node, 1, index)?],
        });
    }
    for (index, &root) in roots.iter().enumerate() {
        let found = usize::try_from(root).ok().filter(|root| *root < count);
        let root = found
            .ok_or_else(|| element(node, "tree_roots", index, &format!("{root} is none of {count} nodes")))?;
        // A tree of one leaf has a split on which nothing depends.
        seedlings.roots.push(match seedlings.splits[root].branches {
            [Branch::Leaf(a), Branch::Leaf(b)] if a == b => Branch::Leaf(a),
            _ => Branch::Split(root),
        });
    }
    Ok(Trees {
        name: "TreeEnsemble",
        forests: planted(node, seedlings, targets, wide, |split| format!("node {split}"))?,
        targets,
        aggregate: numbered(node, "aggregate_function", 1, &AGGREGATES)?,
        post_transform: numbered(node, "post_transform", 0, &POST_TRANSFORMS)?,
        classes: None,
        like_input: true,
    }
    .into())
}

/// The tree that each node is of.
fn places(forest: &Forest<f64>) -> Vec<usize> {
    let mut tree_of = vec![0; forest.nodes.len()];
    let ends = forest.roots.iter().skip(1).map(|&root| root as usize).chain([forest.nodes.len()]);
    for (tree, (&root, end)) in forest.roots.iter().zip(ends).enumerate() {
        tree_of[root as usize..end].fill(tree);
    }
    tree_of
}

/// What each leaf says, by node; a node of an ensemble with one target has its value.
fn said(forest: &Forest<f64>, targets: usize, node: usize) -> Range<usize> {
    if targets == 1 {
        return node..node + 1;
    }
    let first = forest.leaves.get(node).map_or(0, |&first| first as usize);
    let count =
        if forest.counts.is_empty() { forest.each } else { forest.counts.get(node).copied().unwrap_or(0) };
    first..first + count as usize
}

fn is_leaf(node: &TreeNode<f64>) -> bool {
    node.word & TreeNode::<f64>::LEAF != 0
}

/// A list of reals, as a tensor of f64 where they have more digits than f32.
fn write_reals(writer: &mut NodeWriter<'_>, name: &str, wide: bool, values: &[f64]) -> Result<(), String> {
    if wide {
        return write_tensor(writer, &format!("{name}_as_tensor"), true, values);
    }
    writer.floats(name, values.iter().map(|&value| value as f32));
    Ok(())
}

fn write_tensor(writer: &mut NodeWriter<'_>, name: &str, wide: bool, values: &[f64]) -> Result<(), String> {
    let shape = Shape::from([values.len()]);
    let constant = if wide {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Constant::new(DType::F64, shape, bytes)
    } else {
        let narrow: Vec<f32> = values.iter().map(|&value| value as f32).collect();
        Constant::from_f32(shape, &narrow)
    };
    writer.tensor(name, &constant.ok_or("too many elements for a tensor")?);
    Ok(())
}

/// Writes nodes and leaves in lists; `of` is what the names of those begin with that say of leaves.
///
/// A leaf that no branch leads to is listed, too: what it says decides what a classifier's scores are.
fn write_listed(op: &Trees, writer: &mut NodeWriter<'_>, of: &str) -> Result<(), String> {
    let forest = op.forests.wide().map_err(|error| error.to_string())?;
    let wide = op.forests.narrow().is_none();
    let tree_of = places(forest);
    // Tree by tree, each from its root on: that is what other readers rely on.
    let order: Vec<usize> = (0..forest.nodes.len()).collect();
    let node = |place: usize| &forest.nodes[place];
    let id = |place: usize| (place - forest.roots[tree_of[place]] as usize) as i64;
    let branch = |place: usize, side: usize| {
        if is_leaf(node(place)) { 0 } else { id(node(place).next as usize + side) }
    };
    let mut trees: Vec<i64> = order.iter().map(|&place| tree_of[place] as i64).collect();
    let mut ids: Vec<i64> = order.iter().map(|&place| id(place)).collect();
    let listed = |value: &dyn Fn(usize) -> i64| order.iter().map(|&place| value(place)).collect::<Vec<_>>();
    let mut features = listed(&|place| (node(place).word & TreeNode::<f64>::FEATURE).into());
    let mut modes: Vec<&str> = order
        .iter()
        .map(|&place| if is_leaf(node(place)) { "LEAF" } else { MODES[node(place).mode() as usize].0 })
        .collect();
    let mut to = [0, 1].map(|side| listed(&|place| branch(place, side)));
    let mut missing = listed(&|place| {
        let tracks = !is_leaf(node(place)) && node(place).word & TreeNode::<f64>::MISSING != 0;
        tracks.into()
    });
    let mut values: Vec<f64> =
        order.iter().map(|&place| if is_leaf(node(place)) { 0.0 } else { node(place).value }).collect();

    // By weight, the leaf that it is of.
    let (mut said_trees, mut said_ids, mut targets, mut weights) = (vec![], vec![], vec![], vec![]);
    let mut told = vec![false; forest.weights.len()];
    for &place in order.iter().filter(|&&place| is_leaf(node(place))) {
        for weight in said(forest, op.targets, place) {
            let (target, value) =
                if op.targets == 1 { (0, node(place).value) } else { forest.weights[weight] };
            if let Some(told) = told.get_mut(weight).filter(|_| op.targets != 1) {
                *told = true;
            }
            said_trees.push(tree_of[place] as i64);
            said_ids.push(id(place));
            targets.push(i64::from(target));
            weights.push(value);
        }
    }
    let mut untold: Vec<(u32, f64)> =
        forest.weights.iter().zip(&told).filter(|(_, told)| !**told).map(|(&weight, _)| weight).collect();
    let shares = weights.iter().chain(untold.iter().map(|(_, weight)| weight)).all(|weight| *weight >= 0.0);
    if shares && op.classes.as_ref().is_some_and(|classes| !classes.shares) {
        // Sums of a class's weights do not show that one was below 0.
        untold.push((0, -1.0));
    }
    if !untold.is_empty() && !forest.roots.is_empty() {
        let own = forest.roots.get(1).map_or(forest.nodes.len(), |&root| root as usize) as i64;
        trees.push(0);
        ids.push(own);
        features.push(0);
        modes.push("LEAF");
        for to in &mut to {
            to.push(0);
        }
        missing.push(0);
        values.push(0.0);
        for (target, weight) in untold {
            said_trees.push(0);
            said_ids.push(own);
            targets.push(target.into());
            weights.push(weight);
        }
    }

    writer.ints("nodes_treeids", trees);
    writer.ints("nodes_nodeids", ids);
    writer.ints("nodes_featureids", features);
    writer.texts("nodes_modes", modes);
    write_reals(writer, "nodes_values", wide, &values)?;
    let [to_true, to_false] = to;
    writer.ints("nodes_truenodeids", to_true);
    writer.ints("nodes_falsenodeids", to_false);
    if forest.missing {
        writer.ints("nodes_missing_value_tracks_true", missing);
    }
    for (name, list) in [("treeids", said_trees), ("nodeids", said_ids), ("ids", targets)] {
        writer.ints(&format!("{of}_{name}"), list);
    }
    write_reals(writer, &format!("{of}_weights"), wide, &weights)?;
    if !forest.base.is_empty() {
        write_reals(writer, "base_values", wide, &forest.base)?;
    }
    writer.choice("post_transform", &POST_TRANSFORMS, &op.post_transform);
    Ok(())
}

fn write_classifier(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Hosted(Hosted::Trees(op)) = op else { return Err(mistaken(op)) };
    let classes = op.classes.as_ref().ok_or("there are no classes")?;
    write_labels(writer, "classlabels_int64s", &classes.labels)?;
    write_listed(op, writer, "class")
}

fn write_regressor(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Hosted(Hosted::Trees(op)) = op else { return Err(mistaken(op)) };
    writer.int("n_targets", op.targets as i64);
    writer.choice("aggregate_function", &AGGREGATES, &op.aggregate);
    write_listed(op, writer, "target")
}

/// Writes splits and leaves apart.
fn write_ensemble(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Hosted(Hosted::Trees(op)) = op else { return Err(mistaken(op)) };
    writer.needs(5);
    let forest = op.forests.wide().map_err(|error| error.to_string())?;
    let wide = op.forests.narrow().is_none();
    // By node, its number among the splits or the leaves.
    let mut numbers = vec![0_i64; forest.nodes.len()];
    let (mut splits, mut leaves) = (Vec::new(), Vec::new());
    for (place, node) in forest.nodes.iter().enumerate() {
        if !is_leaf(node) {
            numbers[place] = splits.len() as i64;
            splits.push(place);
        } else if op.targets == 1 {
            numbers[place] = leaves.len() as i64;
            leaves.push((0, node.value));
        } else {
            numbers[place] = said(forest, op.targets, place).start as i64;
        }
    }
    if op.targets != 1 {
        leaves.clone_from(&forest.weights);
    }
    let of = |place: usize| &forest.nodes[place];
    let mut features: Vec<i64> =
        splits.iter().map(|&place| (of(place).word & TreeNode::<f64>::FEATURE).into()).collect();
    let mut modes: Vec<u8> = splits.iter().map(|&place| of(place).mode() as u8).collect();
    let is_member = |place: usize| TreeMode::ALL[of(place).mode() as usize] == TreeMode::Member;
    let mut values: Vec<f64> =
        splits.iter().map(|&place| if is_member(place) { 0.0 } else { of(place).value }).collect();
    let side = |side: usize| move |&place: &usize| forest.nodes[place].next as usize + side;
    let mut to = [0, 1].map(|at| splits.iter().map(side(at)).map(|to| numbers[to]).collect::<Vec<_>>());
    let mut leads =
        [0, 1].map(|at| splits.iter().map(side(at)).map(|to| i64::from(is_leaf(of(to)))).collect::<Vec<_>>());
    let mut missing: Vec<i64> =
        splits.iter().map(|&place| i64::from(of(place).word & TreeNode::<f64>::MISSING != 0)).collect();
    let mut members = Vec::new();
    for &place in splits.iter().filter(|&&place| is_member(place)) {
        members.extend(forest.sets.get(of(place).value as usize).into_iter().flatten().copied());
        members.push(f64::NAN);
    }
    let mut roots = Vec::new();
    for &root in &forest.roots {
        let root = root as usize;
        if !is_leaf(of(root)) {
            roots.push(numbers[root]);
            continue;
        }
        // A tree of one leaf has a split on which nothing depends.
        roots.push(features.len() as i64);
        features.push(0);
        modes.push(TreeMode::LessOrEqual as u8);
        values.push(0.0);
        missing.push(0);
        for (to, leads) in to.iter_mut().zip(&mut leads) {
            to.push(numbers[root]);
            leads.push(1);
        }
    }
    let modes = Constant::new(DType::U8, Shape::from([modes.len()]), modes).ok_or("too many nodes")?;
    writer.int("n_targets", op.targets as i64);
    writer.ints("tree_roots", roots);
    writer.ints("nodes_featureids", features);
    writer.tensor("nodes_modes", &modes);
    write_tensor(writer, "nodes_splits", wide, &values)?;
    let ([to_true, to_false], [true_leaves, false_leaves]) = (to, leads);
    writer.ints("nodes_truenodeids", to_true);
    writer.ints("nodes_falsenodeids", to_false);
    writer.ints("nodes_trueleafs", true_leaves);
    writer.ints("nodes_falseleafs", false_leaves);
    if forest.missing {
        writer.ints("nodes_missing_value_tracks_true", missing);
    }
    writer.ints("leaf_targetids", leaves.iter().map(|(target, _)| i64::from(*target)));
    let weights: Vec<f64> = leaves.iter().map(|(_, weight)| *weight).collect();
    write_tensor(writer, "leaf_weights", wide, &weights)?;
    if !members.is_empty() {
        write_tensor(writer, "membership_values", wide, &members)?;
    }
    let number_in = |found: Option<usize>| found.map(|at| at as i64).ok_or("there is no such choice");
    writer.int("aggregate_function", number_in(AGGREGATES.iter().position(|(_, own)| *own == op.aggregate))?);
    writer.int(
        "post_transform",
        number_in(POST_TRANSFORMS.iter().position(|(_, own)| *own == op.post_transform))?,
    );
    Ok(())
}

operators! {
    ML_DOMAIN;
    "TreeEnsemble": [5] {1, 1, 1 => ensemble} write write_ensemble;
    // From 5 on they are there for old files only.
    "TreeEnsembleClassifier": [1, 3, 5] {1, 1, 2 => classifier} write write_classifier;
    "TreeEnsembleRegressor": [1, 3, 5] {1, 1, 1 => regressor} write write_regressor;
}
