// The images of the containers that a node runs for itself, which today is its kubelet. A node has
// one store for all images, that of the CRI; so they are found by their digest.
//
// Errors are those of Resources.get. Nothing is kept.
#pragma once

#include <kj/string.h>

#include "rpc/node.capnp.h"

namespace talos {

// The digest that such images have, under each of their names. None on a node without a kubelet,
// and before its image was pulled. The images outlive the promise.
kj::Promise<kj::Maybe<kj::String>> systemImageDigest(
    rpc::Node::Client node, capnp::List<rpc::ContainerImage>::Reader images);

}  // namespace talos
