// Progress lines of a wipe: one at each full tenth, and one each minute in between. A tenth of a
// large disk takes hours, and a program that reports nothing for so long is killed as hanging
// (machined/disk/volumes/installer-client.cc).
#pragma once

#include <kj/string.h>
#include <kj/time.h>

namespace talos::install {

class WipeProgress {
 public:
  // Starts measuring at once. The clock must outlive it.
  WipeProgress(uint64_t total, const kj::MonotonicClock& clock)
      : total(total), clock(clock), said(clock.now()) {}

  // Returns "10 %" or "1863 of 14902 GiB"; nullptr if no line is due.
  kj::Maybe<kj::String> at(uint64_t done);

 private:
  uint64_t total, tenths = 0;
  const kj::MonotonicClock& clock;
  kj::TimePoint said;
};

}  // namespace talos::install
