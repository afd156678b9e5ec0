#include "networkd/dhcp/dhcp-operator4.h"

#include <net/ethernet.h>

#include "common/base/log.h"

namespace talos::networkd::dhcp {
namespace {

Ip broadcastAddress() {
  static constexpr kj::byte kOnes[] = {255, 255, 255, 255};
  return KJ_ASSERT_NONNULL(Ip::fromBytes(kOnes));
}

}  // namespace

Operator4::Operator4(Dependencies deps, kj::StringPtr name, LinkState link, kj::StringPtr hostname,
                     kj::Function<void()> changed)
    : Operator(deps, "DHCP", "dhcp4", name, kj::mv(link), kj::mv(changed)),
      machine(Settings4{copyOf(state.hardwareAddress), kj::str(hostname), deps.asksForMtu},
              load()) {
  bool starts = state.running;
  state.running = false;
  setRunning(starts);
  running = run().eagerlyEvaluate([this](kj::Exception&& e) {
    log::error("DHCP stopped", {{"link", this->name}, {"error", messageOf(e)}});
  });
}

// Ignores the lease of another card that had this name.
kj::Maybe<Lease4> Operator4::load() {
  auto result = decodeLease4(readFile(), deps.timer.now());
  KJ_IF_MAYBE (lease, result) {
    auto parsed = parse4(lease->message);
    if (KJ_ASSERT_NONNULL(parsed.message).hardwareAddress != state.hardwareAddress) return nullptr;
  }
  return result;
}

kj::Maybe<const Lease&> Operator4::lease() const {
  KJ_IF_MAYBE (there, machine.lease()) return *there;
  return nullptr;
}

void Operator4::setRunning(bool running) {
  if (running == state.running) return;
  state.running = running;
  // Runs at once, not in the loop: the first packet leaves with the event of the carrier.
  auto actions = running ? machine.linkUp(moment()) : machine.linkDown(moment());
  perform(kj::mv(actions));
}

void Operator4::stop() {
  running = nullptr;
  perform(machine.stop(moment()));
}

kj::Vector<Listener*> Operator4::sockets() {
  // Also kept open to decline an address in use, which the answer to a probe reveals later.
  if (!machine.listens() && !machine.probes()) packets = nullptr;
  if (!machine.probes()) arp = nullptr;
  kj::Vector<Listener*> open;
  for (auto* listener : {&packets, &arp}) {
    KJ_IF_MAYBE (there, *listener) open.add(there->get());
  }
  return open;
}

void Operator4::openSockets() {
  if (machine.listens()) open(packets, [this] { return openPackets4(state.index); });
  if (machine.probes()) open(arp, [this] { return openArp(state.index); });
}

void Operator4::timeout() {
  if (reached(deadline(), deps.timer.now())) perform(machine.timeout(moment()));
}

// Handles each packet as if it had arrived alone: changes by the previous packet count.
bool Operator4::drain() {
  bool more = false;
  KJ_IF_MAYBE (listener, packets) {
    more |= receive((*listener)->get(), [this](const Received& received) {
      KJ_IF_MAYBE (datagram, unwrap4(received.bytes, kClientPort4, received.checked)) {
        auto parsed = parse4(datagram->payload);
        KJ_IF_MAYBE (message, parsed.message) handle(*message, received.sender);
      }
    });
  }
  KJ_IF_MAYBE (listener, arp) {
    more |= receive((*listener)->get(), [this](const Received& received) {
      KJ_IF_MAYBE (packet, parseArp(received.bytes)) perform(machine.handle(*packet, moment()));
    });
  }
  return more;
}

void Operator4::handle(const Message4& message, Bytes sender) {
  auto before = machine.state();
  auto actions = machine.handle(message, moment());
  bool taken = machine.state() != before && message.type == Message4::Type::kAck;
  if (taken) serverHardware = copyOf(sender);
  perform(kj::mv(actions));
}

void Operator4::perform(Client4::Actions actions) {
  performAll(machine, kj::mv(actions), [this](const Action4& action) {
    KJ_SWITCH_ONEOF(action) {
      KJ_CASE_ONEOF(broadcast, Broadcast) {
        send(broadcast);
      }
      KJ_CASE_ONEOF(message, Unicast) {
        send(message);
      }
      KJ_CASE_ONEOF(release, Release) {
        send(release);
      }
      KJ_CASE_ONEOF(packet, SendArp) {
        send(packet);
      }
      KJ_CASE_ONEOF(bound, Bound) {
        KJ_IF_MAYBE (lease, machine.lease()) obtained(encode(*lease));
      }
      KJ_CASE_ONEOF(end, Lost) {
        serverHardware = nullptr;
        lost(end.cause);
      }
    }
  });
}

void Operator4::send(const Broadcast& broadcast) {
  KJ_IF_MAYBE (listener, packets) {  // else the failure to open the socket was logged
    attempt("cannot send to all servers", [&] {
      // A renewal by broadcast has our source address; every other packet has 0.0.0.0.
      auto packet = wrap4(broadcast.message.client, kClientPort4, broadcastAddress(), kServerPort4,
                          encode(broadcast.message));
      sendToAll((*listener)->get(), state.index, ETHERTYPE_IP, packet);
    });
  }
}

void Operator4::send(const Unicast& message) {
  attempt("cannot send to the server", [&] {
    unicast = openUnicast4(name, message.from);
    sendTo(KJ_ASSERT_NONNULL(unicast), message.to, kServerPort4, 0, encode(message.message));
  });
}

void Operator4::send(const Release& release) {
  log::info("releasing the lease",
            {{"link", name}, {"address", release.from}, {"server", release.to}});
  attempt("cannot send to the server", [&] {
    auto packet =
        wrap4(release.from, kClientPort4, release.to, kServerPort4, encode(release.message));
    auto fd = openPackets4(state.index);
    if (serverHardware.size() > 0) {
      sendTo(fd, serverHardware, state.index, ETHERTYPE_IP, packet);
    } else {
      sendToAll(fd, state.index, ETHERTYPE_IP, packet);
    }
  });
}

void Operator4::send(const SendArp& packet) {
  attempt("cannot send ARP", [&] {
    kj::AutoCloseFd own;
    int fd = -1;
    KJ_IF_MAYBE (listener, arp) {
      fd = (*listener)->get();
    } else {
      fd = own = openArp(state.index);
    }
    sendToAll(fd, state.index, ETHERTYPE_ARP, encode(packet.arp));
  });
}

}  // namespace talos::networkd::dhcp
