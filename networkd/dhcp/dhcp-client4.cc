#include "networkd/dhcp/dhcp-client4.h"

#include <kj/debug.h>

namespace talos::networkd::dhcp {

using Type4 = Message4::Type;

namespace {

constexpr uint16_t kMaximumSize = 1472;  // what an Ethernet frame has room for
constexpr unsigned kTries = 3;           // of a request that nobody answers
constexpr unsigned kProbes = 3, kAnnouncements = 2;
constexpr auto kProbePause = 100 * kj::MILLISECONDS;
constexpr auto kAnnouncePause = 2 * kj::SECONDS;
constexpr auto kDeclinePause = 10 * kj::SECONDS;  // RFC 2131 §3.1.5
constexpr auto kFirstPause = 4 * kj::SECONDS, kLongestPause = 64 * kj::SECONDS;
constexpr auto kLeastRenewalPause = 60 * kj::SECONDS;  // RFC 2131 §4.4.5

// RFC 3442 wants 121 before 3.
constexpr kj::byte kWanted4[] = {1, 121, 3, 6, 12, 15, 26, 42, 51, 58, 59, 119};

// Of the n-th message, from 0: doubling, +-1 s.
kj::Duration pauseBehind(unsigned n, uint64_t random) {
  auto pause = kj::min(kFirstPause * (1u << kj::min(n, 5u)), kLongestPause);
  return pause + (static_cast<int64_t>((random >> 32) % 2001) - 1000) * kj::MILLISECONDS;
}

// Whether the answer is to this exchange of this client.
bool answers(const Message4& message, uint32_t exchange, Bytes hardwareAddress) {
  return message.reply && message.exchange == exchange && message.hardwareType == 1 &&
         message.hardwareAddress.asPtr() == hardwareAddress;
}

bool sameServer(const Message4& message, const Lease4& lease) {
  KJ_IF_MAYBE (server, message.server) return *server == lease.server;
  return false;
}

}  // namespace

Client4::Client4(Settings4 settingsGiven, kj::Maybe<Lease4> kept)
    : settings(kj::mv(settingsGiven)), held(kj::mv(kept)) {
  KJ_REQUIRE(settings.hardwareAddress.size() == 6, "DHCP needs an Ethernet address");
}

kj::Maybe<const Lease4&> Client4::lease() const {
  KJ_IF_MAYBE (lease, held) return *lease;
  return nullptr;
}

bool Client4::listens() const {
  switch (current) {
    case State::kSelecting:
    case State::kRequesting:
    case State::kRenewing:
    case State::kRebinding:
    case State::kRebooting:
      return true;
    default:
      return false;
  }
}

kj::Maybe<kj::TimePoint> Client4::deadline() const {
  kj::Maybe<kj::TimePoint> end;
  KJ_IF_MAYBE (lease, held) end = lease->expires;
  return earliest({next, announceAt, end});
}

// --- inputs

Client4::Actions Client4::linkUp(Moment now) {
  Actions out;
  if (current != State::kDown) return out;
  failures = 0;
  KJ_IF_MAYBE (lease, held) {
    if (!lease->expired(now.time)) {
      reboot(now, out);
      return out;
    }
    lose("it has expired", out);
  }
  discover(now, out);
  return out;
}

// What is held stays: a cable that is out for a moment must not change the node.
Client4::Actions Client4::linkDown(Moment now) {
  current = State::kDown;
  next = announceAt = nullptr;
  pending = nullptr;
  return {};
}

Client4::Actions Client4::timeout(Moment now) {
  Actions out;
  if (expire(now, out)) return out;
  if (reached(announceAt, now.time)) announce(now, out);
  if (reached(next, now.time)) goOn(now, out);
  return out;
}

// Whether the lease is over.
bool Client4::expire(Moment now, Actions& out) {
  KJ_IF_MAYBE (lease, held) {
    if (!lease->expired(now.time)) return false;
    lose("it has expired", out);
    if (current != State::kDown) discover(now, out);
    return true;
  }
  return false;
}

void Client4::announce(Moment now, Actions& out) {
  KJ_IF_MAYBE (lease, held) {
    out.add(SendArp{announcement(settings.hardwareAddress, lease->address.address)});
  }
  announceAt = nullptr;
  if (++announcements < kAnnouncements) announceAt = now.time + kAnnouncePause;
}

// What each state does when its time has come.
void Client4::goOn(Moment now, Actions& out) {
  bool rebind = false;
  KJ_IF_MAYBE (lease, held) rebind = reached(lease->rebind, now.time);
  switch (current) {
    case State::kDown:
      next = nullptr;
      return;
    case State::kInit:
      return discover(now, out);
    case State::kSelecting:
      return sendDiscover(now, out);
    case State::kRequesting:
      return tries < kTries ? sendRequest(now, out) : discover(now, out);
    case State::kProbing:
      return probeNext(now, out);
    case State::kBound:
      return renew(State::kRenewing, now, out);
    case State::kRenewing:
      return rebind ? renew(State::kRebinding, now, out) : sendRenewal(now, out);
    case State::kRebinding:
      return sendRenewal(now, out);
    case State::kRebooting:
      // Nobody says that it is wrong: it holds as long as it was given (RFC 2131 §3.2).
      return tries < kTries ? sendRequest(now, out) : settle(now);
  }
}

Client4::Actions Client4::hear(const Message4& message, Moment now) {
  Actions out;
  if (!listens() || !answers(message, exchange, settings.hardwareAddress)) return out;
  switch (message.type) {
    case Type4::kOffer:
      if (current != State::kSelecting) break;
      KJ_IF_MAYBE (offer, leaseOf(message, now.time)) {
        pending = kj::mv(*offer);
        current = State::kRequesting;
        tries = 0;
        sendRequest(now, out);
      }
      break;
    case Type4::kAck:
      acknowledged(message, now, out);
      break;
    case Type4::kNak:
      refused(message, now, out);
      break;
    default:
      break;
  }
  return out;
}

Client4::Actions Client4::hear(const Arp& arp, Moment now) {
  Actions out;
  if (current != State::kProbing) return out;
  KJ_IF_MAYBE (lease, pending) {
    if (!conflicts(arp, settings.hardwareAddress, lease->address.address)) return out;
    startExchange(now);
    auto decline = request(Type4::kDecline, now);
    decline.server = lease->server;
    decline.requested = lease->address.address;
    decline.seconds = 0;
    out.add(Broadcast{kj::mv(decline)});
  }
  pending = nullptr;
  hint = nullptr;
  pause(kDeclinePause, now);
  return out;
}

Client4::Actions Client4::stop(Moment now) {
  Actions out;
  if (current != State::kDown) release(now, out);
  lose("it is no longer wanted", out);
  linkDown(now);
  return out;
}

// --- answers

void Client4::acknowledged(const Message4& message, Moment now, Actions& out) {
  auto& asked = current == State::kRequesting ? pending : held;
  KJ_IF_MAYBE (known, asked) {
    bool here = current == State::kRequesting || current == State::kRenewing;
    if (here && !sameServer(message, *known)) return;
    if (message.yours != known->address.address) return;
    KJ_IF_MAYBE (lease, leaseOf(message, sent)) {
      if (lease->expired(now.time)) return;
      if (current != State::kRequesting) {
        bind(kj::mv(*lease), now, out);
        return;
      }
      pending = kj::mv(*lease);
      current = State::kProbing;
      tries = 0;
      probeNext(now, out);
    }
  }
}

void Client4::refused(const Message4& message, Moment now, Actions& out) {
  auto& asked = current == State::kRequesting ? pending : held;
  KJ_IF_MAYBE (known, asked) {
    bool here = current == State::kRequesting || current == State::kRenewing;
    if (here && !sameServer(message, *known)) return;
  } else {
    return;
  }
  pending = nullptr;
  hint = nullptr;
  lose(message.text.size() > 0 ? kj::str("the server refused it: ", message.text)
                               : kj::str("the server refused it"),
       out);
  // The first time at once: a machine that moved to another network asks for what it had.
  if (failures == 0) {
    ++failures;
    discover(now, out);
  } else {
    pause(0 * kj::SECONDS, now);
  }
}

// --- what each state does

void Client4::startExchange(Moment now) {
  exchange = static_cast<uint32_t>(now.random);
  began = now.time;
  tries = 0;
}

Message4 Client4::request(Type4 type, Moment now) const {
  Message4 message;
  message.type = type;
  message.hardwareAddress = copyOf(settings.hardwareAddress);
  message.exchange = exchange;
  auto seconds = (now.time - began) / kj::SECONDS;
  message.seconds = static_cast<uint16_t>(kj::min(seconds, int64_t(0xffff)));
  message.clientIdentifier = Writer().u8(1).bytes(settings.hardwareAddress).finish();
  if (type == Type4::kDiscover || type == Type4::kRequest) {
    message.parameters = copyOf(kWanted4);
    message.maximumSize = kMaximumSize;
    message.hostname = kj::str(settings.hostname);
  }
  return message;
}

void Client4::discover(Moment now, Actions& out) {
  pending = nullptr;
  current = State::kSelecting;
  startExchange(now);
  sendDiscover(now, out);
}

void Client4::sendDiscover(Moment now, Actions& out) {
  auto message = request(Type4::kDiscover, now);
  message.requested = hint;
  out.add(Broadcast{kj::mv(message)});
  next = now.time + pauseBehind(tries++, now.random);
}

// RFC 2131 §4.3.2: selecting names the server; init-reboot does not.
void Client4::sendRequest(Moment now, Actions& out) {
  auto message = request(Type4::kRequest, now);
  KJ_IF_MAYBE (offer, pending) {
    message.requested = offer->address.address;
    message.server = offer->server;
  } else {
    KJ_IF_MAYBE (lease, held) message.requested = lease->address.address;
  }
  out.add(Broadcast{kj::mv(message)});
  if (tries == 0) sent = now.time;
  next = now.time + pauseBehind(tries++, now.random);
}

void Client4::reboot(Moment now, Actions& out) {
  pending = nullptr;
  current = State::kRebooting;
  startExchange(now);
  sendRequest(now, out);
}

void Client4::renew(State state, Moment now, Actions& out) {
  current = state;
  startExchange(now);
  sendRenewal(now, out);
}

void Client4::sendRenewal(Moment now, Actions& out) {
  KJ_IF_MAYBE (lease, held) {
    // Each has a number of its own, so the time of the one that is answered is known: hours may lie
    // between the first and the last, and the server counts from that one.
    exchange = static_cast<uint32_t>(now.random);
    sent = now.time;
    ++tries;
    auto message = request(Type4::kRequest, now);
    message.client = lease->address.address;
    bool renewing = current == State::kRenewing;
    if (renewing) {
      out.add(Unicast{kj::mv(message), lease->address.address, lease->server});
    } else {
      out.add(Broadcast{kj::mv(message)});
    }
    auto limit = (renewing ? lease->rebind : lease->expires).orDefault(now.time);
    auto least =
        kj::max(kFirstPause, kj::min(kLeastRenewalPause, lease->seconds * kj::SECONDS / 20));
    next = kj::min(limit, now.time + kj::max((limit - now.time) / 2, least));
  }
}

void Client4::probeNext(Moment now, Actions& out) {
  KJ_IF_MAYBE (lease, pending) {
    if (tries++ < kProbes) {
      out.add(SendArp{probe(settings.hardwareAddress, lease->address.address)});
      next = now.time + kProbePause;
      return;
    }
    auto taken = kj::mv(*lease);
    pending = nullptr;
    announcements = 0;
    announceAt = now.time;
    bind(kj::mv(taken), now, out);
  }
}

void Client4::bind(Lease4 lease, Moment now, Actions& out) {
  held = kj::mv(lease);
  failures = 0;
  out.add(Bound{});
  settle(now);
}

void Client4::settle(Moment now) {
  current = State::kBound;
  next = nullptr;
  KJ_IF_MAYBE (lease, held) {
    next = lease->renew;
    hint = lease->address.address;
  }
}

void Client4::pause(kj::Duration least, Moment now) {
  current = State::kInit;
  next = now.time + kj::max(least, pauseBehind(failures, now.random));
  ++failures;
}

// Also of what was acknowledged and is still being probed for: for the server it is ours.
void Client4::release(Moment now, Actions& out) {
  auto& ours = current == State::kProbing ? pending : held;
  KJ_IF_MAYBE (lease, ours) {
    if (lease->expired(now.time)) return;
    startExchange(now);
    auto message = request(Type4::kRelease, now);
    message.client = lease->address.address;
    message.server = lease->server;
    out.add(Release{kj::mv(message), lease->address.address, lease->server});
  }
}

void Client4::lose(kj::StringPtr why, Actions& out) {
  if (held == nullptr) return;
  held = nullptr;
  announceAt = nullptr;
  out.add(Lost{kj::str(why)});
}

kj::StringPtr nameOf(Client4::State state) {
  using State = Client4::State;
  switch (state) {
    case State::kDown:
      return "no carrier";
    case State::kInit:
      return "waiting";
    case State::kSelecting:
      return "selecting";
    case State::kRequesting:
      return "requesting";
    case State::kProbing:
      return "probing";
    case State::kBound:
      return "bound";
    case State::kRenewing:
      return "renewing";
    case State::kRebinding:
      return "rebinding";
    case State::kRebooting:
      return "confirming";
  }
  return "unknown";
}

}  // namespace talos::networkd::dhcp
