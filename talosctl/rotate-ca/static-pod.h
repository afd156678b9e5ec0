// Static pods of the control plane that run with the secrets that their node has for them.
#pragma once

#include "talosctl/rotate-ca/remote-rotation.h"

namespace talos::talosctl {

// The reason why not; none: it does, and is ready.
kj::Promise<kj::Maybe<kj::String>> staticPodError(RemoteRotation& cluster, const RotatedNode& node,
                                                  kj::StringPtr component, kj::StringPtr secrets);

}  // namespace talos::talosctl
