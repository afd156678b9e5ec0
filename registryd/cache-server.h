// Serves the node's cache of images as a registry that can only be read: containerd asks it before
// the registries that images name (machined/system/containerd-registries.h).
//
// Files are opened at each request, so a medium that appears or vanishes needs no restart. The
// first root that has a file serves it. A file that cannot be read counts as missing, with a line
// in the log, and containerd tries the next mirror. containerd checks the digests of all answers.
// Keeps no state.
#pragma once

#include <kj/async-io.h>
#include <kj/timer.h>

namespace talos::registryd {

// Limit of connections at a time; more are closed unanswered. containerd opens a few for each pull.
constexpr unsigned kMostConnections = 64;

// Runs until dropped. `roots` must outlive the promise.
kj::Promise<void> serveCache(kj::Timer& timer, kj::Own<kj::ConnectionReceiver> receiver,
                             kj::ArrayPtr<const kj::StringPtr> roots);

}  // namespace talos::registryd
