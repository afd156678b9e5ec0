#include "networkd/dhcp/dhcp-client6.h"

#include <kj/debug.h>

#include <algorithm>

namespace talos::networkd::dhcp {

using Type6 = Message6::Type;

namespace {

constexpr uint16_t kWanted6[] = {23, 24, 31, 39, 56, 82};
constexpr uint16_t kWantedInformation[] = {23, 24, 31, 32, 56, 83};
constexpr uint8_t kBestPreference = 255;
// How long an address may be on the link after it is no longer wanted, until nobody waits for that.
constexpr auto kLongestUse = 5 * kj::SECONDS;
constexpr auto kLeastOfLongest = 60 * kj::SECONDS, kMostOfLongest = 86400 * kj::SECONDS;

// RFC 8415 §7.6: first pause, longest, messages (0: any number).
struct Pauses {
  kj::Duration first, longest;
  unsigned count;
};
Pauses pausesOf(Client6::State state, kj::Duration longest) {
  using State = Client6::State;
  switch (state) {
    case State::kRequesting:
      return {1 * kj::SECONDS, 30 * kj::SECONDS, 10};
    case State::kRenewing:
    case State::kRebinding:
      return {10 * kj::SECONDS, 600 * kj::SECONDS, 0};
    case State::kConfirming:
      return {1 * kj::SECONDS, 4 * kj::SECONDS, 4};  // about the ten seconds of CNF_MAX_RD
    case State::kReleasing:
    case State::kDeclining:
      return {1 * kj::SECONDS, 8 * kj::SECONDS, 4};
    default:
      return {1 * kj::SECONDS, longest, 0};
  }
}

// +-10 %; of the first solicitation only more (§18.2.1).
kj::Duration spread(kj::Duration pause, uint64_t random, bool onlyMore) {
  auto share = static_cast<int64_t>((random >> 32) % 1001);  // 0 .. 1000
  if (!onlyMore) share = 2 * share - 1000;
  return pause + pause * share / 10000;
}

Type6 typeOf(Client6::State state) {
  using State = Client6::State;
  switch (state) {
    case State::kSoliciting:
      return Type6::kSolicit;
    case State::kRequesting:
      return Type6::kRequest;
    case State::kRenewing:
      return Type6::kRenew;
    case State::kRebinding:
      return Type6::kRebind;
    case State::kConfirming:
      return Type6::kConfirm;
    case State::kReleasing:
      return Type6::kRelease;
    case State::kDeclining:
      return Type6::kDecline;
    default:
      return Type6::kInformationRequest;
  }
}

kj::ArrayPtr<const uint16_t> wantedIn(Type6 type) {
  switch (type) {
    case Type6::kConfirm:
    case Type6::kRelease:
    case Type6::kDecline:
      return nullptr;
    case Type6::kInformationRequest:
      return kWantedInformation;
    default:
      return kWanted6;
  }
}

uint32_t numberOf(Bytes hardwareAddress) {
  Reader in(hardwareAddress);
  in.u16();
  return in.u32();
}

uint16_t statusOf(const Message6& message, uint32_t association) {
  KJ_IF_MAYBE (status, message.status) {
    if (status->code != Status6::kSuccess) return status->code;
  }
  for (auto& candidate : message.associations) {
    if (candidate.id != association) continue;
    KJ_IF_MAYBE (status, candidate.status) return status->code;
  }
  return Status6::kSuccess;
}

}  // namespace

Client6::Client6(Settings6 settingsGiven, kj::Maybe<Lease6> kept)
    : settings(kj::mv(settingsGiven)),
      identifier(linkLayerIdentifier(1, settings.hardwareAddress)),
      number(numberOf(settings.hardwareAddress)),
      held(kj::mv(kept)),
      longest(3600 * kj::SECONDS) {
  KJ_REQUIRE(settings.hardwareAddress.size() == 6, "DHCP needs an Ethernet address");
}

kj::Maybe<const Lease6&> Client6::lease() const {
  KJ_IF_MAYBE (lease, held) return *lease;
  return nullptr;
}

bool Client6::listens() const {
  return current != State::kDown && current != State::kInit && current != State::kBound &&
         current != State::kInformed && !onLink;
}

kj::Maybe<const Ip&> Client6::leaving() const {
  KJ_IF_MAYBE (there, past) return there->address;
  return nullptr;
}

kj::Maybe<kj::TimePoint> Client6::deadline() const {
  kj::Maybe<kj::TimePoint> end;
  KJ_IF_MAYBE (lease, held) end = lease->expires;
  return earliest({next, end});
}

// --- inputs

Client6::Actions Client6::linkUp(Moment now) {
  Actions out;
  if (current != State::kDown || released) return out;
  if (!settings.address) {
    enter(State::kAsking, now, out);
    return out;
  }
  KJ_IF_MAYBE (lease, held) {
    if (!lease->expired(now.time)) {
      enter(State::kConfirming, now, out);
      return out;
    }
    lose("it has expired", out);
  }
  enter(State::kSoliciting, now, out);
  return out;
}

Client6::Actions Client6::linkDown() {
  current = State::kDown;
  next = nullptr;
  best = nullptr;
  past = nullptr;
  onLink = false;
  return {};
}

Client6::Actions Client6::timeout(Moment now) {
  Actions out;
  if (expire(now, out) || !reached(next, now.time)) return out;
  auto count = pausesOf(current, longest).count;
  if (onLink) {
    stillOnLink(now, out);
  } else if (count != 0 && tries >= count) {
    giveUp(now, out);
  } else {
    goOn(now, out);
  }
  return out;
}

// Whether the lease is over.
bool Client6::expire(Moment now, Actions& out) {
  KJ_IF_MAYBE (lease, held) {
    if (!lease->expired(now.time)) return false;
    lose("it has expired", out);
    if (current != State::kDown) enter(State::kSoliciting, now, out);
    return true;
  }
  return false;
}

// The address that is not wanted any more stays on the link.
void Client6::stillOnLink(Moment now, Actions& out) {
  if (current == State::kReleasing) {
    linkDown();  // it is not ours to give back
  } else {
    onLink = false;
    enter(State::kDeclining, now, out);
  }
}

// Nobody has answered. Nobody says that a known address is wrong; a server that does not give what
// it offered is left.
void Client6::giveUp(Moment now, Actions& out) {
  switch (current) {
    case State::kConfirming:
      return settle();
    case State::kReleasing:
      linkDown();
      return;
    case State::kDeclining:
      return askAnew(conflicts, now, out);
    default:
      return enter(State::kSoliciting, now, out);
  }
}

// What each state does when its time has come.
void Client6::goOn(Moment now, Actions& out) {
  bool rebind = false;
  KJ_IF_MAYBE (lease, held) rebind = reached(lease->rebind, now.time);
  switch (current) {
    case State::kBound:
      return enter(State::kRenewing, now, out);
    case State::kInformed:
      return enter(State::kAsking, now, out);
    case State::kInit:
      return enter(State::kSoliciting, now, out);
    case State::kSoliciting:
      return best != nullptr ? enter(State::kRequesting, now, out) : send(now, out);
    case State::kRenewing:
      return rebind ? enter(State::kRebinding, now, out) : send(now, out);
    default:
      return send(now, out);
  }
}

Client6::Actions Client6::duplicated(Moment now) {
  Actions out;
  if (!partFrom("another host on this network has its address", out)) return out;
  if (current == State::kDown) {
    past = nullptr;
    return out;
  }
  leave(State::kDeclining, now);
  return out;
}

Client6::Actions Client6::release(Moment now) {
  Actions out;
  released = true;
  bool valid = false;
  KJ_IF_MAYBE (lease, held) valid = !lease->expired(now.time);
  bool tell = partFrom("it is no longer wanted", out) && valid && current != State::kDown;
  // An answer that is under way is to something else.
  if (current == State::kDeclining) return out;
  if (!tell) {
    linkDown();
    return out;
  }
  leave(State::kReleasing, now);
  return out;
}

void Client6::leave(State how, Moment now) {
  current = how;
  best = nullptr;
  onLink = true;
  next = now.time + kLongestUse;
}

Client6::Actions Client6::removed(Moment now) {
  Actions out;
  if (!onLink) return out;
  onLink = false;
  enter(current, now, out);
  return out;
}

// Whether there was an address.
bool Client6::partFrom(kj::StringPtr why, Actions& out) {
  bool any = false;
  KJ_IF_MAYBE (lease, held) {
    KJ_IF_MAYBE (address, lease->address) {
      past = Past{*address, copyOf(lease->server)};
      any = true;
    }
    lose(why, out);
  }
  return any;
}

// §16: what carries both identifiers, ours being ours, and is of the exchange that is going on.
bool Client6::acceptable(const Message6& message) const {
  return listens() && message.exchange == exchange && message.client.asPtr() == identifier &&
         message.server.size() > 0;
}

Client6::Actions Client6::hear(const Message6& message, Moment now) {
  Actions out;
  if (!acceptable(message)) return out;
  // §21.24, 21.25: also from those that have nothing to give.
  KJ_IF_MAYBE (seconds, settings.address ? message.longestSolicit : message.longestInformation) {
    auto wanted = uint64_t(*seconds) * kj::SECONDS;
    if (wanted >= kLeastOfLongest && wanted <= kMostOfLongest) longest = wanted;
  }
  if (message.type == Type6::kAdvertise && current == State::kSoliciting) {
    advertised(message, now, out);
  } else if (message.type == Type6::kReply) {
    replied(message, now, out);
  }
  return out;
}

// The best of those that come before the first pause ends; the first one after that.
void Client6::advertised(const Message6& message, Moment now, Actions& out) {
  if (leaseOf(message, number, now.time) == nullptr) return;
  auto preference = message.preference.orDefault(0);
  bool better = true;
  KJ_IF_MAYBE (known, best) better = preference > known->preference.orDefault(0);
  if (!better) return;
  auto copy = parse6(encode(message));
  best = kj::mv(copy.message);
  if (preference == kBestPreference || tries > 1) enter(State::kRequesting, now, out);
}

void Client6::replied(const Message6& message, Moment now, Actions& out) {
  auto status = statusOf(message, number);
  switch (current) {
    case State::kSoliciting:
      if (!message.rapidCommit) return;
      KJ_IF_MAYBE (lease, leaseOf(message, number, sent)) bind(kj::mv(*lease), now, out);
      return;
    case State::kRequesting:
      KJ_IF_MAYBE (server, best) {
        if (message.server.asPtr() != server->server.asPtr()) return;
      }
      KJ_IF_MAYBE (lease, leaseOf(message, number, sent)) {
        bind(kj::mv(*lease), now, out);
      } else if (status != Status6::kUnspecified) {
        askAnew(failures, now, out);
      }
      return;
    case State::kRenewing:
      KJ_IF_MAYBE (known, held) {
        if (message.server.asPtr() != known->server.asPtr()) return;
      }
      [[fallthrough]];
    case State::kRebinding:
      KJ_IF_MAYBE (lease, leaseOf(message, number, sent)) {
        bind(kj::mv(*lease), now, out);
        conflicts = 0;  // it has been used all the while
      } else if (status == Status6::kNoBinding || status == Status6::kNotOnLink) {
        lose("the server does not know it", out);
        enter(State::kSoliciting, now, out);
      }
      return;
    case State::kConfirming:
      if (status == Status6::kNotOnLink) {
        lose("it is not of this link", out);
        enter(State::kSoliciting, now, out);
      } else if (status == Status6::kSuccess) {
        settle();
        out.add(Bound{});
      }
      return;
    case State::kAsking:
      if (status == Status6::kSuccess) bind(informationOf(message, now.time), now, out);
      return;
    case State::kReleasing:
    case State::kDeclining:
      // Whatever it says (§18.2.10.3).
      KJ_IF_MAYBE (there, past) {
        if (message.server.asPtr() != there->server.asPtr()) return;
      }
      if (current == State::kReleasing || released) {
        linkDown();
      } else {
        askAnew(conflicts, now, out);
      }
      return;
    default:
      return;
  }
}

// --- what each state does

void Client6::enter(State state, Moment now, Actions& out) {
  current = state;
  if (state == State::kSoliciting) best = nullptr;
  exchange = static_cast<uint32_t>(now.random) & 0xffffff;  // the same in all tries (§16.1)
  began = now.time;
  tries = 0;
  send(now, out);
}

// The first time it asks anew at once; a server that goes on to offer what it does not give, or
// what others have, is asked at ever longer intervals (§14.1).
void Client6::askAnew(unsigned& reasons, Moment now, Actions& out) {
  linkDown();
  if (released) return;
  if (reasons++ == 0) {
    enter(State::kSoliciting, now, out);
    return;
  }
  current = State::kInit;
  auto wait = (1u << kj::min(reasons, 12u)) * kj::SECONDS;
  next = now.time + spread(kj::min(wait, longest), now.random, false);
}

void Client6::send(Moment now, Actions& out) {
  out.add(Send{message(now)});
  auto pauses = pausesOf(current, longest);
  auto base = tries == 0 ? pauses.first : kj::min(pause * 2, pauses.longest);
  pause = spread(base, now.random, tries == 0 && current == State::kSoliciting);
  ++tries;
  sent = now.time;
  next = now.time + pause;
  if (current != State::kRenewing) return;
  KJ_IF_MAYBE (lease, held) {
    KJ_IF_MAYBE (rebind, lease->rebind) {
      if (*rebind > now.time) next = kj::min(*rebind, now.time + pause);
    }
  }
}

Message6 Client6::message(Moment now) const {
  Message6 message;
  message.type = typeOf(current);
  message.exchange = exchange;
  message.client = copyOf(identifier);
  auto elapsed = (now.time - began) / (10 * kj::MILLISECONDS);
  message.elapsed = static_cast<uint16_t>(kj::min(elapsed, int64_t(0xffff)));
  message.rapidCommit = current == State::kSoliciting;
  message.wanted.addAll(wantedIn(message.type));
  auto about = subject(now);
  message.server = copyOf(about.server);
  if (message.type == Type6::kInformationRequest) return message;
  Association6 association;
  association.id = number;
  KJ_IF_MAYBE (address, about.address) {
    association.addresses.add(Address6{*address, 0, 0, nullptr});
  }
  message.associations.add(kj::mv(association));
  return message;
}

Client6::Subject Client6::subject(Moment now) const {
  switch (current) {
    case State::kRequesting:
      KJ_IF_MAYBE (offer, best) {
        Subject result{nullptr, offer->server};
        KJ_IF_MAYBE (lease, leaseOf(*offer, number, now.time)) result.address = lease->address;
        return result;
      }
      return {};
    case State::kRenewing:
    case State::kRebinding:
    case State::kConfirming:
      KJ_IF_MAYBE (lease, held) {
        return {lease->address, current == State::kRenewing ? Bytes(lease->server) : Bytes()};
      }
      return {};
    case State::kReleasing:
    case State::kDeclining:
      KJ_IF_MAYBE (there, past) return {there->address, there->server};
      return {};
    default:
      return {};
  }
}

void Client6::bind(Lease6 lease, Moment now, Actions& out) {
  if (lease.expired(now.time)) return;
  held = kj::mv(lease);
  best = nullptr;
  failures = 0;
  settle();
  out.add(Bound{});
}

void Client6::settle() {
  current = settings.address ? State::kBound : State::kInformed;
  next = nullptr;
  KJ_IF_MAYBE (lease, held) next = lease->renew;
}

void Client6::lose(kj::StringPtr why, Actions& out) {
  bool any = false;
  KJ_IF_MAYBE (lease, held) any = lease->address != nullptr;
  held = nullptr;
  if (any) out.add(Lost{kj::str(why)});
}

kj::StringPtr nameOf(Client6::State state) {
  using State = Client6::State;
  switch (state) {
    case State::kDown:
      return "no link-local address";
    case State::kInit:
      return "waiting";
    case State::kSoliciting:
      return "selecting";
    case State::kRequesting:
      return "requesting";
    case State::kBound:
      return "bound";
    case State::kRenewing:
      return "renewing";
    case State::kRebinding:
      return "rebinding";
    case State::kConfirming:
      return "confirming";
    case State::kAsking:
      return "asking";
    case State::kInformed:
      return "informed";
    case State::kReleasing:
      return "releasing";
    case State::kDeclining:
      return "declining";
  }
  return "unknown";
}

}  // namespace talos::networkd::dhcp
