// The files of a local cluster below <state>/<name>/, and the process that keeps it running.
//
//   state.yaml        the description of the cluster (rpc/cluster.capnp)
//   lock              locked by the supervisor while it runs
//   talosconfig       client configuration, 0600: the cluster's one context
//   kubeconfig        of an administrator, 0600, once Kubernetes was healthy
//   context           its name in the user's own (cluster-context.h)
//   supervisor.log    log of the supervisor
//   <node>.yaml       machine config, 0600
//   <node>.log        console
//   control.sock      of the supervisor: power and state of the nodes (cluster-control.h)
//   image/            mount point, in the supervisor's mount namespace, while slots are made
//   <node>/boot, <node>/root   of a container: its slots; where the one that runs is mounted, there
//   <node>.disk, <node>.state, <node>/   disks or folders of a node (node-disks.h)
//   <node>.vars       variables of the UEFI firmware of a virtual machine
//   <node>.erst       the last messages of a virtual machine's kernel that panicked (pstore)
//   <node>.qmp        QEMU's control socket, for faults that no command makes
//   <node>.window     a virtual machine's program window (common/base/program-window.h)
#pragma once

#include <capnp/message.h>
#include <kj/io.h>
#include <kj/string.h>

#include "rpc/cluster.capnp.h"

namespace talos::cluster {

class StateDirectory {
 public:
  // `base` as given by --state, `name` of the cluster. `flags`: those with which other commands
  // name it, such as " --name demo".
  StateDirectory(kj::StringPtr base, kj::StringPtr name, kj::StringPtr flags = "");
  kj::StringPtr path() const { return directory; }
  kj::String file(kj::StringPtr name) const { return kj::str(directory, "/", name); }
  // For messages: "`talosctl cluster start --name demo`".
  kj::String command(kj::StringPtr verb) const {
    return kj::str("`talosctl cluster ", verb, flags, "`");
  }

  bool exists() const;
  // Root's alone, as the machines are; the folders above it belong to the user who runs sudo.
  void make() const;
  // NotFound when there is no such cluster; InvalidArgument when its state.yaml cannot be read.
  kj::Own<capnp::MallocMessageBuilder> load() const;
  void save(rpc::LocalCluster::Reader cluster) const;

  // The pid of the supervisor; none when it does not run.
  kj::Maybe<int> supervisor() const;
  // Held by the supervisor itself, for its life. Throws Conflict when another one has it.
  kj::AutoCloseFd lock() const;
  // SIGTERM, then SIGKILL after 10 s; returns when the process is gone. False if none ran.
  // DeadlineExceeded when it does not end, which a process in the kernel may do.
  bool stopSupervisor() const;

 private:
  kj::String directory, flags;
};

}  // namespace talos::cluster
