// What `talosctl cluster show` and `cluster node kill` print. Pure.
#pragma once

#include <kj/string.h>

#include "rpc/cluster.capnp.h"

namespace talos::cluster {

kj::String renderShow(rpc::LocalCluster::Reader cluster);

// "demo-worker-1: power cut at write 17; unflushed writes lost: 3 of 5, and one torn"
kj::String renderCut(rpc::PowerCut::Reader cut);

}  // namespace talos::cluster
