// How long a node that goes down waits for the kubelet, which ends pods. The waiting is in three
// hands: login1's for the lock, machined's for login1, and that of the user, whose talosctl waits
// 10 minutes for a reboot.
#pragma once

#include <kj/time.h>

namespace talos {

// The most that the kubelet may ask for (shutdownGracePeriod): half of talosctl's patience, as long
// as a drain.
constexpr auto kMostShutdownPeriod = 5 * kj::MINUTES;
// The time that it asks for where the config says nothing, and the last part of it.
constexpr auto kShutdownPeriod = 30 * kj::SECONDS, kCriticalShutdownPeriod = 10 * kj::SECONDS;
// For it to be done with it: it gives a container that ignores SIGTERM all of the time.
constexpr auto kShutdownMargin = 15 * kj::SECONDS;
// The limit of a node whose kubelet asks for what is usual.
constexpr auto kUsualShutdownLimit = kShutdownPeriod + kShutdownMargin;

}  // namespace talos
