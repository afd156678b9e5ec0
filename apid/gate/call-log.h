// Decides which calls of one method get a line in apid's log, so that `talosctl logs apid` shows
// who calls this node. A burst of calls is shown whole; of steady callers, such as dashboards, few
// calls are, so that their lines do not push the others out of the log. All calls are in the
// metrics, and those that change something in the log `audit`.
//
// Pure: the caller passes the time of a monotonic clock. A restart of apid begins with a full
// burst.
#pragma once

#include <kj/common.h>
#include <kj/time.h>

namespace talos::apid {

class CallLog {
 public:
  static constexpr unsigned kBurst = 60;                    // lines at once
  static constexpr kj::Duration kPause = 20 * kj::SECONDS;  // earns one more line

  // Returns the number of calls without a line since the last line, or nullptr if this call gets no
  // line either.
  kj::Maybe<uint64_t> next(kj::TimePoint now) {
    auto earned = (now - since) / kPause;
    since += earned * kPause;
    left = unsigned(kj::min(int64_t(left) + earned, int64_t(kBurst)));
    if (left == 0) {
      ++hidden;
      return nullptr;
    }
    --left;
    auto count = hidden;
    hidden = 0;
    return count;
  }

 private:
  kj::TimePoint since = kj::origin<kj::TimePoint>();
  unsigned left = kBurst;
  uint64_t hidden = 0;
};

}  // namespace talos::apid
