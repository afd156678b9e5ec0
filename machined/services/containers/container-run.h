// A container of the node itself: made of an image, started, watched, ended.
//
// It is containerd's and outlives this program and containerd: its id is the service's, so it is
// there at most once, and whoever asks for it gets the one that runs. A crash at any line leaves
// one of these for the next run(): a container without a task, a task that was not started and one
// that has ended are removed and made again; one that runs is adopted. Its output goes to a pipe
// that process 1 holds, so no line is lost either.
//
// Its layers are in the namespace of the pods, where the CRI unpacks images; it has its own
// writable one, which is new at each start. What it keeps is in the folders that it is given.
#pragma once

#include "machined/services/containers/container-images.h"

namespace talos::machined {

struct ContainerMount {
  kj::String source, destination;
  bool writable = false;
  // As the runtime takes them, instead of a bind of what is there and of what is mounted below it.
  kj::String type = nullptr;
  kj::Array<kj::String> options = nullptr;
};

// The container that a service asks for. The network, the names and the users are the node's;
// processes, mounts and IPC are its own. Root has the usual capabilities of a container. It is a
// server of IP: its system call filter leaves it threads, and neither processes nor sockets of Unix
// (common/kernel/refused-calls.h).
//
// A privileged one is a part of the node in the form of an image: it has the node's processes and
// devices, every capability that is known and no filter, and sees no file system of the kernel but
// those that it is given. What it mounts in a place that it shares (rshared) is mounted in the
// node.
struct ContainerSpec {
  kj::String id, image;
  kj::Array<kj::String> arguments, environment;
  kj::Array<ContainerMount> mounts;  // besides /etc/hosts and /etc/resolv.conf
  kj::String cgroup;                 // below the root of the node's
  int oomScore = 0;
  unsigned uid = 0;  // and its group; another one than root has no capabilities
  bool privileged = false;
  kj::Array<kj::StringPtr> capabilities = nullptr;  // of a privileged one
};

// Those that a process of this node can have, as the runtime names them.
kj::Array<kj::StringPtr> grantableCapabilities();

// As the runtime takes it (OCI runtime specification 1.0). Pure.
kj::String runtimeSpec(const ContainerSpec& spec);

struct RunningContainer {
  int pid;
  bool adopted;  // it ran already
};
// Its image is there (needImage()); otherwise FailedPrecondition. `output`: the writing end of a
// pipe, for stdout and stderr, which has to stay open until this resolves.
kj::Promise<RunningContainer> runContainer(Containerd& containerd, const ContainerSpec& spec,
                                           int output);

// The pid of the one that runs.
kj::Promise<kj::Maybe<int>> findContainer(Containerd& containerd, kj::String id);

// Resolves with the exit status when it has ended, however often containerd is restarted meanwhile;
// of one that is gone, NotFound.
kj::Promise<unsigned> containerEnded(Containerd& containerd, kj::String id);

// NotFound when it does not run.
kj::Promise<void> signalContainer(Containerd& containerd, kj::String id, int number);

// Nothing is left of it. One that still runs is killed.
kj::Promise<void> removeContainer(Containerd& containerd, kj::String id);

}  // namespace talos::machined
