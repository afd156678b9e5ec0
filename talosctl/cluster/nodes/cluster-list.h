// The output of `talosctl cluster list`. Pure.
#pragma once

#include <capnp/message.h>
#include <kj/string.h>

#include "rpc/cluster.capnp.h"

namespace talos::cluster {

struct ListedCluster {
  kj::String name;
  bool current = false;  // the context leads to it
  bool running = false;
  kj::Maybe<kj::Own<capnp::MallocMessageBuilder>> message = nullptr;  // none: it cannot be read
  kj::String error = {};
};

kj::String renderList(kj::ArrayPtr<ListedCluster> clusters);  // a table
// One object for each cluster; it has `error` in the place of what cannot be read.
kj::String listJson(kj::ArrayPtr<ListedCluster> clusters);
kj::String listYaml(kj::ArrayPtr<ListedCluster> clusters);

}  // namespace talos::cluster
