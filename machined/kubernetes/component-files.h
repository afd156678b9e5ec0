// The files with which the machine config configures the programs of the control plane: the audit
// policy, admission plugins and authorizers of the API server, and the scheduler's configuration.
//
// secret-files.h writes them, and a pod is restarted when they change, because they are a part of
// its KubernetesControlPlaneConfig (control-plane-config.h). Pure, with the same bytes for the same
// input. The checks of the config (common/config/rules/config-control-plane.cc) refuse what would
// keep a program from starting.
#pragma once

#include "machined/kubernetes/kube-versions.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

// The policy without one in the config: the metadata of each request. The node itself asks about
// the health of its API server twice a second.
constexpr kj::StringPtr kUsualAuditPolicy =
    "apiVersion: audit.k8s.io/v1\n"
    "kind: Policy\n"
    "rules:\n"
    "  - level: None\n"
    "    nonResourceURLs: [/healthz*, /livez*, /readyz*]\n"
    "  - level: Metadata\n"_kj;

// Returns an empty text if the config has no policy.
kj::String auditPolicyFile(config::ApiServer::Reader api);
// Returns an empty text if the config configures no plugin.
kj::String admissionFile(config::ApiServer::Reader api);
// Returns the configured plugins that the API server does not enable by itself.
kj::Vector<kj::StringPtr> configuredPlugins(config::ApiServer::Reader api);
// Returns an empty text if the config has no authorizers.
kj::String authorizationFile(config::ApiServer::Reader api, KubernetesVersion version);
// Returns an empty text if the config has no configuration of the scheduler.
kj::String schedulerFile(config::Scheduler::Reader scheduler, KubernetesVersion version);

}  // namespace talos::machined
