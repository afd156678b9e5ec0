#include "networkd/dhcp/dhcp-client4.h"

#include <kj/debug.h>

namespace talos::networkd::dhcp {

using Type4 = Message4::Type;

namespace {

constexpr uint16_t kMaximumSize = 1472;  // payload of an Ethernet frame
constexpr unsigned kTries = 3;           // messages of a request without an answer
constexpr unsigned kProbes = 3, kAnnouncements = 2;
constexpr auto kProbePause = 100 * kj::MILLISECONDS;
constexpr auto kAnnouncePause = 2 * kj::SECONDS;
constexpr auto kDeclinePause = 10 * kj::SECONDS;  // RFC 2131 §3.1.5
constexpr auto kFirstPause = 4 * kj::SECONDS, kLongestPause = 64 * kj::SECONDS;
constexpr auto kLeastRenewalPause = 60 * kj::SECONDS;  // RFC 2131 §4.4.5

// RFC 3442 wants 121 before 3.
constexpr kj::byte kWanted4[] = {1, 121, 3, 6, 12, 15, 26, 42, 51, 58, 59, 119};

constexpr kj::byte kMtuOption = 26;

kj::Array<kj::byte> wantedOptions(bool mtu) {
  kj::Vector<kj::byte> options;
  for (auto option : kWanted4) {
    if (mtu || option != kMtuOption) options.add(option);
  }
  return options.releaseAsArray();
}

// Returns the pause after the n-th message, from 0: doubling, +-1 s.
kj::Duration pauseBehind(unsigned n, uint64_t random) {
  auto pause = kj::min(kFirstPause * (1u << kj::min(n, 5u)), kLongestPause);
  return pause + (static_cast<int64_t>((random >> 32) % 2001) - 1000) * kj::MILLISECONDS;
}

}  // namespace

Client4::Client4(Settings4 settingsGiven, kj::Maybe<Lease4> kept)
    : LeaseCycle(kj::mv(kept)), settings(kj::mv(settingsGiven)) {
  KJ_REQUIRE(settings.hardwareAddress.size() == 6, "DHCP needs an Ethernet address");
}

kj::Maybe<kj::TimePoint> Client4::deadline() const {
  return earliest({LeaseCycle::deadline(), nextAnnouncement});
}

// --- inputs

Client4::Actions Client4::linkUp(Moment now) {
  if (current == State::kDown) failures = 0;
  return LeaseCycle::linkUp(now);
}

Client4::Actions Client4::linkDown(Moment now) {
  nextAnnouncement = nullptr;
  down();
  return {};
}

Client4::Actions Client4::handle(const Message4& message, Moment now) {
  Actions out;
  bool ours = message.reply && message.exchange == exchange && message.hardwareType == 1 &&
              message.hardwareAddress.asPtr() == settings.hardwareAddress;
  if (!listens() || !ours) return out;
  if (message.type == Type4::kOffer && current == State::kSelecting) {
    KJ_IF_MAYBE (offer, leaseOf(message, now.time)) {
      pending = kj::mv(*offer);
      current = State::kRequesting;
      tries = 0;
      send(now, out);
    }
  } else if (message.type == Type4::kAck) {
    acknowledged(message, now, out);
  } else if (message.type == Type4::kNak) {
    refused(message, now, out);
  }
  return out;
}

Client4::Actions Client4::handle(const Arp& arp, Moment now) {
  Actions out;
  if (current != State::kProbing) return out;
  KJ_IF_MAYBE (lease, pending) {
    if (!conflicts(arp, settings.hardwareAddress, lease->address.address)) return out;
    begin(now);
    auto decline = request(Type4::kDecline, now);
    decline.server = lease->server;
    decline.requested = lease->address.address;
    decline.seconds = 0;
    out.add(Broadcast{kj::mv(decline)});
  }
  pending = nullptr;
  hint = nullptr;
  pause(kj::max(kDeclinePause, pauseBehind(failures++, now.random)), now);
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

// A renewal by broadcast, and a confirmation, may be answered by any server.
bool Client4::isAnswerOf(const Message4& message, const Lease4& lease) const {
  if (current != State::kRequesting && current != State::kRenewing) return true;
  KJ_IF_MAYBE (server, message.server) return *server == lease.server;
  return false;
}

void Client4::acknowledged(const Message4& message, Moment now, Actions& out) {
  KJ_IF_MAYBE (asked, current == State::kRequesting ? pending : held) {
    if (!isAnswerOf(message, *asked) || message.yours != asked->address.address) return;
    KJ_IF_MAYBE (lease, leaseOf(message, sent)) {
      if (current != State::kRequesting) return bind(kj::mv(*lease), now, out);
      if (lease->expired(now.time)) return;
      pending = kj::mv(*lease);
      current = State::kProbing;
      tries = 0;
      send(now, out);
    }
  }
}

// The first refusal is followed by a new discovery at once: a machine that moved to another network
// requests its earlier address.
void Client4::refused(const Message4& message, Moment now, Actions& out) {
  KJ_IF_MAYBE (asked, current == State::kRequesting ? pending : held) {
    if (!isAnswerOf(message, *asked)) return;
    hint = nullptr;
    lose(message.text.size() > 0 ? kj::str("the server refused it: ", message.text)
                                 : kj::str("the server refused it"),
         out);
    nextAnnouncement = nullptr;
    requestAgain(failures, now, out);
  }
}

// --- the life cycle

unsigned Client4::mostTries() const {
  return current == State::kRequesting || current == State::kConfirming ? kTries : 0;
}

kj::Duration Client4::refusalPause(unsigned count, Moment now) const {
  return pauseBehind(count - 1, now.random);
}

bool Client4::ownTimeout(Moment now, Actions& out) {
  if (!reached(nextAnnouncement, now.time)) return false;
  nextAnnouncement = nullptr;
  KJ_IF_MAYBE (lease, held) {
    out.add(SendArp{announcement(settings.hardwareAddress, lease->address.address)});
    if (++announcements < kAnnouncements) nextAnnouncement = now.time + kAnnouncePause;
  }
  return false;
}

void Client4::settle() {
  LeaseCycle::settle();
  KJ_IF_MAYBE (lease, held) hint = lease->address.address;
}

void Client4::send(Moment now, Actions& out) {
  switch (current) {
    case State::kSelecting: {
      auto message = request(Type4::kDiscover, now);
      message.requested = hint;
      out.add(Broadcast{kj::mv(message)});
      next = now.time + pauseBehind(tries++, now.random);
      return;
    }
    case State::kProbing:
      return probeNext(now, out);
    case State::kRenewing:
    case State::kRebinding:
      KJ_IF_MAYBE (lease, held) sendRenewal(*lease, now, out);
      return;
    default:
      return sendRequest(now, out);
  }
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
    message.parameters = wantedOptions(settings.asksForMtu);
    message.maximumSize = kMaximumSize;
    message.hostname = kj::str(settings.hostname);
  }
  return message;
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

// Each message has a new transaction number, so the time of the answered message is known: hours
// may lie between the first and the last, and the server counts from the answered one.
void Client4::sendRenewal(const Lease4& lease, Moment now, Actions& out) {
  exchange = static_cast<uint32_t>(now.random);
  sent = now.time;
  ++tries;
  auto message = request(Type4::kRequest, now);
  message.client = lease.address.address;
  bool renewing = current == State::kRenewing;
  if (renewing) {
    out.add(Unicast{kj::mv(message), lease.address.address, lease.server});
  } else {
    out.add(Broadcast{kj::mv(message)});
  }
  auto limit = (renewing ? lease.rebind : lease.expires).orDefault(now.time);
  auto least = kj::max(kFirstPause, kj::min(kLeastRenewalPause, lease.seconds * kj::SECONDS / 20));
  next = kj::min(limit, now.time + kj::max((limit - now.time) / 2, least));
}

void Client4::probeNext(Moment now, Actions& out) {
  KJ_IF_MAYBE (lease, pending) {
    if (tries++ < kProbes) {
      out.add(SendArp{probe(settings.hardwareAddress, lease->address.address)});
      next = now.time + kProbePause;
      return;
    }
    if (lease->expired(now.time)) return enter(State::kSelecting, now, out);
    auto taken = kj::mv(*lease);
    pending = nullptr;
    announcements = 0;
    nextAnnouncement = now.time;
    bind(kj::mv(taken), now, out);
  }
}

// Releases also a lease that was acknowledged but is still being probed for: for the server it is
// ours.
void Client4::release(Moment now, Actions& out) {
  KJ_IF_MAYBE (lease, current == State::kProbing ? pending : held) {
    if (lease->expired(now.time)) return;
    begin(now);
    auto message = request(Type4::kRelease, now);
    message.client = lease->address.address;
    message.server = lease->server;
    out.add(Release{kj::mv(message), lease->address.address, lease->server});
  }
}

}  // namespace talos::networkd::dhcp
