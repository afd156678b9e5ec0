// Values of the machine config whose form other programs define: static pods (machine.pods),
// seccomp profiles (machine.seccompProfiles) and the overrides of containerd's specification
// (machine.baseRuntimeSpecOverrides). Each function reads the YAML text of a value and finds the
// mistakes with which the kubelet, containerd or runc would refuse it. Pure.
//
// References: Kubernetes' API of pods; the OCI runtime specification 1.2, its chapters
// "Configuration" and "Linux Container Configuration" (seccomp).
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/config.capnp.h"

namespace talos::config {

struct FreeFormMistake {
  kj::String path;  // below the value: metadata.name; empty: the value itself
  kj::String message, hint;
};

struct FreeFormValue {
  kj::String derived;  // empty if there is a mistake
  kj::Vector<FreeFormMistake> mistakes;
};

// Derives the id of the pod's resource, NAMESPACE-NAME.
FreeFormValue readStaticPod(kj::StringPtr text);
// Returns true for the name of a file in a folder.
bool isProfileName(kj::StringPtr name);
// Derives the profile in JSON.
FreeFormValue readSeccompProfile(kj::StringPtr text);
// Derives containerd's default specification with the overrides merged into it, in JSON: mappings
// are merged by key, lists get the new items at their end, and all other values are replaced. The
// default has no limits of resources (process.rlimits), so that an override is the only one.
FreeFormValue readRuntimeSpecOverrides(capnp::List<RawPair>::Reader overrides);

// Fills the hidden fields that are derived from such values. They stay empty where there is a
// mistake, and for each value whose id or name an earlier one has.
void deriveFreeFormValues(Config::Builder view);

}  // namespace talos::config
