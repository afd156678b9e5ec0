// /var, and the directories of the image's root that are writable by means of it.
//
// As long as there is no partition for it, /var is memory: bounded, and empty after each boot.
// Every step looks first at what is there, so a run after a crash in the middle of another comes to
// the same end. `root` is "" but in tests.
#pragma once

#include "machined/system/system-mounts.h"

namespace talos::machined {

// Mounts a tmpfs on /var if nothing is mounted there. Returns whether /var is memory.
bool mountEphemeral(kj::StringPtr root, Mounts& mounts);

// /var/log/pods, /var/lib/kubelet and /var/run/lock; /var/lib/etcd and /var/lib/etcd-supervisor,
// which are etcd's user's: all 0700.
void setupVarDirectory(kj::StringPtr root);

// /etc/kubernetes, /etc/cni, /usr/libexec/kubernetes, /usr/etc/udev and /opt: overlays, whose upper
// layers are in /var/system/overlays.
void mountOverlays(kj::StringPtr root, Mounts& mounts);

}  // namespace talos::machined
