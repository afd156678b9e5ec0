// The single process of a local cluster: `talosctl cluster-run <state folder>` (hidden command).
//
// It owns all parts of the cluster, in kernel objects that end with it: a network namespace without
// a name, the bridge and taps in it, the listening sockets on the host's loopback, and the QEMU
// children (PR_SET_PDEATHSIG). So after any exit, only its folder has to be removed; and the host's
// own network is never changed.
//
//   host 127.a.b.N:50000 ──accepted here──> namespace ──> node N:50000
//   host 127.a.b.N:6443 ──the same, of a control-plane node──> its Kubernetes API
//   node ──http──> gateway:8080/<node>.yaml   (each node gets its own config and no other's)
//   node ──ntp───> gateway:123                (the host's clock)
//   node ──> gateway:53, gateway:PORT and the world: uplink.h
#pragma once

#include <kj/string.h>
#include <stdint.h>

namespace talos::cluster {

// Port of the Kubernetes API, on nodes and on the host's loopback.
constexpr uint16_t kKubernetesPort = 6443;

// Runs until SIGTERM or SIGINT. Writes a line for each step of its start to `readyFd`, then "ready"
// or "error: <error>", and closes it; launch-supervisor.h reads these lines.
int runSupervisor(kj::StringPtr stateDirectory, int readyFd);

}  // namespace talos::cluster
