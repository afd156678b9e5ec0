// The context of a local cluster in the user's own client configuration, from `cluster create` to
// `cluster destroy`.
//
// Which one it is stands in <state>/context (0600): the name that it got there. The file is written
// before the user's configuration is, so after a crash there may be a name without a context, and
// never a context that nothing removes.
#pragma once

#include "common/config/talosconfig.h"
#include "talosctl/cluster/nodes/cluster-state.h"

namespace talos::cluster {

// The cluster's context, of <state>/talosconfig, becomes the current one of the configuration at
// `path`. Returns the new name, if another context has its own.
kj::Maybe<Talosconfig::Rename> addContext(const StateDirectory& state, kj::StringPtr path);

// Removes that context and no other, not even one with the same CA, nor one that has its name now
// and another CA.
void removeContext(const StateDirectory& state, kj::StringPtr path);

}  // namespace talos::cluster
