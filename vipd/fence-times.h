// How long a shared address may be in the kernel, reckoned from the lease behind it. Pure.
//
// Three clocks matter, and none of them is a calendar. etcd ends a lease `ttl` after it has taken a
// renewal, so never before `ttl` after that was sent. A new holder then waits for kGuard, unless
// the old one has said that its address is gone. And the kernel takes away an address whose
// lifetime is over by itself, with nobody alive to ask it to, but up to kKernelLate late. So
//
//   sent + ttl + kGuard          nobody else has the address before
//   … - kKernelLate - drift      an address has to end by here, by its lifetime
//
// and a lifetime, of whole seconds, counts from when the kernel takes it. Hence `latest`: a pause
// between the decision and the kernel may be as long as that and not longer (guarded-section.h).
#pragma once

#include <kj/time.h>

#include <algorithm>
#include <optional>

namespace talos::vipd {

// Long enough for a holder whose key was deleted behind its back to hear of it.
constexpr kj::Duration kGuard = 300 * kj::MILLISECONDS;
// Linux looks for ended lifetimes at the end of the next one, rounded up to a quarter of a second,
// but not twice within a second (ADDRCONF_TIMER_FUZZ_MAX): when another address changed shortly
// before the end, ours goes a second after that. And the work has to get a processor.
constexpr kj::Duration kKernelLate = 1040 * kj::MILLISECONDS;
// Of two clocks that should run alike: 500 parts in a million each.
constexpr int64_t kDriftParts = 1000;
// Seconds. The kernel's timers are the coarser the farther away they are, by 2 s from 16 s on; up
// to here they are within kKernelLate.
constexpr unsigned kLongestStay = 13;
// For the kernel to take the address in: it may be busy with somebody else's network. Whoever is
// not done then has to end (guarded-section.h), so a shorter lifetime is better than a shorter
// time.
constexpr kj::Duration kUsualSlack = 150 * kj::MILLISECONDS, kLeastSlack = 50 * kj::MILLISECONDS;

// The newest renewal that etcd has answered.
struct Term {
  kj::TimePoint sent = kj::origin<kj::TimePoint>();
  kj::Duration ttl = 0 * kj::SECONDS;

  // The lease lives until here at least, by our clock.
  kj::TimePoint end() const { return sent + ttl - ttl / kDriftParts; }
};

struct Stay {
  unsigned seconds = 0;                                // of the address' lifetime
  kj::TimePoint latest = kj::origin<kj::TimePoint>();  // for the kernel to begin it
};

// The lifetime that an address may get now. None: too little is left.
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
