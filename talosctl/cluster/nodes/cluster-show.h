// Renders the table of `talosctl cluster show`. Pure.
#pragma once

#include <kj/string.h>

#include "rpc/cluster.capnp.h"

namespace talos::cluster {

kj::String renderShow(rpc::LocalCluster::Reader cluster);

}  // namespace talos::cluster
