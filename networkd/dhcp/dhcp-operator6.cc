#include "networkd/dhcp/dhcp-operator6.h"

#include <linux/if_addr.h>

#include "common/base/log.h"

namespace talos::networkd::dhcp {
namespace {

constexpr int kUnpassedHops = 255;  // hop limit of a packet that no router has forwarded (RFC 4861
                                    // §6.1.2)
constexpr unsigned kSolicitations = 3;  // RFC 4861 §6.3.7
constexpr auto kSolicitPause = 4 * kj::SECONDS;
constexpr unsigned kQuickLooks = 300;
constexpr auto kQuickLook = 100 * kj::MILLISECONDS, kSlowLook = 1 * kj::SECONDS;

}  // namespace

Operator6::Operator6(Kind kind, Dependencies deps, kj::StringPtr name, LinkState link,
                     kj::Function<void()> changed, kj::Array<kj::byte> identifier)
    : Operator(deps, "DHCPv6", "dhcp6", name, kj::mv(link), kj::mv(changed)),
      kind(kind),
      identifier(kj::mv(identifier)) {
  if (kind == Kind::kDhcp) startClient(true);
  bool starts = state.running;
  state.running = false;
  setRunning(starts);
  running = run().eagerlyEvaluate([this](kj::Exception&& e) {
    log::error("DHCPv6 stopped", {{"link", this->name}, {"error", messageOf(e)}});
  });
}

void Operator6::startClient(bool address) {
  auto settings = [&] {
    return Settings6{copyOf(state.hardwareAddress), address, copyOf(identifier)};
  };
  kj::Maybe<Lease6> kept;
  if (address) {
    Client6 plain(settings());
    kept = decodeLease6(readFile(), plain.association(), plain.duid(), deps.timer.now());
  }
  machine = kj::heap<Client6>(settings(), kj::mv(kept));
}

kj::Maybe<const Client6&> Operator6::client() const {
  KJ_IF_MAYBE (there, machine) return **there;
  return nullptr;
}

kj::Maybe<const Lease&> Operator6::lease() const {
  KJ_IF_MAYBE (client, machine) {
    KJ_IF_MAYBE (there, (*client)->lease()) return *there;
  }
  return nullptr;
}

kj::Maybe<const Advertised&> Operator6::advertised() const {
  if (kind == Kind::kRouters) return routers;
  return nullptr;
}

void Operator6::setRunning(bool running) {
  if (running == state.running) return;
  state.running = running;
  looks = 0;
  if (running) {
    look();
  } else {
    lookAt = solicitAt = nullptr;
    KJ_IF_MAYBE (client, machine) perform((*client)->linkDown());
  }
  wake();
  changed();
}

void Operator6::stop() {
  lookAt = solicitAt = nullptr;
  KJ_IF_MAYBE (client, machine) perform((*client)->release(moment()));
  if (kind == Kind::kDhcp) removeFile();
}

bool Operator6::ended() const {
  KJ_IF_MAYBE (client, machine) return (*client)->ended();
  return true;
}

bool Operator6::watches() const {
  if (kind != Kind::kDhcp) return false;
  KJ_IF_MAYBE (client, machine)
    return (*client)->lease() != nullptr || (*client)->leaving() != nullptr;
  return false;
}

void Operator6::see(kj::ArrayPtr<const netlink::Address> addresses) {
  auto flagsOf = [&](const Ip& address) -> kj::Maybe<uint32_t> {
    for (auto& there : addresses) {
      if (there.link == state.index && there.prefix.address == address) return there.flags;
    }
    return nullptr;
  };
  KJ_IF_MAYBE (client, machine) {
    KJ_IF_MAYBE (lease, (*client)->lease()) {
      KJ_IF_MAYBE (address, lease->address) {
        bool duplicate = (flagsOf(*address).orDefault(0) & IFA_F_DADFAILED) != 0;
        if (duplicate) perform((*client)->duplicated(moment()));
      }
    } else KJ_IF_MAYBE (address, (*client)->leaving()) {
      if (flagsOf(*address) == nullptr) perform((*client)->removed(moment()));
    }
  }
}

kj::StringPtr Operator6::stateName() const {
  if (!state.running) return "no carrier";
  if (kind == Kind::kRouters) return routers.any() ? "advertised" : "listening";
  auto now = KJ_ASSERT_NONNULL(machine)->state();
  return now == LeaseState::kDown ? "no link-local address"_kj : nameOf(now);
}

void Operator6::look() {
  lookAt = nullptr;
  if (!hasLinkLocal(name, state.index)) {
    lookAt = deps.timer.now() + (looks < kQuickLooks ? kQuickLook : kSlowLook);
    ++looks;
    return;
  }
  solicitations = 0;
  if (kind == Kind::kRouters) solicit();
  KJ_IF_MAYBE (client, machine) perform((*client)->linkUp(moment()));
}

void Operator6::solicit() {
  openSockets();
  KJ_IF_MAYBE (listener, icmp) {  // else the failure to open the socket was logged
    attempt("cannot send to the routers", [&] {
      sendTo((*listener)->get(), Ip::require("ff02::2"), 0, state.index,
             routerSolicitation(state.hardwareAddress));
    });
  }
  solicitAt = nullptr;
  if (++solicitations < kSolicitations) solicitAt = deps.timer.now() + kSolicitPause;
}

kj::Maybe<kj::TimePoint> Operator6::deadline() const {
  kj::Maybe<kj::TimePoint> clients;
  KJ_IF_MAYBE (client, machine) clients = (*client)->deadline();
  return earliest({lookAt, solicitAt, routers.deadline(), clients});
}

void Operator6::timeout() {
  auto now = deps.timer.now();
  if (reached(lookAt, now)) look();
  if (reached(solicitAt, now)) solicit();
  if (routers.expire(now)) changed();
  KJ_IF_MAYBE (client, machine) {
    if (reached((*client)->deadline(), now)) perform((*client)->timeout(moment()));
  }
}

bool Operator6::usesServer() const {
  KJ_IF_MAYBE (client, machine) return (*client)->listens();
  return false;
}

kj::Vector<Listener*> Operator6::sockets() {
  if (!usesServer()) udp = nullptr;
  if (!state.running) icmp = nullptr;
  kj::Vector<Listener*> open;
  for (auto* listener : {&udp, &icmp}) {
    KJ_IF_MAYBE (there, *listener) open.add(there->get());
  }
  return open;
}

bool Operator6::drain() {
  bool more = false;
  KJ_IF_MAYBE (listener, udp) {
    more |= receive((*listener)->get(), [this](const Received& received) {
      auto parsed = parse6(received.bytes);
      KJ_IF_MAYBE (message, parsed.message) {
        KJ_IF_MAYBE (client, machine) perform((*client)->handle(*message, moment()));
      }
    });
  }
  KJ_IF_MAYBE (listener, icmp) {
    more |= receive((*listener)->get(), [this](const Received& received) {
      if (received.hopLimit != kUnpassedHops || !received.from.isLinkLocal()) return;
      KJ_IF_MAYBE (message, parseAdvertisement(received.bytes)) {
        solicitAt = nullptr;
        if (routers.handle(*message, deps.timer.now())) changed();
        if (routers.other() && machine == nullptr) {
          startClient(false);
          KJ_IF_MAYBE (client, machine) perform((*client)->linkUp(moment()));
        }
      }
    });
  }
  return more;
}

void Operator6::openSockets() {
  if (kind == Kind::kRouters) open(icmp, [this] { return openAdvertisements(name, state.index); });
  if (usesServer()) open(udp, [this] { return openUdp6(name); });
}

void Operator6::perform(Client6::Actions actions) {
  performAll(*KJ_ASSERT_NONNULL(machine), kj::mv(actions), [this](const Action6& action) {
    KJ_SWITCH_ONEOF(action) {
      KJ_CASE_ONEOF(send, Send6) {
        KJ_IF_MAYBE (listener, udp) {
          attempt("cannot send to all servers", [&] {
            sendTo((*listener)->get(), Ip::require("ff02::1:2"), kServerPort6, state.index,
                   encode(send.message));
          });
        }
      }
      KJ_CASE_ONEOF(bound, Bound) {
        KJ_IF_MAYBE (lease, KJ_ASSERT_NONNULL(machine)->lease()) obtained(encode(*lease));
      }
      KJ_CASE_ONEOF(end, Lost) {
        lost(end.cause);
      }
    }
  });
}

}  // namespace talos::networkd::dhcp
