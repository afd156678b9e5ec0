// Users of the Kubernetes control plane's pods, and the folder that one of them writes to. No image
// has these users, and no other pod runs as one of them unless its spec names it.
#pragma once

#include <kj/string.h>

namespace talos {

constexpr unsigned kApiServerUid = 71001, kControllerManagerUid = 71002, kSchedulerUid = 71003;
constexpr kj::StringPtr kAuditLogs = "/var/log/audit/kube"_kj;  // of the API server

}  // namespace talos
