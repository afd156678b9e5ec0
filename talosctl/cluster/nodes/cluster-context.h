// The context of a local cluster in the user's own client configuration, from `cluster create` to
// `cluster destroy`.
//
// The file <state>/context (0600) has the name that it got there. It is written before the user's
// configuration is, so after a crash there may be a name without a context, but never a context
// that nothing removes. Both change that file under its lock (talosctl/client/file-lock.h).
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include "common/config/talosconfig.h"
#include "talosctl/cluster/nodes/cluster-state.h"

namespace talos::cluster {

// Adds the context of <state>/talosconfig to the configuration at `path` and makes it the current
// one, unless that is the same file. Returns the rename, if another context has its name.
kj::Promise<kj::Maybe<Talosconfig::Rename>> addContext(kj::Timer& timer,
                                                       const StateDirectory& state,
                                                       kj::StringPtr path);

// Removes that context and no other: not one with the same CA and another name, nor one with its
// name and another CA.
kj::Promise<void> removeContext(kj::Timer& timer, const StateDirectory& state, kj::StringPtr path);

}  // namespace talos::cluster
