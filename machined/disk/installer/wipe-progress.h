// The lines that tell how far a wipe has come: one at each full tenth, and one a minute between two
// of them. A tenth of a large disk takes hours, and a program that says nothing for so long is
// ended as one that hangs (machined/disk/volumes/installer-client.cc).
#pragma once

#include <kj/string.h>
#include <kj/time.h>

namespace talos::install {

class WipeProgress {
 public:
  // Begins now. The clock has to outlive it.
  WipeProgress(uint64_t total, const kj::MonotonicClock& clock)
      : total(total), clock(clock), said(clock.now()) {}

  // "10 %" or "1863 of 14902 GiB"; none when there is nothing to say yet.
  kj::Maybe<kj::String> at(uint64_t done);

 private:
  uint64_t total, tenths = 0;
  const kj::MonotonicClock& clock;
  kj::TimePoint said;
};

}  // namespace talos::install
