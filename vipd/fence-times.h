// Calculates how long a shared address may be in the kernel, from the lease that secures it. Pure.
//
// Three clocks matter, and none of them is a calendar. etcd ends a lease `ttl` after it has
// received a renewal, so never before `ttl` after the renewal was sent. A new holder then waits for
// kGuard, unless the old holder has reported that its address is gone. And the kernel removes an
// address at the end of the address's lifetime by itself, even if no process is left to request it,
// but up to kKernelLate late. So
//
//   sent + ttl + kGuard          no other node has the address before this time
//   … - kKernelLate - drift      the address's lifetime has to end by this time
//
// and a lifetime, of whole seconds, counts from the moment when the kernel adds the address. Hence
// `latest`: the pause between the decision and the kernel may last until `latest` and not longer
// (guarded-section.h).
#pragma once

#include <kj/time.h>

#include <algorithm>
#include <optional>

namespace talos::vipd {

// Long enough for a holder whose key another client deleted to receive this event.
constexpr kj::Duration kGuard = 300 * kj::MILLISECONDS;
// Linux looks for ended lifetimes at the end of the next lifetime, rounded up to a quarter of a
// second, but not twice within a second (ADDRCONF_TIMER_FUZZ_MAX): if another address changed
// shortly before the end, the kernel removes ours a second after that change. In addition, the
// kernel's work has to get a processor.
constexpr kj::Duration kKernelLate = 1040 * kj::MILLISECONDS;
// Drift between two clocks: 500 parts in a million each.
constexpr int64_t kDriftParts = 1000;
// Seconds. The kernel's timers are the coarser the farther away they are, by 2 s from 16 s on; up
// to this limit their error is within kKernelLate.
constexpr unsigned kLongestStay = 13;
// Time for the kernel to add the address: it may be busy with other networks. A process whose
// address is added later has to end (guarded-section.h), so the lifetime is shortened rather than
// this time.
constexpr kj::Duration kUsualSlack = 150 * kj::MILLISECONDS, kLeastSlack = 50 * kj::MILLISECONDS;

// The newest renewal that etcd has confirmed.
struct Term {
  kj::TimePoint sent = kj::origin<kj::TimePoint>();
  kj::Duration ttl = 0 * kj::SECONDS;

  // Returns the time until which the lease lives at least, by our clock.
  kj::TimePoint end() const { return sent + ttl - ttl / kDriftParts; }
};

struct Stay {
  unsigned seconds = 0;                                // lifetime of the address
  kj::TimePoint latest = kj::origin<kj::TimePoint>();  // latest start of the lifetime in the kernel
};

// Returns the lifetime that an address may get now; std::nullopt if too little is left.
inline std::optional<Stay> stayFor(const Term& term, kj::TimePoint now) {
  auto end = term.end() + kGuard - kKernelLate;
  for (auto slack : {kUsualSlack, kLeastSlack}) {
    if (end < now + slack) continue;
    auto seconds = std::min<int64_t>((end - now - slack) / kj::SECONDS, kLongestStay);
    if (seconds >= 1) return Stay{static_cast<unsigned>(seconds), end - seconds * kj::SECONDS};
  }
  return std::nullopt;
}

}  // namespace talos::vipd
