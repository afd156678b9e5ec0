// The folder of a shim ("bundle") that containerd has left behind.
//
// containerd makes <state>/io.containerd.runtime.v2.task/NAMESPACE/ID for a task and removes it
// with the task. When a start is cut off at its two ends at once (its caller was killed, and so was
// what it had started) the folder can stay, with no task of that id and no shim that containerd
// has. It refuses every further start then, until it is restarted itself:
//   failed to start shim: mkdir /run/containerd/io.containerd.runtime.v2.task/system/etcd: file
//   exists
//
// Nothing here is kept: a crash in between leaves a folder with less in it, for the next start.
#pragma once

#include <kj/string.h>

namespace talos::machined {

// The folder that this answer names as in the way of a start, of that id; null of every other
// answer. Pure.
kj::Maybe<kj::String> folderInTheWay(kj::StringPtr answer, kj::StringPtr id);

// Kills the shim that may still be in the folder (its working directory), unmounts the root of its
// container and removes the folder. Throws what the kernel refuses. Only for an id of which
// containerd has no task: the caller has asked it to delete one.
void removeLeftBundle(kj::StringPtr folder);

}  // namespace talos::machined
