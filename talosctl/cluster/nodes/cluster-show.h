// What `talosctl cluster show`, `cluster node kill` and `record` print. Pure.
#pragma once

#include <kj/string.h>

#include "rpc/cluster.capnp.h"

namespace talos::cluster {

kj::String renderShow(rpc::LocalCluster::Reader cluster);

// "demo-worker-1: power cut at write 17; unflushed writes lost: 3 of 5, and one torn"
kj::String renderCut(rpc::PowerCut::Reader cut);

// "demo-worker-1: recording to /tmp/log; 17 writes, 3 flushes, 12.3 MB"
kj::String renderRecording(rpc::DiskRecording::Reader recording);

}  // namespace talos::cluster
