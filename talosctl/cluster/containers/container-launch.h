// Starts process 1 of a container node: a child in new namespaces (pid, mnt, uts, ipc, cgroup; the
// network namespace is given), with the steps of container-plan.h done, the device filter and
// limits of its cgroups in force, fewer capabilities and system calls, and the image as its root.
//
// This code replaces crun or runc. They would replace only this file and its lists, about 600 of
// the thirteen hundred lines of this folder; the cgroups, the loop device and the network would
// remain. crun does not run on hosts with v1 cgroups. runc is 10 MB of Go to ship or to find on the
// host; it needs a bundle and a state folder for each container, which must be cleaned up, and its
// parent cannot see whether process 1 requested a reboot or a power off. It is also slower: during
// a build, `runc run` of an empty container took 66 ms, `talosctl cluster node start` 34 ms, of
// them 8 to 24 from clone to exec (make bench).
//
// Between clone and exec the child only makes system calls, on memory that was prepared before: it
// must not allocate, because a lock that another thread held at the clone stays locked in the
// child. The child reports a failure to the parent by number. It dies with the thread that started
// it.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "talosctl/cluster/containers/container-plan.h"

namespace talos::container {

struct Launch {
  kj::StringPtr image;  // folder of the host where the image is mounted
  kj::StringPtr program = "/sbin/init";
  kj::StringPtr hostname;
  kj::ArrayPtr<const Step> steps;
  kj::ArrayPtr<const kj::AutoCloseFd> cgroupProcs;  // node-cgroups.h
  int network;                                      // network namespace
  int console;                                      // for its stdout and stderr
  kj::ArrayPtr<const kj::String> environment;       // "A=b"
};

struct Launched {
  int pid;
  kj::AutoCloseFd pidfd;
};

// Returns when process 1 runs its program. Throws kFailedPrecondition naming the step that failed
// and the error.
Launched launch(const Launch& what);

}  // namespace talos::container
