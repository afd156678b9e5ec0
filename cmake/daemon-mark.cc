// Compiled into each daemon, whose name is TALOS_DAEMON.
#include "common/crash/daemon-mark.h"

namespace talos::crash {

[[gnu::used, gnu::retain, gnu::section(".talos.daemon")]] extern const DaemonMark kDaemonMark = {
    TALOS_DAEMON, kMarkedPage, kMarkedRecord, kMarkedCore};

}  // namespace talos::crash
