// The table of a node's daemons: program, uid, rights, listening socket, health check, and the
// resource with which each is wanted. Each daemon is one row.
#pragma once

#include <kj/async-io.h>

#include "machined/kubernetes/etcd/etcd-run.h"
#include "machined/kubernetes/kubelet/kubelet-run.h"
#include "machined/resources/store.h"
#include "machined/services/containers/container-run.h"
#include "machined/services/host-window.h"
#include "machined/services/supervisor.h"
#include "rpc/local.capnp.h"

namespace talos::machined {

// A daemon listens on a Unix socket, on a TCP port of every address or of 127.0.0.1, or not at all.
struct DaemonListener {
  kj::StringPtr socket = nullptr;
  unsigned mode = 0;
  unsigned owner = 0;  // the uid that may connect, besides root, with mode 0600
  uint16_t port = 0;
  bool loopback = false;  // the port is one of 127.0.0.1 alone
  int queue = 512;        // connections that the kernel queues before they are accepted
};

// The dependencies of health checks and starts.
struct DaemonDependencies {
  kj::LowLevelAsyncIoProvider& lowLevel;
  Store& store;
  rpc::Networkd::Client networkd;
  rpc::EtcdSupervisor::Client etcdSupervisor;
  Containerd& containerd;
  kj::Maybe<EtcdRun&> etcd;  // nullptr in tests
  kj::Maybe<KubeletRun&> kubelet = nullptr;
  kj::StringPtr platform = ""_kj;
  bool predictableNames = false;  // of network cards
  bool replaceable = false;       // programs, by the host's root (services/replaced-program.h)
  kj::Maybe<HostWindow&> window = nullptr;  // programs, by the host of a virtual machine
  // How long the first starts of services wait for the time (ServiceDefinition::waitsAtMost).
  kj::ConstFunction<kj::Duration()> timeLimit = [] { return kWaitsAtMost; };
};

struct Daemon {
  kj::StringPtr id;  // the program is /usr/bin/<id>
  // Instead of /usr/bin/<id>: another project's program with its arguments, as root and unconfined.
  // It starts containers, which have their own rights; no-new-privileges would remove these rights.
  kj::ArrayPtr<const kj::StringPtr> command = nullptr;
  // Instead of a program: a container, after `cri`. Returns its image, arguments and mounts before
  // each start. The fields for users, rights, files and sockets do not apply to it.
  ContainerSpec (*container)(DaemonDependencies& deps) = nullptr;
  // With `container`: decides once, when the daemon is loaded, whether the container or the program
  // runs; nullptr: always the container.
  bool (*inContainer)(DaemonDependencies& deps) = nullptr;
  // Run before each start; then its further arguments (ServiceDefinition).
  kj::Promise<void> (*prepare)(DaemonDependencies& deps,
                               kj::Function<void(kj::StringPtr)> note) = nullptr;
  kj::Promise<void> (*prepareLast)(DaemonDependencies& deps,
                                   kj::Function<void(kj::StringPtr)> note) = nullptr;
  kj::Array<kj::String> (*arguments)(DaemonDependencies& deps) = nullptr;
  // For another project's program: NAME=value, besides the search path.
  kj::ArrayPtr<const kj::StringPtr> environment = nullptr;
  unsigned uid = 0;
  kj::StringPtr capabilities = nullptr;  // nullptr: none
  kj::StringPtr filter = "server"_kj;    // of system calls (machined/confined/sandbox/seccomp.h)
  // The only files that it can read, besides the program; and the folder that it can write to.
  kj::ArrayPtr<const kj::StringPtr> read = nullptr;
  kj::StringPtr state = nullptr;
  kj::StringPtr writes = nullptr;  // another writable path
  bool libraries = false;          // its program uses shared libraries
  // Memory limit of its cgroup, including kernel memory, with headroom over the measured use
  // (docs/evidence/figures.md). A daemon that reaches it has a leak or an attacker, and only this
  // daemon is killed and restarted.
  uint64_t memoryMax = 0;  // bytes; 0: no limit
  // The kernel's oom_score_adj: the lower, the later the daemon is killed when the node is out of
  // memory. Our daemons outlive pods (which have at least -997); among our daemons, those that
  // others need most are killed last.
  int oomScore = 0;  // an unconfined daemon sets its own
  DaemonListener listen = {};
  // Gives it a pair of sockets over which it hands descriptors to its next start
  // (common/base/node-layout.h: kKeepingVariable).
  bool keeps = false;
  kj::StringPtr after = nullptr;  // service that must be up
  kj::StringPtr file = nullptr;   // file that must exist
  // Services that start first, because they provide the API: ServiceDefinition::givesWayTo.
  kj::ArrayPtr<const kj::StringPtr> givesWayTo = nullptr;
  kj::Duration givesWayFor = 3 * kj::SECONDS;
  kj::ArrayPtr<const kj::StringPtr> waitsFor = nullptr;  // ServiceDefinition::waitsFor
  bool mayBeStopped = true;                              // by the API
  bool carriesApi = false;                               // answers of the API go through it
  bool awaited = true;                                   // the boot waits until it is up
  // The resource whose existence makes it wanted; without an id, any resource of this type; without
  // a type, it is always wanted.
  struct {
    kj::StringPtr type = nullptr, id = nullptr;
    bool (*suits)(Store& store) = nullptr;  // must return true, too; called at each change
  } wantedWith = {};
  kj::Promise<void> (*check)(DaemonDependencies& deps) = nullptr;  // rejects with the error
  kj::Duration checkTimeout = 5 * kj::SECONDS;                     // for one check
};

kj::ArrayPtr<const Daemon> daemons();

// Returns true for a program of this system, which shares a page with the brain
// (common/crash/service-page.h).
bool isOurs(const Daemon& daemon);

// Descriptors that outlive the daemon; -1 if missing.
struct DaemonSockets {
  int listening = -1;
  int keeping = -1, kept = -1;
  int page = -1;
};
ServiceDefinition definitionOf(const Daemon& daemon, DaemonSockets sockets,
                               DaemonDependencies& deps);

// Returns the command that starts this program with the daemon's confinement: the exec wrapper, the
// daemon's uid, no new privileges, and the daemon's additional needs.
kj::Array<kj::String> confined(const Daemon& daemon, kj::StringPtr program);

// Returns the OOM score that a service gets if it wants this one: a process that may not lower
// scores keeps its own.
int allowedScore(int wanted);

// Returns the cgroup of a service, below /sys/fs/cgroup. The brain is in the cgroup of process 1.
kj::String serviceCgroup(kj::StringPtr id);

}  // namespace talos::machined
