#include "networkd/dhcp/dhcp-client6.h"

#include <kj/debug.h>

#include <algorithm>

namespace talos::networkd::dhcp {

using Type6 = Message6::Type;

namespace {

constexpr uint16_t kWanted6[] = {23, 24, 31, 39, 56, 82};
constexpr uint16_t kWantedInformation[] = {23, 24, 31, 32, 56, 83};
constexpr uint8_t kBestPreference = 255;
constexpr uint32_t kExchangeMask = 0xffffff;
// How long an address may stay on the link after it is no longer wanted.
constexpr auto kLongestUse = 5 * kj::SECONDS;
constexpr auto kLeastOfLongest = 60 * kj::SECONDS, kMostOfLongest = 86400 * kj::SECONDS;

// RFC 8415 §7.6: the message of each state, its first pause, the longest, and the number of
// messages (0: any). A longest of 0 is SOL_MAX_RT or INF_MAX_RT.
struct Exchange {
  LeaseState state;
  Type6 type;
  int64_t first, longest;  // seconds
  unsigned count;
};
constexpr Exchange kExchanges[] = {
    {LeaseState::kSelecting, Type6::kSolicit, 1, 0, 0},
    {LeaseState::kRequesting, Type6::kRequest, 1, 30, 10},
    {LeaseState::kRenewing, Type6::kRenew, 10, 600, 0},
    {LeaseState::kRebinding, Type6::kRebind, 10, 600, 0},
    {LeaseState::kConfirming, Type6::kConfirm, 1, 4, 4},  // about the 10 s of CNF_MAX_RD
    {LeaseState::kReleasing, Type6::kRelease, 1, 8, 4},
    {LeaseState::kDeclining, Type6::kDecline, 1, 8, 4},
    {LeaseState::kAsking, Type6::kInformationRequest, 1, 0, 0},
};
const Exchange& exchangeOf(LeaseState state) {
  for (auto& each : kExchanges) {
    if (each.state == state) return each;
  }
  return kExchanges[0];
}

// Adds +-10 %; for the first solicitation only +10 % (§18.2.1).
kj::Duration spread(kj::Duration pause, uint64_t random, bool onlyMore) {
  auto share = static_cast<int64_t>((random >> 32) % 1001);  // 0 .. 1000
  if (!onlyMore) share = 2 * share - 1000;
  return pause + pause * share / 10000;
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
    : LeaseCycle(kj::mv(kept), !settingsGiven.address),
      settings(kj::mv(settingsGiven)),
      identifier(settings.identifier.size() > 0 ? copyOf(settings.identifier)
                                                : linkLayerIdentifier(1, settings.hardwareAddress)),
      number(numberOf(settings.hardwareAddress)) {
  KJ_REQUIRE(settings.hardwareAddress.size() == 6, "DHCP needs an Ethernet address");
}

kj::Maybe<const Ip&> Client6::leaving() const {
  KJ_IF_MAYBE (there, past) return there->address;
  return nullptr;
}

// --- inputs

Client6::Actions Client6::linkDown() {
  down();
  return {};
}

void Client6::down() {
  LeaseCycle::down();
  past = nullptr;
  onLink = false;
}

// The unwanted address stays on the link, so it is not ours to release; a DECLINE is sent all the
// same.
bool Client6::ownTimeout(Moment now, Actions& out) {
  if (!onLink || !reached(next, now.time)) return false;
  if (current == State::kReleasing) {
    down();
  } else {
    onLink = false;
    enter(State::kDeclining, now, out);
  }
  return true;
}

void Client6::left(Moment now, Actions& out) {
  if (current == State::kReleasing) {
    down();
  } else {
    requestAgain(conflicts, now, out);
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
  bool gives = partFrom("it is no longer wanted", out) && valid && current != State::kDown;
  if (current == State::kDeclining) return out;  // DECLINE ends first
  if (gives) {
    leave(State::kReleasing, now);
  } else {
    down();
  }
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

// Returns true if there was an address.
bool Client6::partFrom(kj::StringPtr cause, Actions& out) {
  bool any = false;
  KJ_IF_MAYBE (lease, held) {
    KJ_IF_MAYBE (address, lease->address) {
      past = Past{*address, copyOf(lease->server)};
      any = true;
    }
    lose(cause, out);
  }
  return any;
}

// §16: an acceptable message carries both identifiers, the client's being ours, and belongs to the
// current exchange.
bool Client6::acceptable(const Message6& message) const {
  return listens() && message.exchange == (exchange & kExchangeMask) &&
         message.client.asPtr() == identifier && message.server.size() > 0;
}

Client6::Actions Client6::handle(const Message6& message, Moment now) {
  Actions out;
  if (!acceptable(message)) return out;
  // §21.24, 21.25: this holds also for messages of servers that offer nothing.
  KJ_IF_MAYBE (seconds, settings.address ? message.longestSolicit : message.longestInformation) {
    auto wanted = uint64_t(*seconds) * kj::SECONDS;
    if (wanted >= kLeastOfLongest && wanted <= kMostOfLongest) longest = wanted;
  }
  if (message.type == Type6::kAdvertise && current == State::kSelecting) {
    advertised(message, now, out);
  } else if (message.type == Type6::kReply) {
    replied(message, now, out);
  }
  return out;
}

// Takes the best advertisement that arrives before the first pause ends, or else the first after
// it.
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
    case State::kSelecting:
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
        lose("the server gives it no longer", out);  // after a renewal
        requestAgain(failures, now, out);
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
        conflicts = 0;  // The address was in use without a conflict.
      } else if (status == Status6::kNoBinding) {
        // A server that has lost its records gives the address again (§18.2.10.1), so the address
        // stays in use.
        best = parse6(encode(message)).message;
        enter(State::kRequesting, now, out);
      } else if (status == Status6::kNotOnLink) {
        lose("it does not belong to this link", out);
        enter(State::kSelecting, now, out);
      }
      return;
    case State::kConfirming:
      if (status == Status6::kNotOnLink) {
        lose("it does not belong to this link", out);
        enter(State::kSelecting, now, out);
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
      // The reply's status is ignored (§18.2.10.3).
      KJ_IF_MAYBE (there, past) {
        if (message.server.asPtr() != there->server.asPtr()) return;
      }
      left(now, out);
      return;
    default:
      return;
  }
}

// --- the life cycle

unsigned Client6::mostTries() const {
  return exchangeOf(current).count;
}

// If a server keeps offering addresses that it does not grant, or that other machines have, the
// client requests at ever longer intervals (§14.1).
kj::Duration Client6::refusalPause(unsigned count, Moment now) const {
  auto wait = (1u << kj::min(count, 12u)) * kj::SECONDS;
  return spread(kj::min(wait, longest), now.random, false);
}

void Client6::send(Moment now, Actions& out) {
  out.add(Send6{message(now)});
  auto& rule = exchangeOf(current);
  auto most = rule.longest > 0 ? rule.longest * kj::SECONDS : longest;
  auto base = tries == 0 ? rule.first * kj::SECONDS : kj::min(lastPause * 2, most);
  lastPause = spread(base, now.random, tries == 0 && current == State::kSelecting);
  ++tries;
  sent = now.time;
  next = now.time + lastPause;
  if (current != State::kRenewing) return;
  KJ_IF_MAYBE (lease, held) {
    KJ_IF_MAYBE (rebind, lease->rebind) {
      if (*rebind > now.time) next = kj::min(*rebind, now.time + lastPause);
    }
  }
}

Message6 Client6::message(Moment now) const {
  Message6 message;
  message.type = exchangeOf(current).type;
  message.exchange = exchange & kExchangeMask;  // the same in all tries (§16.1)
  message.client = copyOf(identifier);
  auto elapsed = (now.time - began) / (10 * kj::MILLISECONDS);
  message.elapsed = static_cast<uint16_t>(kj::min(elapsed, int64_t(0xffff)));
  message.rapidCommit = current == State::kSelecting;
  message.wanted.addAll(wantedIn(message.type));
  auto about = subject(now);
  message.server = copyOf(about.server);
  if (message.type == Type6::kInformationRequest) return message;
  Association6 association;
  association.id = number;
  KJ_IF_MAYBE (address, about.address) {
    association.addresses.add(Address6{.address = *address});
  }
  message.associations.add(kj::mv(association));
  return message;
}

Client6::Subject Client6::subject(Moment now) const {
  switch (current) {
    case State::kRequesting:
      KJ_IF_MAYBE (offer, best) {
        Subject result{nullptr, offer->server};
        KJ_IF_MAYBE (lease, leaseOf(*offer, number, now.time)) {
          result.address = lease->address;
        } else KJ_IF_MAYBE (known, held) {
          result.address = known->address;
        }
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

}  // namespace talos::networkd::dhcp
