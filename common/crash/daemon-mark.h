// The mark of a program that is a daemon, in a section of its file: which one, and the form of the
// page that it shares with machined. So `talosctl debug replace` refuses a program that would end
// at its start, or do another daemon's work.
#pragma once

#include "common/crash/service-page.h"

namespace talos::crash {

constexpr char kDaemonMarkSection[] = ".talos.daemon";

struct DaemonMark {
  char name[32];  // ends with a zero
  uint32_t pageBytes, recordAt, coreAt;
};
static_assert(sizeof(DaemonMark) == 44);

constexpr uint32_t kMarkedPage = kServicePageSize, kMarkedRecord = offsetof(ServicePage, record),
                   kMarkedCore = kCoreOffset;

}  // namespace talos::crash
