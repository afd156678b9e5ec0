// The commands for Kubernetes.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addKubeconfigCommand(Command& root);
void addImagesCommand(Command& root);
void addInjectCommand(Command& root);

// Runs `kubeconfig`.
kj::Promise<int> runKubeconfig(Invocation& call);

// Returns the images that a cluster pulls if its config names none, in the order of `images`.
kj::Array<kj::String> clusterImages();

}  // namespace talos::talosctl
