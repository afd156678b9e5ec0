// The commands for Kubernetes.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addKubeconfigCommand(Command& root);
void addImagesCommand(Command& root);

// What a cluster pulls whose config names no image, in the order of `images`.
kj::Array<kj::String> clusterImages();

}  // namespace talos::talosctl
