// Whether a static pod of the control plane runs with the secrets that its node has for it.
#pragma once

#include "talosctl/rotate-ca/remote-rotation.h"

namespace talos::talosctl {

// The reason why not; none: it does, and is ready.
kj::Promise<kj::Maybe<kj::String>> staticPodError(RemoteRotation& cluster, const RotatedNode& node,
                                                  kj::StringPtr component, kj::StringPtr secrets);

}  // namespace talos::talosctl
