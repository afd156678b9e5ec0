// /var, and the directories of the image's root that it makes writable; and what /etc gets.
//
// Without a partition for it, /var is in memory: limited, and empty after each boot.
// Every step checks the present state first, so a run after a crash in the middle of another leads
// to the same result. `root` is "" but in tests.
#pragma once

#include "machined/system/system-mounts.h"

namespace talos::machined {

// Mounts a tmpfs on /var if nothing is mounted there. Returns true if /var is in memory.
bool mountEphemeral(kj::StringPtr root, Mounts& mounts);

// Makes /var/log/pods, /var/lib/kubelet and /var/run/lock; /var/lib/etcd and
// /var/lib/etcd-supervisor for etcd's user, /var/log/audit/kube for the API server's: all 0700.
void setupVarDirectory(kj::StringPtr root);

// Mounts overlays on /etc/kubernetes, /etc/cni, /usr/libexec/kubernetes, /usr/etc/udev and /opt,
// with upper layers in /var/system/overlays.
void mountOverlays(kj::StringPtr root, Mounts& mounts);

// Makes an empty file at each path below /etc where the image has nothing, so that a file of the
// config can be mounted over it (user-files.h): with an overlay over /etc, which has no upper
// layer, so that /etc stays read-only for everybody. Leaves out a path that leads through a file or
// out of /etc. After mountOverlays(), and before anything that uses files of /etc/kubernetes.
void addToEtc(kj::StringPtr root, Mounts& mounts, kj::ArrayPtr<const kj::String> paths);

}  // namespace talos::machined
