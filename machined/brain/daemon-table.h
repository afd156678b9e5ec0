// The daemons of a node: a table of program, uid, rights, door, health and when it is wanted (spec
// boot-and-services.md §7.3-7.4). A new daemon is a row of it.
#pragma once

#include <kj/async-io.h>

#include "machined/kubernetes/etcd/etcd-run.h"
#include "machined/kubernetes/kubelet/kubelet-run.h"
#include "machined/resources/store.h"
#include "machined/services/containers/container-run.h"
#include "machined/services/supervisor.h"
#include "rpc/local.capnp.h"

namespace talos::machined {

// Where a daemon listens: at a Unix socket, at a TCP port of every address, or nowhere.
struct DaemonDoor {
  kj::StringPtr socket = nullptr;
  unsigned mode = 0;
  uint16_t port = 0;
  int queue = 512;  // connections that the kernel takes before they are accepted
};

// What health checks and starts can ask.
struct DaemonParts {
  kj::LowLevelAsyncIoProvider& lowLevel;
  Store& store;
  rpc::Networkd::Client networkd;
  rpc::EtcdSupervisor::Client etcdSupervisor;
  Containerd& containerd;
  kj::Maybe<EtcdRun&> etcd;  // none: in tests without it
  kj::Maybe<KubeletRun&> kubelet = nullptr;
};

struct Daemon {
  kj::StringPtr id;  // the program is /usr/bin/<id>
  // Instead: another project's program with its arguments, as root and not confined. What it starts
  // are containers, which have rights of their own; no-new-privileges would take them away.
  kj::ArrayPtr<const kj::StringPtr> command = nullptr;
  // Instead: a container, after `cri`: its image, arguments and mounts, asked for before each
  // start. What is said below of users, rights, files and doors is not for it.
  ContainerSpec (*container)(DaemonParts& parts) = nullptr;
  // Before each start, and what more of arguments it is started with (ServiceDefinition).
  kj::Promise<void> (*prepare)(DaemonParts& parts,
                               kj::Function<void(kj::StringPtr)> note) = nullptr;
  kj::Promise<void> (*prepareLast)(DaemonParts& parts,
                                   kj::Function<void(kj::StringPtr)> note) = nullptr;
  kj::Array<kj::String> (*arguments)(DaemonParts& parts) = nullptr;
  // Of a program of others: NAME=value, besides the search path.
  kj::ArrayPtr<const kj::StringPtr> environment = nullptr;
  unsigned uid = 0;
  kj::StringPtr capabilities = nullptr;  // none
  kj::StringPtr filter = "server"_kj;    // of system calls (machined/confined/sandbox/seccomp.h)
  // The only files that it can read, beside the program; and the folder that it can write.
  kj::ArrayPtr<const kj::StringPtr> read = nullptr;
  kj::StringPtr state = nullptr;
  kj::StringPtr writes = nullptr;  // another one
  bool libraries = false;          // it is a program with shared ones
  // Of its cgroup, kernel memory included. With headroom over what was measured
  // (docs/evidence/figures.md): who reaches it has a leak or an attacker, and only he is killed and
  // restarted.
  uint64_t memoryMax = 0;  // bytes; 0: none
  // What the kernel goes by when the whole node is out of memory: the lower, the later it is
  // killed. All of ours outlive pods (-997 at the least); among them, the more the others need it
  // the later.
  int oomScore = 0;  // one that is not confined sets its own
  DaemonDoor door = {};
  kj::StringPtr after = nullptr;  // the service that must be up
  kj::StringPtr file = nullptr;   // that must be there
  // That start first, for they bring the API: ServiceDefinition::givesWayTo.
  kj::ArrayPtr<const kj::StringPtr> givesWayTo = nullptr;
  kj::Duration givesWayFor = 3 * kj::SECONDS;
  bool mayBeStopped = true;  // by the API
  bool carriesApi = false;   // answers of the API go through it
  bool awaited = true;       // the boot is not over before it is up
  // Wanted from the moment on that this resource is there, without an id one of this type; without
  // a type: always. Of several rows with one id it is the first that `fits` then.
  struct {
    kj::StringPtr type = nullptr, id = nullptr;
  } wantedWith = {};
  bool (*fits)(DaemonParts& parts) = nullptr;
  kj::Promise<void> (*check)(DaemonParts& parts) = nullptr;  // rejects with the reason
  kj::Duration patience = 5 * kj::SECONDS;                   // with one check
};

kj::ArrayPtr<const Daemon> daemons();

// `listening`: its door, which outlives it; -1 without one.
ServiceDefinition definitionOf(const Daemon& daemon, int listening, DaemonParts& parts);

// The command that starts this program as confined as the daemon: the exec wrapper, own uid, no new
// privileges, and what the daemon needs beyond that.
kj::Array<kj::String> confined(const Daemon& daemon, kj::StringPtr program);

// Where a service's processes are accounted for, below /sys/fs/cgroup. The brain shares one with
// process 1.
kj::String serviceCgroup(kj::StringPtr id);

}  // namespace talos::machined
