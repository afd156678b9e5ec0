// Times that a node that shuts down waits for the kubelet, which ends pods. Three parties wait:
// login1 for the lock, machined for login1, and the user, whose talosctl waits 10 minutes for a
// reboot.
#pragma once

#include <kj/time.h>

namespace talos {

// Longest delay that the kubelet may request (shutdownGracePeriod): half of talosctl's timeout, as
// long as a drain.
constexpr auto kMostShutdownPeriod = 5 * kj::MINUTES;
// Delay that the kubelet requests if the config sets none, and the last part of it, for critical
// pods.
constexpr auto kShutdownPeriod = 30 * kj::SECONDS, kCriticalShutdownPeriod = 10 * kj::SECONDS;
// Time for the kubelet to finish afterwards: it gives a container that ignores SIGTERM the whole
// delay.
constexpr auto kShutdownMargin = 15 * kj::SECONDS;
// Limit of a node whose kubelet requests the default delay.
constexpr auto kUsualShutdownLimit = kShutdownPeriod + kShutdownMargin;

}  // namespace talos
