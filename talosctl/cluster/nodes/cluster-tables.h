// Renders the output of `talosctl cluster list` and `talosctl cluster show`. Pure.
#pragma once

#include <capnp/message.h>
#include <kj/string.h>

#include "rpc/cluster.capnp.h"

namespace talos::cluster {

struct ListedCluster {
  kj::String name;
  bool current = false;  // the current context leads to this cluster
  bool running = false;
  kj::Maybe<kj::Own<capnp::MallocMessageBuilder>> message = nullptr;  // nullptr: cannot be read
  kj::String error = {};
};

kj::String renderList(kj::ArrayPtr<ListedCluster> clusters);  // returns a table
// Returns one object for each cluster; `error` replaces content that cannot be read.
kj::String listJson(kj::ArrayPtr<ListedCluster> clusters);
kj::String listYaml(kj::ArrayPtr<ListedCluster> clusters);

// Renders the tables of `talosctl cluster show`.
kj::String renderShow(rpc::LocalCluster::Reader cluster);

}  // namespace talos::cluster
