#include "common/wire/log-line-limit.h"

#include <kj/vector.h>

#include <algorithm>

namespace talos {
namespace {

constexpr kj::StringPtr kOthers = "others"_kj;

}  // namespace

LineLimit::LineLimit(const kj::MonotonicClock& clock, Limits limits, Write write)
    : clock(clock), limits(limits), write(kj::mv(write)), since(clock.now()) {}

void LineLimit::endWindow() {
  struct Count {
    kj::StringPtr peer;
    unsigned suppressed;
  };
  kj::Vector<Count> counts;
  for (auto& entry : peers) {
    if (entry.value.suppressed > 0) counts.add(Count{entry.key, entry.value.suppressed});
  }
  std::sort(counts.begin(), counts.end(),
            [](const Count& a, const Count& b) { return a.suppressed > b.suppressed; });
  unsigned rest = 0;
  for (auto i : kj::indices(counts)) {
    if (i < kCounts) {
      write(log::Level::kWarning, kj::str("lines about a ", limits.subject, " were suppressed"),
            {{limits.subject, counts[i].peer}, {"count", counts[i].suppressed}});
    } else {
      rest += counts[i].suppressed;
    }
  }
  if (rest > 0) {
    write(log::Level::kWarning, kj::str("lines about more ", limits.subject, "s were suppressed"),
          {{"count", rest}});
  }
  peers.clear();
  shared = 0;
}

bool LineLimit::admits(kj::StringPtr key) {
  auto now = clock.now();
  if (now - since >= limits.window) {
    endWindow();
    since = now;
  }
  if (peers.find(key) == nullptr && peers.size() >= limits.peers) key = kOthers;
  auto& peer = peers.findOrCreate(
      key, [&]() { return kj::HashMap<kj::String, Peer>::Entry{kj::str(key), Peer()}; });
  bool own = peer.lines < limits.own;
  if (!own && (peer.lines >= limits.perPeer || shared >= limits.shared)) {
    ++peer.suppressed;
    return false;
  }
  ++peer.lines;
  if (!own) ++shared;
  return true;
}

void LineLimit::warn(kj::StringPtr message, kj::StringPtr key, kj::StringPtr peer,
                     kj::StringPtr error) {
  if (admits(key)) write(log::Level::kWarning, message, {{"peer", peer}, {"error", error}});
}

}  // namespace talos
