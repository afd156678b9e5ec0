// The life cycle of a DHCP lease on one link, for both protocols: a state machine whose messages
// and pauses are those of dhcp-client4.h and dhcp-client6.h. Pure: no I/O; the caller passes in
// time and random numbers.
//
//   selecting ─offer─► requesting ─reply─► (probing) ─► bound ─T1─► renewing ─T2─► rebinding
//   A reply to a renewal binds again; the end of the lease leads back to selecting from everywhere.
//   confirming: an earlier lease (the carrier was lost, or the process was killed) holds until it
//   expires, while the client asks the server to confirm it. Without an answer the lease is kept.
//   init: waits after a refusal. The client retries the first time at once, later after growing
//   pauses. It never gives up.
// Only DHCPv4 probes. Only DHCPv6 requests information without an address, and has separate
// exchanges for releasing and declining.
#pragma once

#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos::networkd::dhcp {

// The time of an input, and a new random number.
struct Moment {
  kj::TimePoint time;
  uint64_t random;
};

// Returns true if `moment` has come; a null moment never comes.
inline bool reached(const kj::Maybe<kj::TimePoint>& moment, kj::TimePoint now) {
  KJ_IF_MAYBE (m, moment) return now >= *m;
  return false;
}

// Returns the earliest moment that is set.
inline kj::Maybe<kj::TimePoint> earliest(std::initializer_list<kj::Maybe<kj::TimePoint>> moments) {
  kj::Maybe<kj::TimePoint> first;
  for (auto& moment : moments) {
    KJ_IF_MAYBE (m, moment) first = kj::min(*m, first.orDefault(*m));
  }
  return first;
}

// --- actions of both protocols
struct Bound {};  // lease() holds from now, or has other content
struct Lost {     // No lease holds any more.
  kj::String cause;
};

// Next states by the protocol. Besides, each state is followed by kDown when the link goes down,
// and by kSelecting when the lease expires; with IPv6 also by kReleasing when the address is no
// longer wanted, and by kDeclining when another host has it.
enum class LeaseState {
  kDown,        // no carrier; with IPv6, no link-local address either. Next: kSelecting;
                // kConfirming with a lease; kAsking
  kInit,        // waits before the next request. Next: kSelecting
  kSelecting,   // next: kRequesting; kBound by a rapid commit
  kRequesting,  // next: kProbing with IPv4, kBound with IPv6; refused: kSelecting, kInit
  kProbing,     // next: kBound; kInit if another host has the address
  kBound,       // next: kRenewing
  kRenewing,    // next: kBound, kRebinding; refused: kRequesting, kSelecting, kInit
  kRebinding,   // next: kBound; refused: kRequesting, kSelecting, kInit
  kConfirming,  // next: kBound; refused: kSelecting, kInit
  kAsking,      // requests information. Next: kInformed
  kInformed,    // next: kAsking
  kReleasing,   // next: kDown
  kDeclining,   // next: kSelecting, kInit; kDown if the address is no longer wanted
};
inline kj::StringPtr nameOf(LeaseState state) {
  constexpr kj::StringPtr kNames[] = {
      "no carrier"_kj, "waiting"_kj,   "selecting"_kj, "requesting"_kj, "probing"_kj,
      "bound"_kj,      "renewing"_kj,  "rebinding"_kj, "confirming"_kj, "asking"_kj,
      "informed"_kj,   "releasing"_kj, "declining"_kj};
  return kNames[static_cast<size_t>(state)];
}

template <typename Lease, typename Action>
class LeaseCycle {
 public:
  using State = LeaseState;
  using Actions = kj::Vector<Action>;
  KJ_DISALLOW_COPY_AND_MOVE(LeaseCycle);

  Actions linkUp(Moment now) {
    Actions out;
    if (current != State::kDown || released) return out;
    expire(now, out);
    enter(informs             ? State::kAsking
          : (held == nullptr) ? State::kSelecting
                              : State::kConfirming,
          now, out);
    return out;
  }
  // Call at deadline() or later.
  Actions timeout(Moment now) {
    Actions out;
    if (expire(now, out)) {
      if (current != State::kDown) enter(State::kSelecting, now, out);
    } else if (!ownTimeout(now, out) && reached(next, now.time)) {
      step(now, out);
    }
    return out;
  }

  State state() const { return current; }
  kj::Maybe<kj::TimePoint> deadline() const {
    kj::Maybe<kj::TimePoint> end;
    KJ_IF_MAYBE (lease, held) end = lease->expires;
    return earliest({next, end});
  }
  // Returns the lease; Lost reports only the end of a lease with an address.
  kj::Maybe<const Lease&> lease() const {
    KJ_IF_MAYBE (lease, held) return *lease;
    return nullptr;
  }
  // Returns true while messages are expected; otherwise no socket needs to be open.
  bool listens() const {
    return current != State::kDown && current != State::kInit && current != State::kProbing &&
           current != State::kBound && current != State::kInformed;
  }

 protected:
  explicit LeaseCycle(kj::Maybe<Lease> kept, bool informs = false)
      : held(kj::mv(kept)), informs(informs) {}
  ~LeaseCycle() noexcept(false) = default;

  // --- the protocol
  // Sends the next message of the state, and sets `next` and `tries`.
  virtual void send(Moment now, Actions& out) = 0;
  // Number of messages of the state without an answer; 0: any number.
  virtual unsigned mostTries() const = 0;
  // Pause after the n-th successive refusal, n > 1.
  virtual kj::Duration refusalPause(unsigned count, Moment now) const = 0;
  // Returns true if a chosen offer is to be requested after a pause.
  virtual bool hasOffer() const { return false; }
  virtual void dropOffers() = 0;
  // Runs the protocol's additional timer. Returns true if this input needs nothing more.
  virtual bool ownTimeout(Moment now, Actions& out) = 0;
  // kReleasing or kDeclining has ended.
  virtual void left(Moment now, Actions& out) {}

  // --- steps
  // Starts a new exchange.
  void enter(State state, Moment now, Actions& out) {
    current = state;
    if (state == State::kSelecting) dropOffers();
    begin(now);
    send(now, out);
  }
  void begin(Moment now) {
    exchange = static_cast<uint32_t>(now.random);
    began = now.time;
    tries = 0;
  }
  // Keeps the lease: a short loss of the carrier must not change the node.
  virtual void down() {
    current = State::kDown;
    next = nullptr;
    dropOffers();
  }
  void bind(Lease lease, Moment now, Actions& out) {
    if (lease.expired(now.time)) return;
    held = kj::mv(lease);
    failures = 0;
    out.add(Bound{});
    settle();
  }
  virtual void settle() {
    current = informs ? State::kInformed : State::kBound;
    next = nullptr;
    KJ_IF_MAYBE (lease, held) next = lease->renew;
  }
  void lose(kj::StringPtr cause, Actions& out) {
    bool any = !informs && held != nullptr;
    held = nullptr;
    if (any) out.add(Lost{kj::str(cause)});
  }
  // Selects again: at once, or after a pause that grows with `reasons`.
  void requestAgain(unsigned& reasons, Moment now, Actions& out) {
    down();
    if (released) return;
    if (reasons++ == 0) return enter(State::kSelecting, now, out);
    pause(refusalPause(reasons, now), now);
  }
  void pause(kj::Duration time, Moment now) {
    current = State::kInit;
    next = now.time + time;
  }

  State current = State::kDown;
  kj::Maybe<Lease> held;  // in force
  const bool informs;     // requests only information
  bool released = false;  // No request follows any more.
  uint32_t exchange = 0;
  kj::TimePoint began = kj::origin<kj::TimePoint>();  // start of the exchange
  // Time of the request that an answer belongs to; lifetimes count from this time.
  kj::TimePoint sent = kj::origin<kj::TimePoint>();
  kj::Maybe<kj::TimePoint> next;  // the next step in this state
  unsigned tries = 0;             // messages of this state
  unsigned failures = 0;          // successive refusals

 private:
  bool expire(Moment now, Actions& out) {
    KJ_IF_MAYBE (lease, held) {
      if (!lease->expired(now.time)) return false;
      lose("it has expired", out);
      return true;
    }
    return false;
  }

  void step(Moment now, Actions& out) {
    auto most = mostTries();
    bool gaveUp = most != 0 && tries >= most;
    bool rebinds = false;
    KJ_IF_MAYBE (lease, held) rebinds = reached(lease->rebind, now.time);
    switch (current) {
      case State::kDown:
        next = nullptr;
        return;
      case State::kInit:
        return enter(State::kSelecting, now, out);
      case State::kSelecting:
        return hasOffer() ? enter(State::kRequesting, now, out) : send(now, out);
      case State::kRequesting:  // leaves a server that does not grant its own offer
        return gaveUp ? enter(State::kSelecting, now, out) : send(now, out);
      case State::kConfirming:  // The lease holds until its end: RFC 2131 §3.2, 8415 §18.2.3.
        return gaveUp ? settle() : send(now, out);
      case State::kBound:
        return enter(State::kRenewing, now, out);
      case State::kRenewing:
        return rebinds ? enter(State::kRebinding, now, out) : send(now, out);
      case State::kInformed:
        return enter(State::kAsking, now, out);
      case State::kReleasing:
      case State::kDeclining:
        return gaveUp ? left(now, out) : send(now, out);
      default:
        return send(now, out);
    }
  }
};

}  // namespace talos::networkd::dhcp
