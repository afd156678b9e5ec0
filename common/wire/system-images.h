// Images of the containers that a node runs for itself: today only its kubelet. A node has one
// store for all images, the CRI's, so these images are found by their digest.
//
// Errors are those of Resources.get. Keeps no state.
#pragma once

#include <kj/string.h>

#include "rpc/node.capnp.h"

namespace talos {

// Returns the digest that these images have, under each of their names; nullptr on a node without a
// kubelet, and before the kubelet's image was pulled. The images must outlive the promise.
kj::Promise<kj::Maybe<kj::String>> systemImageDigest(
    rpc::Node::Client node, capnp::List<rpc::ContainerImage>::Reader images);

}  // namespace talos
