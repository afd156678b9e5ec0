// Mark of a program that is a daemon, in a section of its file: the daemon's name, and the form of
// the page that it shares with machined. With it, `talosctl debug replace` refuses a program that
// would end at its start, or do another daemon's work.
#pragma once

#include "common/crash/service-page.h"

namespace talos::crash {

constexpr char kDaemonMarkSection[] = ".talos.daemon";

struct DaemonMark {
  char name[32];  // ends with a NUL
  uint32_t pageBytes, recordAt, coreAt;
};
static_assert(sizeof(DaemonMark) == 44);

constexpr uint32_t kMarkedPage = kServicePageSize, kMarkedRecord = offsetof(ServicePage, record),
                   kMarkedCore = kCoreOffset;

}  // namespace talos::crash
