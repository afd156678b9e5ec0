// Settings of the control plane's components that the config and the node's pods have in common.
#pragma once

#include <kj/string.h>

#include "rpc/config.capnp.h"

namespace talos::config {

// Requests of a component's pod that the config can replace.
struct UsualRequests {
  kj::StringPtr cpu, memory;
};
constexpr UsualRequests kApiServerRequests = {"200m"_kj, "512Mi"_kj},
                        kControllerManagerRequests = {"50m"_kj, "256Mi"_kj},
                        kSchedulerRequests = {"10m"_kj, "64Mi"_kj};
constexpr kj::StringPtr kCpu = "cpu"_kj, kMemory = "memory"_kj;

// The variable of the API server's pod that has the address of its node.
constexpr kj::StringPtr kPodAddressVariable = "POD_IP"_kj;

constexpr kj::StringPtr kSchedulerKind = "KubeSchedulerConfiguration"_kj,
                        kSchedulerApiGroup = "kubescheduler.config.k8s.io"_kj;
// The admission plugin that every supported release since 1.25 enables by itself.
constexpr kj::StringPtr kPodSecurityPlugin = "PodSecurity"_kj;

// Returns true if the config sets nothing of the scheduler's configuration.
inline bool isEmpty(SchedulerConfiguration::Reader config) {
  return config.getApiVersion().size() + config.getKind().size() +
             config.getClientConnection().size() + config.getOthers().size() ==
         0;
}

// Arguments of the API server that name files which the config can have instead.
constexpr kj::StringPtr kAuditPolicyArgument = "audit-policy-file"_kj,
                        kAdmissionArgument = "admission-control-config-file"_kj,
                        kAuthorizationArgument = "authorization-config"_kj,
                        kAuthorizationModeArgument = "authorization-mode"_kj;
// The API server's file of KubeAuthenticationConfig, and the argument that names it.
constexpr kj::StringPtr kAuthenticationArgument = "authentication-config"_kj,
                        kAuthenticationFolder = "/var/lib/kube-apiserver"_kj,
                        kAuthenticationFile = "/var/lib/kube-apiserver/authentication.yaml"_kj;
// The scheduler's.
constexpr kj::StringPtr kSchedulerConfigArgument = "config"_kj;

}  // namespace talos::config
