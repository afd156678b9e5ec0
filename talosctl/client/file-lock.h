// Changes of a user's file that other programs change too, such as a kubeconfig or a talosconfig:
// each reads the file, changes it and writes it back while it holds kubectl's lock
// (common/user/user-file.h), so that none loses what another one added.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "common/config/talosconfig.h"
#include "common/user/user-file.h"

namespace talos::talosctl {

// The folder of the file exists. Waits while another program has the lock, which it has for a
// moment only; Conflict with the lock's name after two seconds.
kj::Promise<kj::Own<UserFileLock>> lockUserFile(kj::Timer& timer, kj::StringPtr path);

// Reads the talosconfig, lets `change` work on it, and writes it back if that returns true.
kj::Promise<void> changeTalosconfig(kj::Timer& timer, kj::StringPtr path,
                                    kj::Function<bool(Talosconfig&)> change);

}  // namespace talos::talosctl
