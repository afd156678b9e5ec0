// The context of a local cluster in the user's own client configuration, from `cluster create` to
// `cluster destroy`.
//
// The file <state>/context (0600) has the context's name there. It is written before the user's
// configuration, so after a crash there may be a name without a context, but never a context that
// no command removes. Both functions change the user's configuration under its lock
// (talosctl/client/file-lock.h).
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include "common/talosconfig/talosconfig.h"
#include "talosctl/cluster/nodes/cluster-state.h"

namespace talos::cluster {

// Adds the context of <state>/talosconfig to the configuration at `path` and selects it, unless
// both are the same file. Returns the rename, if another context has its name.
kj::Promise<kj::Maybe<Talosconfig::Rename>> addContext(kj::Timer& timer,
                                                       const StateDirectory& state,
                                                       kj::StringPtr path);

// Removes this context and no other: neither one with the same CA and another name, nor one with
// its name and another CA.
kj::Promise<void> removeContext(kj::Timer& timer, const StateDirectory& state, kj::StringPtr path);

}  // namespace talos::cluster
