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
  answers.clear();
}

Attempts Upstreams::attempts(kj::TimePoint now) const {
  auto order = list;
  std::stable_partition(order.begin(), order.end(), [&](const Endpoint& upstream) {
    return std::none_of(silences.begin(), silences.end(), [&](const Event& silence) {
      return silence.upstream == upstream && now < silence.time;
    });
  });
  return Attempts(std::move(order));
}

void Upstreams::answered(const Endpoint& upstream, kj::TimePoint now) {
  forget(silences, upstream);
  forget(answers, upstream);
  answers.push_back({upstream, now});
}

void Upstreams::silent(const Endpoint& upstream, kj::TimePoint began, kj::TimePoint now) {
  bool works = std::any_of(answers.begin(), answers.end(), [&](const Event& answer) {
    return answer.upstream == upstream && answer.time >= began;
  });
  if (works) return;
  forget(silences, upstream);
  silences.push_back({upstream, now + kSilentPause});
}

void Upstreams::forget(std::vector<Event>& events, const Endpoint& upstream) {
  std::erase_if(events, [&](const Event& event) { return event.upstream == upstream; });
}

}  // namespace talos::networkd::dns
