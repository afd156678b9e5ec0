#include "networkd/plan/tunnel-ports.h"

#include <algorithm>

#include "networkd/plan/first-mtus.h"

namespace talos::networkd {

namespace {

bool addOnce(std::vector<TunnelPort>& ports, TunnelPort port) {
  if (std::find(ports.begin(), ports.end(), port) != ports.end()) return false;
  ports.push_back(port);
  return true;
}

// Returns the port that the config gives to the link; 0 if it gives none.
uint16_t wantedPort(const Wanted& wanted, const Observed& observed, unsigned link) {
  KJ_IF_MAYBE (there, observed.link(link)) {
    for (auto& want : wanted.links) {
      if (want.name == there->name) return want.wireguard.listenPort;
    }
  }
  return 0;
}

}  // namespace

bool remember(std::vector<TunnelPort>& ports, const Wanted& wanted, const Observed& observed) {
  bool added = false;
  for (auto& tunnel : observed.tunnels) {
    auto port = wantedPort(wanted, observed, tunnel.link);
    if (port != 0 && addOnce(ports, {tunnel.link, port})) added = true;
  }
  return added;
}

bool forget(std::vector<TunnelPort>& ports, const Wanted& wanted, const Observed& observed) {
  return std::erase_if(ports, [&](auto& known) {
           for (auto& tunnel : observed.tunnels) {
             if (tunnel.link != known.link) continue;
             return tunnel.device.listenPort != known.port &&
                    wantedPort(wanted, observed, known.link) != known.port;
           }
           return true;
         }) > 0;
}

kj::String format(const std::vector<TunnelPort>& ports) {
  kj::Vector<kj::String> lines;
  for (auto& known : ports) lines.add(kj::str(known.link, " ", known.port, "\n"));
  return kj::strArray(lines, "");
}

std::vector<TunnelPort> parseTunnelPorts(kj::StringPtr text) {
  std::vector<TunnelPort> ports;
  forEachPair(text, [&](unsigned link, unsigned port) {
    if (port > 0 && port <= UINT16_MAX) addOnce(ports, {link, static_cast<uint16_t>(port)});
  });
  return ports;
}

}  // namespace talos::networkd
