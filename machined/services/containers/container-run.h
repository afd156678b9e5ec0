// A container of the node itself: created from an image, started, watched and removed.
//
// containerd owns the container, which outlives this program and containerd: its ID is the
// service's, so it exists at most once, and each caller gets the running container. A crash at any
// line leaves one of these states for the next run(): a container without a task, a task that was
// not started or a task that has ended is removed and made again; a running one is adopted. Its
// output goes to a pipe that process 1 holds, so no line is lost either.
//
// Its layers are in the namespace of the pods, where the CRI unpacks images; it has its own
// writable layer, which is new at each start. Lasting data is in the folders that the container
// gets.
#pragma once

#include <kj/string.h>

#include "machined/services/containers/container-images.h"

namespace talos::machined {

// The folder of a shim ("bundle") that containerd has left in its state.
//
// containerd makes <state>/io.containerd.runtime.v2.task/NAMESPACE/ID for a task and removes it
// with the task. If a start is interrupted at both ends at once (its caller was killed, and so was
// the process that it had started), the folder can stay, without a task of that ID and without a
// shim that containerd knows. containerd then refuses every further start until it is restarted:
//   failed to start shim: mkdir /run/containerd/io.containerd.runtime.v2.task/system/etcd: file
//   exists
//
// Keeps no state: a crash in between leaves a folder with less content, for the next start.

// Returns the folder that blocks a start of that ID, as this answer names it; nullptr for every
// other answer. Pure.
kj::Maybe<kj::String> blockingBundle(kj::StringPtr answer, kj::StringPtr id);

// Kills the shim that may still be in the folder (its working directory), unmounts the root of its
// container and removes the folder. Throws the kernel's error. Only for an ID without a task in
// containerd: the caller has deleted the task.
void removeLeftBundle(kj::StringPtr folder);

// Files whose owners on disk have ids from `container` on have ids from `host` on in the mount.
struct ContainerIds {
  uint32_t container, host, size;
};

struct ContainerMount {
  kj::String source, destination;
  bool writable = false;
  // Type and source as the runtime takes them, in place of a recursive bind mount.
  kj::String type = nullptr;
  kj::Array<kj::String> options = nullptr;
  kj::Array<ContainerIds> uids = nullptr, gids = nullptr;  // of an idmapped mount
};

// The bounds of the container of a system extension's service, as its file states them
// (common/extension/extension-files.h).
struct ExtensionBounds {
  // The container's root. It is the lower layer of an overlay whose upper one is in memory and new
  // at each start, so that places for mounts can be made in it.
  kj::String rootFolder;
  bool writableRoot = false, writableSysfs = false;
  kj::Maybe<kj::Array<kj::String>> masked, readOnly;  // nullptr: those of other containers
  kj::String propagation;                             // of mounts; empty: private
};

// The container of a service. It shares the node's network, host names and users; it has its own
// processes, mounts and IPC. Root has the usual capabilities of a container. The container is an IP
// server: its system call filter permits threads, but neither processes nor Unix sockets
// (common/kernel/refused-calls.h).
//
// A privileged container is a part of the node in the form of an image: it has the node's processes
// and devices, every known capability and no filter, and of the kernel's file systems only those
// that it is given. A mount that it makes in a shared place (rshared) also appears in the node.
//
// The container of a system extension has no image but a folder of the root, and may do what a part
// of the node may: every capability and device, no filter, the node's network and IPC. Its file
// restricts it: ExtensionBounds.
struct ContainerSpec {
  kj::String id, image;
  kj::Array<kj::String> arguments, environment;
  kj::Array<ContainerMount> mounts;  // besides /etc/hosts and /etc/resolv.conf
  kj::String cgroup;                 // below the root of the node's cgroup
  int oomScore = 0;
  unsigned uid = 0;  // and its group; a user other than root has no capabilities
  bool privileged = false;
  kj::Array<kj::StringPtr> capabilities = nullptr;  // of a privileged one, and of an extension's
  kj::Maybe<ExtensionBounds> extension = nullptr;   // without `image`
};

// Returns the capabilities that a process of this node can have, with the runtime's names.
kj::Array<kj::StringPtr> grantableCapabilities();

// Returns the spec in the runtime's format (OCI runtime specification 1.0). Pure.
kj::String runtimeSpec(const ContainerSpec& spec);

struct RunningContainer {
  int pid;
  bool adopted;  // it ran already
};
// The folder for the upper layers of extensions' containers.
constexpr kj::StringPtr kExtensionLayers = "/run/extensions"_kj;

// Throws FailedPrecondition unless the node has the image (needImage()). `output` is the write end
// of a pipe, for stdout and stderr, which must stay open until this resolves.
kj::Promise<RunningContainer> runContainer(Containerd& containerd, const ContainerSpec& spec,
                                           int output);

// Returns the PID of the running container; nullptr if it does not run.
kj::Promise<kj::Maybe<int>> findContainer(Containerd& containerd, kj::String id);

// Resolves with the exit status when the container has ended, however often containerd is restarted
// meanwhile; rejects with NotFound if the container is gone.
kj::Promise<unsigned> containerEnded(Containerd& containerd, kj::String id);

// Throws NotFound if the container does not run.
kj::Promise<void> signalContainer(Containerd& containerd, kj::String id, int number);

// Removes everything of the container, and kills it if it still runs.
kj::Promise<void> removeContainer(Containerd& containerd, kj::String id);

}  // namespace talos::machined
