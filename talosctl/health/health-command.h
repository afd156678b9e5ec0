// The command `health`, and its checks for callers that wait for a new cluster.
#pragma once

#include "common/health/health-checks.h"
#include "talosctl/cli/command.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

void addHealthCommand(Command& root);

// Waits until these nodes are a healthy cluster, with progress on stderr; reaches Kubernetes
// through the endpoint of `client`. DeadlineExceeded with the failing check.
kj::Promise<void> waitForHealth(Client& client, const ClusterNodes& expected, kj::Duration timeout);

}  // namespace talos::talosctl
