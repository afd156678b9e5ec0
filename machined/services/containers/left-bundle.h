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
#pragma once

#include <kj/string.h>

namespace talos::machined {

// Returns the folder that blocks a start of that ID, as this answer names it; nullptr for every
// other answer. Pure.
kj::Maybe<kj::String> folderInTheWay(kj::StringPtr answer, kj::StringPtr id);

// Kills the shim that may still be in the folder (its working directory), unmounts the root of its
// container and removes the folder. Throws the kernel's error. Only for an ID without a task in
// containerd: the caller has deleted the task.
void removeLeftBundle(kj::StringPtr folder);

}  // namespace talos::machined
