#include "networkd/dns/dns-upstreams.h"

#include <algorithm>

namespace talos::networkd::dns {

std::optional<Endpoint> Attempts::next() {
  if (order.empty()) return std::nullopt;
  if (position >= order.size()) position = 0;
  return order[position++];
}

void Attempts::failed() {
  if (position == 0) return;
  order.erase(order.begin() + ptrdiff_t(--position));
}

void Upstreams::set(std::vector<Endpoint> upstreams) {
  list = std::move(upstreams);
  silences.clear();
}

Attempts Upstreams::attempts(kj::TimePoint now) const {
  auto order = list;
  std::stable_partition(order.begin(), order.end(), [&](const Endpoint& upstream) {
    return std::none_of(silences.begin(), silences.end(), [&](const Silence& silence) {
      return silence.upstream == upstream && now < silence.until;
    });
  });
  return Attempts(std::move(order));
}

void Upstreams::answered(const Endpoint& upstream) {
  std::erase_if(silences, [&](const Silence& silence) { return silence.upstream == upstream; });
}

void Upstreams::silent(const Endpoint& upstream, kj::TimePoint now) {
  answered(upstream);
  silences.push_back({upstream, now + kSilentPause});
}

}  // namespace talos::networkd::dns
