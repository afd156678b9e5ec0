// The files of a local cluster below <state>/<name>/, and the process that keeps it running.
//
//   state.yaml        the description of the cluster (rpc/cluster.capnp)
//   lock              locked by the supervisor while it runs
//   talosconfig       client configuration, 0600: the cluster's one context
//   kubeconfig        of an administrator, 0600, after Kubernetes was healthy
//   context           name of this context in the user's own (cluster-context.h)
//   outdated          empty, after a rotate-ca whose files are not all stored (local-files.cc)
//   supervisor.log    log of the supervisor
//   <node>.yaml       machine config, 0600
//   <node>.log        console
//   control.sock      of the supervisor: power and state of the nodes (cluster-control.h)
//   image-cache       link to the folder of --image-cache
//   image/            mount point, in the supervisor's mount namespace, while slots are made
//   <node>/boot, <node>/root   of a container: its slots; mount point of the running system, there
//   <node>.disk, <node>.state, <node>/   disks or folders of a node (node-disks.h)
//   <node>.vars       variables of the UEFI firmware of a virtual machine
//   <node>.erst       the last messages of a virtual machine's kernel that panicked (pstore)
//   <node>.qmp        QEMU's control socket, for faults that no command causes
//   <node>.window     a virtual machine's program window (common/base/program-window.h)
#pragma once

#include <capnp/message.h>
#include <kj/io.h>
#include <kj/string.h>

#include "rpc/cluster.capnp.h"

namespace talos::cluster {

class StateDirectory {
 public:
  // `base` is the value of --state, `name` the name of the cluster. `flags`: the flags with which
  // other commands name it, such as " --name demo".
  StateDirectory(kj::StringPtr base, kj::StringPtr name, kj::StringPtr flags = "");
  kj::StringPtr path() const { return directory; }
  kj::String file(kj::StringPtr name) const { return kj::str(directory, "/", name); }
  // Returns a text for messages: "`talosctl cluster start --name demo`".
  kj::String command(kj::StringPtr verb) const {
    return kj::str("`talosctl cluster ", verb, flags, "`");
  }

  bool exists() const;
  // Creates the folder for root only, as root owns the machines; the folders above it belong to the
  // user who runs sudo.
  void make() const;
  // Reads state.yaml. NotFound if the cluster does not exist; InvalidArgument if its state.yaml
  // cannot be read.
  kj::Own<capnp::MallocMessageBuilder> load() const;
  void save(rpc::LocalCluster::Reader cluster) const;

  // Returns the pid of the supervisor; nullptr if it does not run.
  kj::Maybe<int> supervisor() const;
  // Takes the lock that the supervisor holds for its life. Throws Conflict if another supervisor
  // has it.
  kj::AutoCloseFd lock() const;
  // Sends SIGTERM, then SIGKILL after 10 s; returns when the process has ended. Returns false if no
  // supervisor ran. DeadlineExceeded if it does not end, as may happen to a process in the kernel.
  bool stopSupervisor() const;

 private:
  kj::String directory, flags;
};

}  // namespace talos::cluster
