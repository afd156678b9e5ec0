// The state of a node that rotations check: static pods of the control plane that run with the
// secrets that their node has for them, services, and small files.
#pragma once

#include "talosctl/rotate-ca/remote-rotation.h"

namespace talos::talosctl {

constexpr kj::StringPtr kApiServer = "kube-apiserver"_kj,
                        kControllerManager = "kube-controller-manager"_kj;

// The SecretStatus of a component.
struct ComponentSecrets {
  kj::String version;
  kj::Array<kj::String> encryptionKeys, serviceAccountKeys, aggregatorCas, etcdCas;
  uint64_t configVersion = 0;  // 0: its config disables the component, or the node is older
};
kj::Promise<ComponentSecrets> componentSecrets(RemoteRotation& cluster, const RotatedNode& node,
                                               kj::StringPtr component);

// Returns the reason why the component's static pod does not run with the secrets of this version;
// nullptr if it does and is ready, or the config of the node disables the component.
kj::Promise<Missing> staticPodError(RemoteRotation& cluster, const RotatedNode& node,
                                    kj::StringPtr component, kj::StringPtr secrets);
// Returns the error that `judge` finds in the secrets of the node's API server, or that of its
// static pod.
using JudgeSecrets = kj::Function<kj::Maybe<kj::StringPtr>(const ComponentSecrets& secrets)>;
kj::Promise<Missing> apiServerError(RemoteRotation& cluster, const RotatedNode& node,
                                    JudgeSecrets judge);

// Returns true if the service runs and its health check succeeds.
kj::Promise<bool> isHealthy(RemoteRotation& cluster, const RotatedNode& node,
                            kj::StringPtr service);

// Returns the first 64 KiB of a file. The caller zeroes secret content.
kj::Promise<kj::String> readSmallFile(RemoteRotation& cluster, const RotatedNode& node,
                                      kj::StringPtr path);

}  // namespace talos::talosctl
